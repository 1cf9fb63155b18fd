package extract

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"qq/internal/models/extract/digest"
	"qq/internal/models/extract/prose"
	"qq/pkg/llm"
)

// request is what a message asks for.
type request struct {
	digest.Wish
	targets  []target
	guesses  []string // bare words that may name a file or a folder
	exts     []string // only files with one of these extensions
	material string   // the text itself, from the message or its context
}

// target is a file, a folder or a glob that a request names.
type target struct {
	name    string // as it was written
	path    string
	pattern string   // for list_files; empty for a file
	longer  []string // other names that may be meant: path with the words before it
}

// longText is from how many words on the rest of a line is a text to work on
// and no longer a part of the request.
const longText = 30

// lastRequest finds the request that a conversation stands at, and the index of
// the message that names its material. A message that only says how ("now the
// keywords") takes the material of the one before. One that is no request takes
// the whole one before where it can only mean that: work is unfinished, it says
// "continue", or again, because the same answer is wanted in another form.
func lastRequest(messages []llm.Message, again bool) (request, int, error) {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role != llm.User {
			continue
		}
		text, context := llm.SplitContext(messages[i].Content)
		req, problem := parseRequest(text, context)
		if problem == "" && !req.empty() {
			return req, i, nil
		}
		earlier, since, err := lastRequest(messages[:i], again)
		switch {
		case problem == "" && err == nil:
			earlier.Wish = req.Wish
			return earlier, since, nil
		case problem == "":
			return request{}, 0, nothingGiven()
		case err == nil && (again || unfinished(messages[:i]) || saysContinue(text)):
			return earlier, since, nil
		}
		return request{}, 0, unsupported(problem)
	}
	return request{}, 0, unsupported("the conversation has no request")
}

func (r request) empty() bool {
	return r.material == "" && len(r.targets) == 0 && len(r.guesses) == 0
}

// unfinished reports whether a conversation ends in the middle of tool calls.
func unfinished(messages []llm.Message) bool {
	if len(messages) == 0 {
		return false
	}
	last := messages[len(messages)-1]
	return last.Role == llm.ToolRole || len(last.Calls) > 0
}

func saysContinue(text string) bool {
	for i, w := range tokenize(text) {
		switch w.low {
		case "continue", "proceed", "again", "repeat", "resume", "retry":
			return i < 3
		}
	}
	low := strings.ToLower(strings.TrimSpace(text))
	return strings.HasPrefix(low, "go on") || strings.HasPrefix(low, "carry on") || strings.HasPrefix(low, "keep going")
}

func unsupported(problem string) error {
	return &llm.Error{
		Kind:    llm.Unsupported,
		Problem: problem,
		Hint:    `for this install a model: "ollama pull qwen3:4b", then run again; or name one with --model ollama:NAME`,
	}
}

func nothingGiven() error {
	return &llm.Error{
		Kind:    llm.Unsupported,
		Problem: "the request names no file or folder and gives no text to work on",
		Hint:    `name a file or a folder, or pipe the text in; for questions without a text install a model: "ollama pull qwen3:4b", then run again; or --model ollama:NAME`,
	}
}

const notOurs = "the built-in model only summarizes, lists key points or keywords, and outlines"

// parseRequest reads a request and the context given with it. The problem is
// empty when the request is one that this package answers.
func parseRequest(text, context string) (request, string) {
	text = strings.TrimSpace(text)
	first, rest, _ := strings.Cut(text, "\n")
	req, problem := parseHead(first)
	body, introduced := rest, false
	if problem == "" {
		if head, after, ok := cutColon(first); ok {
			if short, p := parseHead(head); p == "" {
				req, body, introduced = short, after+"\n"+rest, true
			}
		}
	} else if last := strings.LastIndexByte(text, '\n'); last > 0 {
		if tail, p := parseHead(text[last+1:]); p == "" { // the text first, the request last
			req, problem, body, introduced = tail, "", text[:last], true
		} else if prose.Count(text) <= 2*longText {
			req, problem = parseHead(strings.ReplaceAll(text, "\n", " "))
			body = ""
		}
	}
	if problem != "" {
		return request{}, problem
	}
	low := strings.ToLower(first)
	introduced = introduced || strings.Contains(low, "following") || strings.Contains(low, "below")
	if problem := req.addBody(first, strings.TrimSpace(body), introduced, context != ""); problem != "" {
		return request{}, problem
	}
	if context != "" && (req.material == "" || prose.Count(req.material) < longText) {
		req.material = context
	}
	if req.material != "" {
		req.guesses = nil
	}
	return req, ""
}

// addBody decides what the text behind the request is: the text to work on, a
// list of files, or more wishes.
func (r *request) addBody(first, body string, introduced, hasContext bool) (problem string) {
	if body == "" {
		return ""
	}
	list, isList := pathList(body)
	if !introduced && (!isList || !r.empty() || !listAhead(first)) && prose.Count(body) < longText &&
		slices.ContainsFunc(tokenize(body), func(w token) bool { return w.path }) {
		return "the request names files on several lines, which may be one name with a line break: name each on the first line, or in backquotes"
	}
	if isList {
		r.targets = append(r.targets, list...)
		return ""
	}
	if !introduced && (len(r.targets) > 0 || hasContext) {
		more := headParser{words: tokenize(body)}
		more.counts(&r.Wish)
		return more.otherWork()
	}
	r.material, r.targets, r.guesses = unquote(body), nil, nil
	return ""
}

// listAhead reports whether a line may stand before a list of names: it does
// not end in what may be the beginning of one.
func listAhead(line string) bool {
	words := tokenize(line)
	switch words[len(words)-1].low {
	case "these", "files", "documents", "texts", "folders", "sentence", "sentences", "words", "points", "keywords", "of", "summarize", "summarise", "outline":
		return true
	}
	return false
}

// pathList reads a text that consists of file names only.
func pathList(body string) ([]target, bool) {
	var list []target
	for _, w := range tokenize(body) {
		switch {
		case w.path:
			list = append(list, targetOf(w.text))
		case w.low != "and" && w.low != "file" && w.low != "files" && w.low != "*":
			return nil, false
		}
		if len(list) > 1000 {
			return nil, false
		}
	}
	return list, len(list) > 0
}

// cutColon splits a line at the first colon that ends a word.
func cutColon(line string) (head, after string, ok bool) {
	for i := range len(line) {
		if line[i] == ':' && (i+1 == len(line) || line[i+1] == ' ' || line[i+1] == '\t') {
			return line[:i], strings.TrimSpace(line[i+1:]), true
		}
	}
	return "", "", false
}

// unquote drops the fence or the quotes around a whole text.
func unquote(s string) string {
	for _, mark := range [...]string{"```", `"""`, "~~~"} {
		if inner, ok := strings.CutPrefix(s, mark); ok && strings.Count(s, mark) == 2 && strings.HasSuffix(s, mark) {
			if _, after, ok := strings.Cut(inner, "\n"); ok {
				inner = after
			}
			return strings.TrimSpace(strings.TrimSuffix(inner, mark))
		}
	}
	if len(s) > 1 && s[0] == '"' && s[len(s)-1] == '"' && strings.Count(s, `"`) == 2 {
		return s[1 : len(s)-1]
	}
	return s
}

// phrasebook is the English of requests.
type phrasebook struct {
	lead    map[string]bool // may stand before what is asked for
	filler  map[string]bool // never names a file
	article map[string]bool // stands before the name of a file
	other   map[string]bool // asks for work that quoting cannot do
	number  map[string]int
	unit    map[string]digest.Product
}

var requests = sync.OnceValue(func() *phrasebook {
	lead := set(`a an the me us i please kindly can could would will you your need want like to for of from in on at with and then just now also
		hi hello hey qq ok okay give write create make produce provide show list extract get find tell generate prepare return print output
		build draft do what are is be there let's lets have help return read open load look through take go over each every all both these those this that
		my our its it file files folder folders directory directories dir document documents doc text texts article content contents
		following below above most very short brief briefly concise quick small simple long detailed high level top main key important
		best good clear overall general executive one two three four five six seven eight nine ten eleven twelve sentence sentences
		paragraph word words line lines some few several only bulleted bullet numbered nested plain task`)
	filler := set(`summary summaries points point keywords keyword outline bullets bullets items item terms phrases headings sections
		page note paper report paragraphs section chapter markdown input context attached given english less than
		at least up no more about approximately around roughly under within max maximum minimum as using total length format form style list
		them here result results answer respond separately individually thanks thank important characters possible
		there piped provided pasted passage message story post blog email transcript log`)
	return &phrasebook{
		lead:    lead,
		filler:  filler,
		article: set("a an the this my our its file files document documents doc text article content contents of from for in on at and or to"),
		other: set(`translate compare comparing difference differences differ write save store put explain fix update edit create commit
			send rewrite improve review convert implement delete remove rename refactor run execute test critique evaluate
			poem haiku song tweet german french spanish italian portuguese chinese japanese korean russian polish dutch turkish arabic hindi`),
		number: map[string]int{"a": 1, "one": 1, "single": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
			"nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "fifteen": 15, "twenty": 20, "couple": 2},
		unit: map[string]digest.Product{"sentence": digest.Summary, "sentences": digest.Summary, "point": digest.Points, "points": digest.Points, "bullet": digest.Points,
			"bullets": digest.Points, "takeaway": digest.Points, "takeaways": digest.Points, "highlights": digest.Points, "facts": digest.Points, "ideas": digest.Points,
			"keyword": digest.Keywords, "keywords": digest.Keywords, "keyphrases": digest.Keywords, "phrases": digest.Keywords, "terms": digest.Keywords,
			"headings": digest.Outline, "sections": digest.Outline},
	}
})

// headParser reads the words of a request.
type headParser struct {
	line  string
	words []token
	used  []bool
}

// parseHead reads a line as a request. It is one when it begins by asking for a
// product and asks for nothing else.
func parseHead(line string) (request, string) {
	p := headParser{line: line, words: tokenize(line)}
	p.used = make([]bool, len(p.words))
	var req request
	book := requests()
	end, start := 0, -1 // of the last product
	for i := 0; i < len(p.words); i++ {
		what, n := p.productAt(i)
		if n == 0 {
			continue
		}
		if start < 0 {
			start = i
		}
		req.addProduct(what, end > 0 && p.joined(end, i))
		for j := i; j < i+n; j++ {
			p.used[j] = true
		}
		i += n - 1
		end = i + 1
	}
	if start < 0 {
		return request{}, notOurs
	}
	for _, w := range p.words[:start] {
		if _, isNumber := number(w.low); !w.path && !isNumber && !book.lead[w.low] {
			return request{}, notOurs
		}
	}
	if problem := p.otherWork(); problem != "" {
		return request{}, problem
	}
	p.counts(&req.Wish)
	if tail := p.words[min(end, len(p.words))-1].end; len(req.Products) == 1 && prose.Count(line[tail:]) >= longText {
		req.material = strings.Trim(line[tail:], " :;,.-\"")
		return req, ""
	}
	p.places(&req)
	return req, ""
}

// joined reports whether the products before and behind words[from:to] are both
// asked for ("and"), not one in the form of the other ("as").
func (p *headParser) joined(from, to int) bool {
	for i := from; i < to; i++ {
		if p.words[i].low == "and" || p.words[i].low == "plus" || p.words[i].low == "then" {
			return true
		}
	}
	return p.words[from-1].comma
}

// otherWork says which part of a request asks for what quoting cannot do.
func (p *headParser) otherWork() string {
	for i, w := range p.words {
		if strings.Contains(w.text, "://") {
			return "the built-in model does not read web pages: " + w.text
		}
		if before := p.before(i); w.path && (before == "to" || before == "into") {
			return notOurs + ": it writes no files such as " + w.text
		}
		if !w.path && !w.quoted && requests().other[w.low] && p.asks(i) {
			return notOurs + `: "` + w.text + `" needs a language model`
		}
	}
	return ""
}

// asks reports whether the word at i asks for other work: a verb behind "and",
// "then" or a comma, or a noun that says in which form.
func (p *headParser) asks(i int) bool {
	if i == 0 {
		return false
	}
	before := p.words[i-1]
	switch before.low {
	case "and", "then", "also", "to", "in", "into", "as", "a", "the", "between", "of", "or", "how", "&":
		return true
	}
	return before.comma
}

func (r *request) addProduct(p digest.Product, joined bool) {
	for _, have := range r.Products {
		if have == p {
			return
		}
	}
	if n := len(r.Products); n > 0 && !joined { // "summarize as key points"
		if p != digest.Summary {
			r.Products[n-1] = p
		}
		return
	}
	r.Products = append(r.Products, p)
}

// productAt returns what the words at i ask for and how many words say so.
func (p *headParser) productAt(i int) (digest.Product, int) {
	w := p.words[i]
	if w.path || w.quoted {
		return 0, 0
	}
	next := ""
	if i+1 < len(p.words) {
		next = p.words[i+1].low
	}
	switch w.low {
	case "summarize", "summarise", "summarizing", "summarising", "summary", "summaries", "summarization", "tl;dr", "tldr", "tl/dr", "recap", "gist", "synopsis":
		return digest.Summary, 1
	case "sum":
		if next == "up" {
			return digest.Summary, 2
		}
	case "key", "main", "important", "bullet", "essential", "central":
		switch next {
		case "points", "point", "takeaways", "facts", "ideas", "findings", "messages", "insights", "list":
			return digest.Points, 2
		case "words", "word", "phrases", "terms":
			return digest.Keywords, 2
		}
	case "takeaways", "highlights", "bullets", "keypoints":
		return digest.Points, 1
	case "keywords", "keyword", "keyphrases":
		return digest.Keywords, 1
	case "outline", "outlines", "toc":
		return digest.Outline, 1
	case "table":
		if next == "of" && i+2 < len(p.words) && p.words[i+2].low == "contents" {
			return digest.Outline, 3
		}
	}
	return 0, 0
}

// counts reads how much is wanted: "in 3 sentences", "top 10 keywords".
func (p *headParser) counts(w *digest.Wish) {
	for i, word := range p.words {
		n, ok := number(word.low)
		if word.low == "brief" || word.low == "briefly" || word.low == "short" || word.low == "concise" {
			w.Brief = true
		}
		if !ok || n == 0 || word.path {
			continue
		}
		for j := i + 1; j < min(i+5, len(p.words)) && !p.words[j-1].comma; j++ {
			low := p.words[j].low
			if what, n2 := p.productAt(j); n2 > 0 && what != digest.Summary {
				w.Count[what] = min(n, 100)
				break
			}
			if what, ok := requests().unit[low]; ok {
				w.Count[what] = min(n, 100)
				break
			}
			if low == "words" && n > 1 {
				w.Words = min(n, 5000)
				break
			}
			if (low == "lines" || low == "items") && len(w.Products) > 0 {
				w.Count[w.Products[0]] = min(n, 100)
				break
			}
		}
	}
}

func number(low string) (int, bool) {
	if n, ok := requests().number[low]; ok {
		return n, true
	}
	if low == "" || low[0] < '0' || low[0] > '9' {
		return 0, false
	}
	n, err := strconv.Atoi(low)
	return n, err == nil
}

// set makes a set of the words in a text.
func set(text string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(text) {
		m[w] = true
	}
	return m
}
