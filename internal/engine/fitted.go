package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"qq/internal/agent/longtext"
	"qq/internal/agent/loop"
	"qq/internal/models"
	"qq/internal/sandbox"
	"qq/internal/tools/delegate"
	"qq/internal/tools/files"
	"qq/pkg/dispatch"
	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

const (
	// wholeRequest is what is asked about a text that says nothing of that itself.
	wholeRequest = "Summarize this text."
	// requestPart of the room is the most that the beginning of a text may take to
	// be the request: it goes with every part.
	requestPart = 8
	// partTokens is the most for one part, whatever the model has room for: the part
	// has to fit into a frame, and nobody summarises a book well in one go.
	partTokens = 1 << 18
)

// longText is a text that is too long for the model, and what is to be done.
type longText struct {
	*longtext.Plan
	request string
	note    string // how the text was understood; may be empty
}

// long is what is to be done with text, which the model of w gets besides own; nil
// when it fits.
func (w work) long(own llm.Request, space *files.Workspace, text string) (*longText, error) {
	m := w.setup.Model
	if m.Kind == Extract || m.Context == 0 {
		return nil, nil
	}
	room := m.Room(own)
	if models.Tokens(text) <= room {
		return nil, nil
	}
	if w.summaries == nil {
		return nil, &llm.Error{Kind: llm.ContextOverflow,
			Problem: fmt.Sprintf("context overflow: the text has about %d tokens, the model has room for %d", models.Tokens(text), room),
			Hint:    "agents at this depth cannot have it summarised: shorten the text, or raise QQ_MAX_DEPTH"}
	}
	long := &longText{}
	var doc string
	if long.request, doc = llm.SplitContext(text); doc == "" {
		long.request, doc, long.note = understood(text, room/requestPart)
	}
	var err error
	long.Plan, err = longtext.NewPlan(longtext.Job{
		Request: long.request, Text: doc, Agent: w.agent.Name, Room: room, PartRoom: min(w.partRoom(space, room), partTokens),
		Tokens: models.Tokens, Summarize: w.summaries,
	})
	if err != nil {
		return nil, overflow(err)
	}
	steps := len(long.Parts)
	for _, n := range long.Groups {
		steps += n
	}
	if w.maxParts > 0 && steps > w.maxParts {
		return nil, &llm.Error{Kind: llm.ContextOverflow,
			Problem: fmt.Sprintf("context overflow: the text would have to be summarised in %d steps, and an agent may have %d", steps, w.maxParts),
			Hint:    "split the text into several tasks, or use a model with a larger context"}
	}
	return long, nil
}

// understood takes apart a text that is the task itself: what it asks for stands
// at its beginning, if that is short and no title.
func understood(text string, most int) (request, doc, note string) {
	text = strings.TrimLeft(text, "\r\n")
	for _, end := range []string{"\n\n", "\r\n\r\n", "\n"} {
		head, rest, ok := strings.Cut(text, end)
		head = strings.TrimSpace(head)
		title := strings.HasPrefix(head, "#") || strings.HasPrefix(head, "---")
		if ok && head != "" && !title && models.Tokens(head) <= most {
			return head, rest, fmt.Sprintf("the task itself was too long: its beginning was kept as the request (%q), and the rest taken as what it is about", task.Shorten(head, 60))
		}
	}
	return wholeRequest, text, "the task itself was too long, and does not begin with a short request: it was taken as a text to summarize"
}

// partRoom is how much of a part the summarizer has room for, with its own prompt
// and tools; own where nobody knows the summarizer.
func (w work) partRoom(space *files.Workspace, own int) int {
	a, err := w.lookup(longtext.Summarizer)
	if err != nil {
		return own
	}
	w.agent, w.system, w.history, w.targets, w.references, w.limits.readOnly = a, "", nil, nil, false, true
	room := w.setup.Model.Room(w.request("", w.equipped(space).offered))
	if a.PromptTemplate != "" {
		room -= promptTokens // that prompt may be longer
	}
	return max(room, 1)
}

// request is what the model is asked with, besides the text of the task.
func (w work) request(written string, tools tool.Set) llm.Request {
	return llm.Request{System: w.prompt(written, tools), Messages: w.history, Tools: tools.Specs()}
}

// fittedText is a text as the model can take it.
type fittedText struct {
	text     string
	cut      bool
	warnings []string // that say so
}

// fitted returns text in place of which the model can take it: the document in it
// summarised, part by part, by others, when it is too long for the model.
func (w work) fitted(ctx context.Context, own llm.Request, space *files.Workspace, text string) (fittedText, error) {
	long, err := w.long(own, space, text)
	if long == nil || err != nil {
		return fittedText{text: text}, err
	}
	for _, line := range long.Overview() {
		w.note("%s", line)
	}
	joined, err := long.Run(ctx)
	if err != nil {
		return fittedText{}, err
	}
	f := fittedText{text: llm.WithContext(long.request, joined.Text), cut: true, warnings: []string{
		fmt.Sprintf("the text was too long for the model: it was summarised in %d parts before it was answered about", joined.Parts),
	}}
	if long.note != "" {
		f.warnings = append(f.warnings, long.note)
	}
	f.warnings = append(f.warnings, joined.Warnings...)
	return f, nil
}

// overflow is the failure of a text that cannot be cut to fit.
func overflow(err error) error {
	problem, hint, _ := strings.Cut(err.Error(), "\nhint: ")
	return &llm.Error{Kind: llm.ContextOverflow, Problem: "context overflow: " + problem, Hint: hint, Err: err}
}

// unfitted is how an agent ends whose text could not be made to fit. What those
// used who summarised is in their own results.
func unfitted(ctx context.Context, err error) Outcome {
	out := Outcome{Outcome: loop.Outcome{Status: task.Failed, Err: err}}
	if failed, ok := errors.AsType[*longtext.FailedError](err); ok {
		out.Status = failed.Status()
	}
	if e, ok := errors.AsType[*llm.Error](err); ok {
		out.Status = e.TaskStatus()
	}
	if ctx.Err() != nil {
		out.Status, out.Err = task.Interrupted, context.Cause(ctx)
	}
	return out
}

// Bounds of what is handed on at once: a question to the root is one frame.
const (
	biteTasks = 200
	biteBytes = 2 << 20
)

// summaries hands the parts of a document to children, as tasks that any agent may
// hand on, some at a time. None are begun after one that failed.
func summaries(delegate func(context.Context, []task.Task) []task.Result, model string) func(context.Context, []task.Task) []task.Result {
	return func(ctx context.Context, tasks []task.Task) (results []task.Result) {
		for i := range tasks {
			tasks[i].Part, tasks[i].Model = true, model
		}
		for len(tasks) > 0 {
			n := bite(tasks)
			some := delegate(ctx, tasks[:n])
			results, tasks = append(results, some...), tasks[n:]
			if len(some) != n || slices.ContainsFunc(some, func(r task.Result) bool { return !r.Success }) {
				break
			}
		}
		return results
	}
}

// bite is how many of tasks are handed on at once: one at least.
func bite(tasks []task.Task) int {
	size := 0
	for i, t := range tasks[:min(len(tasks), biteTasks)] {
		encoded, err := json.Marshal(t) // with what takes more room there than in the text
		if size += len(encoded); i > 0 && (err != nil || size > biteBytes) {
			return i
		}
	}
	return min(len(tasks), biteTasks)
}

// Plan says how a task of a batch would be worked on whose text is too long for
// the model; nothing for one that fits. A system prompt replaces that of its agent.
func (e *Engine) Plan(m Model, system string, t task.Task) ([]string, error) {
	agent, err := e.Agent(t.Normalized().Agent)
	if err != nil {
		return nil, err
	}
	return e.plan(Run{Agent: agent, Model: m, System: system}, t, e.cfg.Settings.Depth+1)
}

// Outline is as [Engine.Plan] for what [Engine.Run] would do.
func (e *Engine) Outline(r Run, t task.Task) ([]string, error) {
	return e.plan(r, t, e.cfg.Settings.Depth)
}

// plan says how t would be worked on by an agent at that depth. It makes what the
// agent would be asked with, and leaves nothing behind.
func (e *Engine) plan(r Run, t task.Task, depth int) ([]string, error) {
	root, err := openDir(e.cfg.Dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	set := e.cfg.Settings
	w := work{
		toolmaker: toolmaker{
			setup: Setup{Model: r.Model, Policy: policy(set), Writable: set.Writable, WebAllow: set.WebAllow, AstGrep: e.astGrep(), Search: e.cfg.Search},
			agent: r.Agent, dir: e.cfg.Dir, depth: depth, host: e.host, root: root, version: e.cfg.Version,
			limits: ceiling{readOnly: e.cfg.ReadOnly || t.ReadOnly || r.Agent.Gathers(), denied: set.Deny, confined: sandbox.Probe().Enforced()},
		},
		system: r.System, schema: r.Schema, history: r.History, targets: t.Targets, references: t.RequireFileReferences, lookup: e.Agent,
	}
	if depth > set.Depth { // a child
		w.maxParts = dispatch.MaxParts
	}
	if depth+1 < set.MaxDepth {
		w.delegator, w.family = nobody{}, &tally{}
		w.roster = func() []delegate.AgentInfo { return roster(e.cfg.Agents) }
		w.summaries = func(context.Context, []task.Task) []task.Result { return nil } // nothing is run
	}
	space := files.Open(w.root, files.Options{})
	long, err := w.long(w.request("", w.equipped(space).offered), space, llm.WithContext(t.Text, t.Context))
	if long == nil || err != nil {
		return nil, err
	}
	lines := long.Lines()
	if long.note != "" {
		lines = append(lines, long.note)
	}
	return lines, nil
}
