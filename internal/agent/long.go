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
	// wholeRequest is what is asked about a text that says nothing of that itself.
	wholeRequest = "Summarize this text."
	// requestPart of the room is the most that the beginning of a text may take to
	// be the request: it goes with every part.
	requestPart = 8
	// partTokens is the most for one part, whatever the model has room for: the part
	// has to fit into a frame, and nobody summarizes a book well in one go.
	partTokens = 1 << 18
)

// longText is a text that is too long for the model, and what is to be done.
type longText struct {
	*longtext.Plan
	request string
	note    string // how the text was understood; may be empty
}

// long is what is to be done with text, which the model gets besides own; nil when it
// fits.
func (r *run) long(own llm.Request, text string) (*longText, error) {
	room, size := r.Model.Room(own), r.Model.Tokens(text)
	if room == 0 || size <= room {
		return nil, nil
	}
	if !r.CanDelegate {
		return nil, overflow("agents at this depth cannot have it summarised: shorten the text, or raise QQ_MAX_DEPTH",
			"the text has about %d tokens, the model has room for %d", size, room)
	}
	long := &longText{}
	var doc string
	if long.request, doc = llm.SplitContext(text); doc == "" {
		long.request, doc, long.note = r.understood(text, room/requestPart)
	}
	var err error
	long.Plan, err = longtext.NewPlan(longtext.Job{
		Request: long.request, Text: doc, Agent: r.Definition.Name,
		Room: room, PartRoom: min(r.partRoom(room), partTokens),
		Tokens: r.Model.Tokens, Summarize: partHelpers{r.helpers, r.Model.String()}.Summarize,
	})
	if err != nil {
		problem, hint := task.Explain(err)
		return nil, &llm.Error{Kind: llm.ContextOverflow, Problem: "context overflow: " + problem, Hint: hint, Err: err}
	}
	steps := len(long.Parts)
	for _, n := range long.Groups {
		steps += n
	}
	if r.started() && steps > supervisor.MaxParts { // the root may ask for any number
		return nil, overflow("split the text into several tasks, or use a model with a larger context",
			"the text would have to be summarised in %d steps, and an agent may have %d", steps, supervisor.MaxParts)
	}
	return long, nil
}

// overflow is the error for a text that does not fit the model.
func overflow(hint, format string, args ...any) error {
	problem := fmt.Sprintf("context overflow: "+format, args...)
	return &llm.Error{Kind: llm.ContextOverflow, Problem: problem, Hint: hint}
}

// understood takes apart a text that is the task itself: what it asks for stands
// at its beginning, if that is short and no title.
func (r *run) understood(text string, most int) (request, doc, note string) {
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

// partRoom is how much of a part the summarizer has room for, with its own prompt
// and tools; own where nobody knows the summarizer.
func (r *run) partRoom(own int) int {
	a, err := r.Registry.Lookup(longtext.Summarizer)
	if err != nil {
		return own
	}
	s := *r
	s.Definition, s.System, s.History, s.ReadOnly = a, "", nil, true
	s.job.Targets, s.job.RequireFileReferences = nil, false
	s.open(r.root)
	room := r.Model.Room(s.request(""))
	if a.PromptTemplate != "" {
		room -= promptTokens // that prompt may be longer
	}
	return max(room, 1)
}

// fitted is a text as the model can take it.
type fitted struct {
	text     string
	cut      bool
	warnings []string // that say so
}

// fit returns text in place of which the model can take it: the document in it
// summarized, part by part, by others, when it is too long for the model.
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

// Plan says how the agent would work on a job whose text is too long for its model;
// nothing for one that fits. Nothing is run.
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
