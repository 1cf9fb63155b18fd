package longtext

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"qq/pkg/llm"
	"qq/pkg/task"
)

const (
	// leastRoom is the smallest room for a part or for summaries: with less, the model
	// would read more prompt than text.
	leastRoom = 256
	// maxSummary is the longest summary that the plan chooses, in tokens: small models do
	// not write longer ones.
	maxSummary = 1000
	minSummary = 48
	// overHeading is the estimated number of tokens of the heading above each summary.
	overHeading = 24
	// maxLevels limits the number of levels. It is far more than needed as long as
	// summaries are shorter than their text.
	maxLevels = 8
)

// Plan says how the text of a [Job] will be cut and summarized. [Plan.Run] does it.
type Plan struct {
	// Parts are the parts of the text; none if it fits uncut.
	Parts []Part
	// Groups has an entry for each reduce level: into how many groups it will divide the
	// summaries, estimated for summaries of the planned length.
	Groups []int
	// Summary is how many tokens a summary should have.
	Summary int

	job        Job
	prompts    prompts
	room       int // tokens for the context of one summarizer call
	characters int
	tokens     int
}

// NewPlan cuts the text of j and plans the levels. It runs nothing. A plan without parts
// means that the text fits uncut. An error means that the model has too little room.
func NewPlan(j Job) (*Plan, error) {
	p := &Plan{job: j, characters: utf8.RuneCountInString(j.Text), tokens: j.Tokens(j.Text)}
	if p.tokens <= j.Room && j.Fits() {
		return p, nil
	}
	// The prompt contains the number of words. Until that is known, the longest number
	// takes its place.
	p.prompts = prompts{request: j.Request, words: 99_999}
	room := j.Room
	if j.PartRoom > 0 {
		room = min(room, j.PartRoom)
	}
	p.room = room - p.prompts.around(j.Tokens)
	if p.room < leastRoom {
		return nil, p.tooSmall(room)
	}
	p.Parts = Cut(j.Text, p.room, j.Tokens)
	for _, part := range p.Parts {
		if part.Tokens > p.room {
			return nil, task.Hinted("use a model with a larger context",
				"cut the document: line %d has a character of about %s tokens, and there is room for %s",
				part.First, group(part.Tokens), group(p.room))
		}
	}
	p.Summary = p.summary()
	p.prompts.words = wordsFor(p.Summary)
	p.foresee()
	return p, nil
}

// tooSmall returns the error for a model whose room, in tokens, leaves too little for a
// part.
func (p *Plan) tooSmall(room int) error {
	request := p.job.Tokens(p.job.Request)
	if request > room/2 {
		return task.Hinted("give the long part as the document and a short request about it, or use a model with a "+
			"larger context",
			"the request itself does not fit: it has about %s tokens, and the model has room for %s, "+
				"of which the text needs some", group(request), group(max(room, 0)))
	}
	return task.Hinted("use a model with a larger context",
		"the document does not fit, and cannot be cut: the model has room for %s tokens, and the "+
			"instructions for one part leave %s of them", group(max(room, 0)), group(max(p.room, 0)))
}

// summary returns how many tokens a summary should have: Job.Summary if it is set,
// otherwise so many that all summaries fit into the last call together, unless that makes
// them too short to be useful.
func (p *Plan) summary() int {
	n := p.job.Summary
	if n <= 0 {
		n = min(max(p.lastRoom()*9/10/len(p.Parts)-overHeading, p.room/16, minSummary), maxSummary)
	}
	return max(min(n, p.room/4), 1)
}

// lastRoom returns how many tokens all summaries may have together in the last call, which
// answers the request.
func (p *Plan) lastRoom() int {
	return p.job.Room - p.job.Tokens(llm.WithContext(p.job.Request, preface(p.characters, len(p.Parts))))
}

// foresee sets Groups: it estimates how many reduce levels there will be.
func (p *Plan) foresee() {
	each := p.Summary + overHeading
	for n := len(p.Parts); n > 1 && n*each > p.lastRoom() && len(p.Groups) < maxLevels-1; {
		n = (n*each + p.room - 1) / p.room
		p.Groups = append(p.Groups, n)
	}
}

// summaries returns the estimated number of summaries in the last call.
func (p *Plan) summaries() int {
	if len(p.Groups) > 0 {
		return p.Groups[len(p.Groups)-1]
	}
	return len(p.Parts)
}

// Overview describes the plan, one line for each level.
func (p *Plan) Overview() []string {
	head := fmt.Sprintf("document: %s characters, about %s tokens; the model has room for %s",
		group(p.characters), group(p.tokens), group(p.job.Room))
	agent := p.job.Agent
	if agent == "" {
		agent = task.DefaultAgent
	}
	if len(p.Parts) == 0 {
		return []string{head, "answer: " + agent + ", with the whole document"}
	}
	lines := []string{head, fmt.Sprintf("map: %s, each by %s, in at most about %s words",
		count(len(p.Parts), "part"), Summarizer, group(p.prompts.words))}
	before, about := len(p.Parts), ""
	for i, n := range p.Groups {
		lines = append(lines, fmt.Sprintf("reduce %d: %s%s in about %s",
			i+1, about, count(before, "summary"), count(n, "group")))
		before, about = n, "about "
	}
	n := p.summaries()
	return append(lines, fmt.Sprintf("answer: %s, with %s%s (about %s tokens)",
		agent, about, count(n, "summary"), group(n*(p.Summary+overHeading))))
}

// Lines is the overview followed by a line for each part.
func (p *Plan) Lines() []string {
	lines := p.Overview()
	for i, part := range p.Parts {
		l := fmt.Sprintf("part %d: %s, about %s tokens", i+1, p.place(i).lines(), group(part.Tokens))
		if part.Title != "" {
			l += ", " + part.Title
		}
		lines = append(lines, l)
	}
	return lines
}

// place returns the place of the part with index i.
func (p *Plan) place(i int) place {
	part := p.Parts[i]
	return place{from: i + 1, to: i + 1, of: len(p.Parts), first: part.First, last: part.Last, title: part.Title}
}

// count formats a number with a noun, such as "3 parts" or "1 summary".
func count(n int, what string) string {
	if n != 1 {
		if stem, ok := strings.CutSuffix(what, "y"); ok {
			what = stem + "ie"
		}
		what += "s"
	}
	return group(n) + " " + what
}
