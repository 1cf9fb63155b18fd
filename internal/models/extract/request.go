package extract

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"qq/pkg/llm"
)

// product is a kind of answer, such as a summary or keywords.
type product int

const (
	summary product = iota
	points
	keywords
	outline
	products // how many there are
)

// productNames lists the words by which a request names each product.
var productNames = [products]string{
	summary:  "|summarize|summarise|summary|summaries|sum up|tl;dr|tldr|recap|",
	points:   "|key points|main points|important points|bullet points|key takeaways|takeaways|highlights|bullets|",
	keywords: "|keywords|keyword|key words|key phrases|tags|",
	outline:  "|outline|outlines|toc|table of contents|headings|",
}

// wish is the kind and the amount of the answer that a request asks for; 0 means the usual amount.
type wish struct {
	product product
	count   int // of its sentences, points, keywords or headings
	words   int // of a summary, at most
}

// request is a parsed message of the user.
type request struct {
	wish
	targets []target
	text    string // the text to work on, from the message or its context
}

// lastRequest returns the request to answer, and the index of the message that gives its files or its text. A
// message that only names a product ("now the keywords") is about the files or the text of the previous request.
// Any other message without a request repeats the previous request if that is unfinished or again is set.
func lastRequest(messages []llm.Message, again bool) (request, int, error) {
	for i, m := range slices.Backward(messages) {
		if m.Role != llm.User {
			continue
		}
		text, context := llm.SplitContext(m.Content)
		req, problem := parseRequest(text, context)
		if problem == "" && (req.text != "" || len(req.targets) > 0) {
			return req, i, nil
		}
		earlier, since, err := lastRequest(messages[:i], again)
		unfinished := i > 0 && (messages[i-1].Role == llm.ToolRole || len(messages[i-1].Calls) > 0)
		low := strings.ToLower(strings.Trim(text, " .!\n"))
		switch {
		case problem == "" && err == nil:
			earlier.wish = req.wish
			return earlier, since, nil
		case problem == "":
			problem = "the request names no file or folder and gives no text to work on"
		case err == nil && (again || unfinished || strings.HasSuffix(low, "continue") || low == "go on"):
			return earlier, since, nil
		}
		return request{}, 0, unsupported(problem)
	}
	return request{}, 0, unsupported("the conversation has no request")
}

func unsupported(problem string) error {
	return &llm.Error{
		Kind:    llm.Unsupported,
		Problem: problem,
		Hint: `for anything else ` + install + `; here say "summarize", "key points of", "keywords of" or ` +
			`"outline", and names of files (of folders: docs/) or a text`,
	}
}

// install is how to get a language model, unless [Backend.Instead] says it.
const install = `run qq setup, which finds a model or takes a key, or install one: "ollama pull qwen3:4b"`

const notOurs = "the built-in model only summarizes, lists key points or keywords, and outlines"

func unknownWord(word string) string {
	return notOurs + ": " + strconv.Quote(word) + " is neither a word it knows nor a file or folder"
}

// parseRequest parses a message and the context given with it. problem is empty if this package
// can answer the request.
func parseRequest(message, context string) (req request, problem string) {
	message = strings.TrimSpace(strings.ReplaceAll(message, "\r\n", "\n"))
	line, body, _ := strings.Cut(message, "\n\n")
	req, problem = parseLine(line)
	if at := colon().FindStringIndex(message); at != nil && (problem != "" || req.bareWord() != "") {
		if short, p := parseLine(message[:at[1]]); p == "" {
			req, problem, body = short, "", message[at[1]:]
		}
	}
	req.text = strings.TrimSpace(body)
	switch {
	case problem != "":
	case req.text == "":
		req.text = context
	case context != "":
		problem = "the request gives a text, and there is another one on stdin: give one of them"
	case len(req.targets) > 0:
		problem = "the request names files and gives a text as well: give one of them"
	}
	if word := req.bareWord(); problem == "" && word != "" && req.text != "" {
		problem = unknownWord(word)
	}
	return req, problem
}

// colon matches the text up to the first colon that ends a word of the first line.
var colon = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[^\n]*?:(?:\s|$)`) })

// bareWord returns the first unknown word of a request, which may be a file name, or "".
func (r request) bareWord() string {
	for _, t := range r.targets {
		if t.bare {
			return t.name
		}
	}
	return ""
}

const (
	// knownWords lists words that may stand anywhere in a request without a meaning of their own.
	knownWords = " a an the of from in for at most about and please can could would you i me us want need give show " +
		"list write make create get find extract read what are is be do now just also then instead again it its " +
		"this these them all each every both as file files folder folders directory document documents text texts " +
		"article content contents input context following above below here top best good only paragraph form " +
		"sentence sentences "
	// briefWords lists words that ask for less than usual: three sentences, points or keywords.
	briefWords = " brief briefly short concise "
	// inputWords lists words behind a number that counts what is read.
	inputWords = " file files folder folders document documents text texts article "
	// numbers lists the words for numbers; the index of a word is its value.
	numbers = " zero one two three four five six seven eight nine ten "
)

// has reports whether list contains word.
func has(list, word string) bool { return strings.Contains(list, " "+word+" ") }

// parseLine parses a request, which must be on one line. problem is "" if the line is a valid request.
func parseLine(line string) (req request, problem string) {
	line = strings.TrimSpace(line)
	if strings.Contains(line, "\n") {
		return req, "the request is longer than a line: put it on one line, and a text after a colon or an empty line"
	}
	req.product = -1
	number, numbered := 0, -2 // and the place of its word
	words := tokenize(line)
	for i := 0; i < len(words); i++ {
		w := words[i]
		what, size := productAt(words[i:])
		from, before := lead(words[:i])
		n := slices.Index(strings.Fields(numbers), w.low)
		if digits, err := strconv.Atoi(w.low); err == nil {
			n = min(digits, 5000)
		}
		switch {
		case size > 0 && req.product >= 0 && req.product != what && !has(" as in into ", before):
			return req, "the built-in model makes one thing at a time: a summary, key points, keywords or an outline"
		case size > 0:
			i += size - 1
			req.product = what
		case w.isForm(), has(" as into like ", before) && (w.name || !common(w.low)),
			number > 1 && w.low == "paragraph":
			return req, notOurs + ": it cannot write " + strconv.Quote(spell(words[from:i+1]))
		case w.name:
			req.targets = append(req.targets, targetOf(w.text))
		case n > 0:
			number, numbered = n, i
		case w.low == "word" || w.low == "words":
			req.words, number = number, 0
		case number == 1 && w.low == "paragraph", numbered == i-1 && has(inputWords, w.low):
			number = 0
		case has(briefWords, w.low):
			number = cmp.Or(number, 3)
		case has(knownWords, w.low):
		case req.product < 0:
			return req, notOurs
		default:
			req.targets = append(req.targets, target{name: w.text, path: w.text, pattern: "**", bare: true})
		}
	}
	if req.count = number; req.product < 0 {
		return req, notOurs
	}
	return req, ""
}

// common reports whether word says nothing about files, products or forms.
func common(word string) bool {
	_, err := strconv.Atoi(word)
	return err == nil || has(knownWords+briefWords+numbers, word)
}

// lead returns the last preposition in words that has only common words behind it, and its place; without one it
// returns "" and the end of words.
func lead(words []token) (from int, word string) {
	for i, w := range slices.Backward(words) {
		if has(" as in into like to of for from ", w.low) {
			return i, w.low
		}
		if !common(w.low) {
			break
		}
	}
	return len(words), ""
}

// productAt returns the product that the first words name, and the number of those words; 0 means
// none.
func productAt(words []token) (product, int) {
	phrase := ""
	for i, w := range words[:min(3, len(words))] {
		phrase = strings.TrimSpace(phrase + " " + w.low)
		for p, names := range productNames {
			if strings.Contains(names, "|"+phrase+"|") {
				return product(p), i + 1
			}
		}
	}
	return 0, 0
}

// handOn returns the request for one file, in words that parseRequest understands.
func (w wish) handOn(name string) string {
	if words := tokenize(name); len(words) != 1 || !words[0].name || words[0].text != name {
		name = "`" + name + "`"
	}
	many := ""
	if w.count > 0 {
		many = strconv.Itoa(w.count) + " "
	}
	list := "List the " + many
	verbs := [...]string{"Summarize ", list + "key points of ", list + "keywords of ", "Outline "}
	text := verbs[w.product] + "the file " + name
	if w.product == summary && w.words > 0 {
		text += " in " + count(w.words, "word")
	} else if w.product == summary && w.count > 0 {
		text += " in " + count(w.count, "sentence")
	}
	return text
}
