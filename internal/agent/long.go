package agent

import (
	"context"
	"fmt"
	"os"
	"strings"

	"qq/internal/agent/longtext"
	"qq/pkg/llm"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

const (
	// wholeRequest is the request for a text that does not begin with a request of its own.
	wholeRequest = "Summarize this text."
	// requestPart limits a request that is taken from the beginning of a text: it may have
	// at most 1/requestPart of the room, because it is sent again with every part.
	requestPart = 8
	// partTokens is the largest size of a part, in tokens, even for a model with more room:
	// a part has to fit into a frame, and models summarize very long texts badly.
	partTokens = 1 << 18
)

// longText is the plan to shorten a text that is too long for the model.
type longText struct {
	*longtext.Plan
	request string
	note    string // says which part of the text was taken as the request; may be empty
}

// long returns a plan to shorten text, if text does not fit into the model's context
// together with the request own. It returns nil if the text fits or if the size of the
// context is unknown.
func (r *run) long(own llm.Request, text string) (*longText, error) {
	room, size := r.Model.Room(own), r.Model.Tokens(text)
	if room == 0 || size <= room {
		return nil, nil
	}
	if !r.Setup.CanDelegate {
		return nil, overflow("agents at this depth cannot have it summarised: shorten the text, or raise QQ_MAX_DEPTH",
			"the text has about %d tokens, the model has room for %d", size, room)
	}
	long := &longText{}
	var doc string
	if long.request, doc = llm.SplitContext(text); doc == "" {
		long.request, doc, long.note = r.splitRequest(text, room/requestPart)
	}
	var err error
	long.Plan, err = longtext.NewPlan(longtext.Job{
		Request: long.request, Text: doc, Agent: r.Definition.Name,
		Room: room, PartRoom: min(r.partRoom(room), partTokens),
		Tokens: r.Model.Tokens, Children: partHelpers{r.helpers, r.Model.String()},
	})
	if err != nil {
		problem, hint := task.Explain(err)
		return nil, &llm.Error{Kind: llm.ContextOverflow, Problem: "context overflow: " + problem, Hint: hint, Err: err}
	}
	steps := len(long.Parts)
	for _, n := range long.Groups {
		steps += n
	}
	if r.isDelegated() && steps > supervisor.MaxParts { // the root's own agent has no limit
		return nil, overflow("split the text into several tasks, or use a model with a larger context",
			"the text would have to be summarised in %d steps, and an agent may have %d", steps, supervisor.MaxParts)
	}
	return long, nil
}

// overflow returns the error for a text that does not fit into the model's context.
func overflow(hint, format string, args ...any) error {
	problem := fmt.Sprintf("context overflow: "+format, args...)
	return &llm.Error{Kind: llm.ContextOverflow, Problem: problem, Hint: hint}
}

// splitRequest splits a long task into a request and a document. The first paragraph or
// line is the request if it has at most most tokens and is no title. Otherwise the request
// is wholeRequest, and the document is the whole text. note tells the user which of the two
// it is.
func (r *run) splitRequest(text string, most int) (request, doc, note string) {
	text = strings.TrimLeft(text, "\r\n")
	for _, end := range []string{"\n\n", "\r\n\r\n", "\n"} {
		head, rest, ok := strings.Cut(text, end)
		head = strings.TrimSpace(head)
		title := strings.HasPrefix(head, "#") || strings.HasPrefix(head, "---")
		if ok && head != "" && !title && r.Model.Tokens(head) <= most {
			return head, rest, fmt.Sprintf("the task itself was too long: its beginning was kept as the request (%q), "+
				"and the rest taken as what it is about", task.Shorten(head, 60))
		}
	}
	return wholeRequest, text, "the task itself was too long, and does not begin with a short request: " +
		"it was taken as a text to summarize"
}

// partRoom returns how many tokens a part may have: those that the context of the
// summarizer has left besides its own prompt and tools, at least 1. It returns own, the
// room of this agent, if there is no summarizer.
func (r *run) partRoom(own int) int {
	a, err := r.Registry.Lookup(longtext.Summarizer)
	if err != nil {
		return own
	}
	s := *r
	s.Definition, s.System, s.History, s.Setup.ReadOnly = a, "", nil, true
	s.job.Targets, s.job.RequireFileReferences, s.job.Images = nil, false, nil
	s.open(r.root)
	room := r.Model.Room(s.request(""))
	if a.PromptTemplate != "" {
		room -= promptTokens // a generated prompt may be longer
	}
	return max(room, 1)
}

// fitted is a text that fits the model, shortened if necessary.
type fitted struct {
	text     string
	cut      bool     // summaries replace the document
	warnings []string // tell the user that and how the text was shortened
}

// fit returns text unchanged if it fits the model. Otherwise children summarize the parts
// of its document, and the returned text has the summaries instead of the document.
func (r *run) fit(ctx context.Context, own llm.Request, text string) (fitted, error) {
	long, err := r.long(own, text)
	if long == nil || err != nil {
		return fitted{text: text}, err
	}
	for _, line := range long.Overview() {
		r.note("%s", line)
	}
	joined, err := long.Run(ctx)
	if err != nil {
		return fitted{}, err
	}
	f := fitted{text: llm.WithContext(long.request, joined.Text), cut: true, warnings: []string{
		fmt.Sprintf("the text was too long for the model: it was summarised in %d parts before it was answered about",
			joined.Parts),
	}}
	if long.note != "" {
		f.warnings = append(f.warnings, long.note)
	}
	f.warnings = append(f.warnings, joined.Warnings...)
	return f, nil
}

// Plan lists how the text of job would be cut and summarized, without running anything. The
// list is empty if the text fits the model.
func (a Agent) Plan(job task.Job) ([]string, error) {
	root, err := os.OpenRoot(".")
	if err != nil {
		return nil, fmt.Errorf("open the working directory: %w", err)
	}
	defer root.Close()
	r := &run{Agent: a, helpers: &helpers{}, job: job}
	r.open(root)
	long, err := r.long(r.request(""), llm.WithContext(job.Text, job.Context))
	if long == nil || err != nil {
		return nil, err
	}
	lines := long.Lines()
	if long.note != "" {
		lines = append(lines, long.note)
	}
	return lines, nil
}
