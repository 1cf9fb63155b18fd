// Package replay has the command qq runs replay: it gives the task of a job that has ended to another model, or to the
// same one with another prompt, together with the recorded results of its tools.
//
// Nothing is touched: no tool is run, no child is started, no check is made, and nothing is recorded. The agent loop
// gets the system prompt and the list of tools that the agent has now, and a [tape] in the place of the tools. A call
// that the record does not have ends the replay with the status not_recorded.
package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"qq/internal/agent/loop"
	"qq/internal/record/history"
	"qq/internal/record/ledger"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/session"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Stage is where agents are prepared whose tools are not run.
type Stage interface {
	// Offer returns what the agent and the model of the order begin with.
	Offer(ctx context.Context, o Order) (Offer, error)
}

// Order says which agent is wanted.
type Order struct {
	Agent     string
	Model     string
	System    string // instead of the prompt of its definition; empty means that one
	Generated string // the system prompt that a model has written for the task; empty means none
	Dir       string // the working directory that the agent was told
	Depth     int
	Parent    string
	Batch     string
}

// Offer is what an agent begins with.
type Offer struct {
	System   string
	Tools    []tool.Spec
	Schema   json.RawMessage // of the answer; nil for none
	MaxTurns int
	Name     string // of the model
	Model    llm.Backend
	End      func() // ends the connection to the model
}

// changes are what a replay does differently than the record.
type changes struct {
	Model  string
	System string
	Prompt string
}

// player replays jobs.
type player struct {
	from  history.History
	stage Stage
	with  changes
}

// replayed is the outcome of one replay: the recorded job and the new one.
type replayed struct {
	history.Pair
	Transcript []llm.Entry `json:"transcript"`             // of the replay
	Left       []string    `json:"not_replayed,omitempty"` // what the record had besides
}

// errTask is the error for a transcript that does not begin with a task.
var errTask = errors.New("its transcript has no task")

// play replays one job.
func (p player) play(ctx context.Context, j *history.Job) (replayed, error) {
	recorded, _, err := p.from.Answer(j.ID)
	if err != nil {
		return replayed{}, err
	}
	t, err := p.from.Transcript(j.Run)
	if err != nil {
		return replayed{}, err
	}
	before, err := p.from.Before(j.Run)
	if err != nil {
		return replayed{}, err
	}
	entries := lastAttempt(t.Entries)
	at := slices.IndexFunc(entries, func(e llm.Entry) bool { return e.Role == llm.User })
	if at < 0 {
		return replayed{}, errTask
	}
	order := Order{
		Agent: j.Agent, Model: cmp.Or(p.with.Model, j.Model), System: p.with.System, Dir: t.Header.Dir, Depth: j.Depth,
		Parent: j.Parent, Batch: j.Batch,
	}
	if at > 0 && entries[0].Role == llm.System && p.with.System == "" {
		order.Generated = entries[0].Content
	}
	offer, err := p.stage.Offer(ctx, order)
	if err != nil {
		return replayed{}, err
	}
	defer offer.End()
	text := withoutImages(entries[at].Message).Content
	if p.with.Prompt != "" {
		_, given := llm.SplitContext(text)
		text = llm.WithContext(p.with.Prompt, given)
	}
	res, said := run(ctx, offer, entries, before, text)
	now := j.Run
	now.ID, now.Session, now.Model, now.Status = "", "", offer.Name, res.Status
	now.Attempts, now.Usage, now.TotalUsage, now.Error = 1, res.Usage, res.Usage, res.Err()
	now.Summary, now.Live, now.QueuedMS = "", false, 0
	now.Started, now.Ended = time.Now().Add(-said.took), time.Now()
	now.Queued, now.DurationMS = now.Started, said.took.Milliseconds()
	old := history.Side{Run: j.Run, Outcome: j.Outcome, Answer: recorded.Output}
	old.Summary = ""
	return replayed{history.Pair{
		A: &old, B: &history.Side{Run: now, Outcome: ledger.Outcome{ExitCode: res.ExitCode, Did: said.did.OrNil(),
			Warnings: res.Warnings}, Answer: res.Output},
		Same: res.Status == j.Status && res.Output == recorded.Output,
	}, said.entries, left(recorded, entries[at:], offer.Schema != nil)}, nil
}

// lastAttempt returns the entries of the last attempt in which the model has answered, or else of the last one.
func lastAttempt(entries []llm.Entry) []llm.Entry {
	end := len(entries)
	for i, e := range slices.Backward(entries) {
		if e.Attempt <= 1 && i > 0 {
			continue
		}
		part := entries[i:end]
		if slices.ContainsFunc(part, func(e llm.Entry) bool { return e.Role == llm.Assistant }) {
			return part
		}
		end = i
	}
	return entries
}

// withoutImages returns m with a line in the place of each image: a transcript does not have them.
func withoutImages(m llm.Message) llm.Message {
	for _, image := range m.Images {
		m.Content += fmt.Sprintf("\n[the image %s was here]", image.Name)
	}
	m.Images = nil
	return m
}

// run asks the model until it has answered, or makes a call that entries do not have.
func run(ctx context.Context, o Offer, entries []llm.Entry, before []llm.Message, text string) (
	task.Result, *listener,
) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	t := newTape(entries, o.Tools, end)
	said := &listener{}
	for i := range before {
		before[i] = withoutImages(before[i])
	}
	began := time.Now()
	res := loop.Run(ctx, loop.Config{
		Backend: o.Model, System: o.System, Tools: t.set(), Gate: t, MaxTurns: o.MaxTurns, Schema: o.Schema,
		Host: said, Transcript: said, Screen: said, Observer: said,
	}, before, text)
	said.took = time.Since(began)
	return res, said
}

// listener is the host of a replay: it keeps what is said and done, and lets nothing out.
type listener struct {
	entries []llm.Entry
	did     task.Did
	took    time.Duration
}

// Append implements loop.Transcript.
func (l *listener) Append(e llm.Entry) {
	e.Time = time.Now().UTC()
	l.entries = append(l.entries, e)
	if e.Role == llm.Assistant {
		l.did.Asked(time.Duration(e.FirstMS)*time.Millisecond, time.Duration(e.DurationMS)*time.Millisecond, 0)
	}
}

// Ran implements loop.Observer.
func (l *listener) Ran(s tool.Spec, _ tool.Call, _ tool.Result) { l.did.Call(s.Name) }

// Messages implements loop.Host.
func (l *listener) Messages() []string { return nil }

// Pending implements loop.Host.
func (l *listener) Pending() string { return "" }

// Changed implements loop.Host.
func (l *listener) Changed([]string) {}

// Effects implements loop.Host.
func (l *listener) Effects() error { return nil }

// Emit implements loop.Host.
func (l *listener) Emit(event.Event) {}

// Chunk implements loop.Screen.
func (l *listener) Chunk(llm.Chunk) {}

// TurnEnd implements loop.Screen.
func (l *listener) TurnEnd(bool) {}

// why says why a job cannot be replayed, on one line; "" if err is no such reason.
func why(err error) string {
	switch {
	case errors.Is(err, session.ErrNotFound):
		return "it has no transcript"
	case errors.Is(err, errTask):
		return errTask.Error()
	}
	return ""
}

// failed returns the jobs of a run that ended by themselves without success. Of a task of a batch, the last run counts.
func failed(r history.Run) (jobs []*history.Job) {
	for j := range r.Latest().All() {
		switch j.Status {
		case task.Completed, task.Cancelled, task.Interrupted, task.Terminated, task.Skipped:
		default:
			if j.Status.Final() {
				jobs = append(jobs, j)
			}
		}
	}
	return jobs
}

// total says how many replays ended how.
func total(all []replayed) string {
	counts := map[task.Status]int{}
	var order []task.Status
	for _, r := range all {
		s := r.B.Status
		if counts[s]++; counts[s] == 1 {
			order = append(order, s)
		}
	}
	var parts []string
	for _, s := range order {
		parts = append(parts, fmt.Sprintf("%d %s", counts[s], s))
	}
	return fmt.Sprintf("%d replayed: %s", len(all), strings.Join(parts, ", "))
}
