package longtext

import (
	"fmt"
	"strconv"
	"strings"

	"qq/pkg/llm"
	"qq/pkg/task"
)

// place is the range of parts and lines that a summary covers.
type place struct {
	from, to, of int // parts, from 1
	first, last  int // lines
	title        string
}

// parts names the parts, for example "part 3 of 41".
func (p place) parts() string {
	if p.from == p.to {
		return fmt.Sprintf("part %d of %d", p.from, p.of)
	}
	return fmt.Sprintf("parts %d to %d of %d", p.from, p.to, p.of)
}

// lines names the lines, for example "lines 120-260".
func (p place) lines() string {
	if p.first == p.last {
		return fmt.Sprintf("line %d", p.first)
	}
	return fmt.Sprintf("lines %d-%d", p.first, p.last)
}

// heading returns the Markdown heading of a summary in the joined text.
func (p place) heading() string {
	parts := p.parts()
	h := "## P" + parts[1:] + " (" + p.lines() + ")"
	if p.title != "" {
		h += ": " + p.title
	}
	return h + "\n\n"
}

// The prompts are made for small models. The instruction comes first. The request comes
// last, where it has the most weight. After the request they say what it is for, because
// small models would otherwise carry it out.
const (
	mapText = "Summarize the text in the context in at most %d words.\n\n" +
		"The text is %s of a long document, %s%s. Your summary takes its place: nobody will read the text again. " +
		"Keep facts, names, figures, dates, conditions and exceptions exactly as they are. Add nothing.\n\n"
	reduceText = "Summarize the text in the context in at most %d words.\n\n" +
		"The text is a list of summaries: of %s of a long document, in order. " +
		"Make one summary of them, which takes their place. " +
		"Keep facts, names, figures, dates, conditions and exceptions exactly as they are, " +
		"and say in which part they are where that matters. Add nothing.\n\n"
	purpose = "Keep above all what helps with this request:\n\n<request>\n%s\n</request>\n\n" +
		"The request is carried out later, by somebody else. Answer with the summary only."
)

// prompts makes the prompts of the summarizer.
type prompts struct {
	request string
	words   int // largest number of words of a summary
}

// forPart returns the prompt to summarize the part at a place.
func (p prompts) forPart(at place) string {
	title := ""
	if at.title != "" {
		title = ", in the section \"" + at.title + "\""
	}
	return fmt.Sprintf(mapText, p.words, at.parts(), at.lines(), title) + fmt.Sprintf(purpose, p.request)
}

// forGroup returns the prompt to make one summary of the summaries at a place.
func (p prompts) forGroup(at place) string {
	return fmt.Sprintf(reduceText, p.words, at.parts()) + fmt.Sprintf(purpose, p.request)
}

// widest returns a place whose description is longer than that of any real place, to
// measure the longest prompt.
func widest() place {
	const n = 99_999_999
	return place{from: n - 1, to: n, of: n, first: n - 1, last: n, title: strings.Repeat("字", maxTitle)}
}

// around returns the number of tokens of the longest prompt, including the marks that
// enclose the context.
func (p prompts) around(tokens func(string) int) int {
	const slack = 8 // the pieces of a text can have fewer tokens than the whole
	part, group := llm.WithContext(p.forPart(widest()), "-"), llm.WithContext(p.forGroup(widest()), "-")
	return slack + max(tokens(part), tokens(group))
}

// wordsFor returns how many words to ask for in order to get at most n tokens.
func wordsFor(n int) int {
	words := n * 2 / 3
	if words > 50 {
		words -= words % 10
	}
	return max(words, 10)
}

// taskFor returns a task for the summarizer. It is marked idempotent, because the
// summarizer only reads.
func taskFor(id, text, context string) task.Task {
	return task.Task{ID: id, Agent: Summarizer, Text: text, Context: context, ReadOnly: true, Idempotent: true}
}

// preface returns the beginning of the joined text, which tells the model that it reads
// summaries.
func preface(characters, parts int) string {
	return "These are summaries of a document of " + group(characters) + " characters, which was too long " +
		"to be given as a whole. It was read in " + group(parts) + " parts; they are in order.\n\n"
}

// group writes n with commas between thousands.
func group(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
