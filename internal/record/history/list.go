package history

import (
	"slices"
	"time"

	"qq/internal/record/ledger"
	"qq/pkg/task"
)

// Entry is a run in a list: a prompt or a batch. Exactly one of the two is set.
type Entry struct {
	Prompt *ledger.Run      `json:"prompt,omitempty"`
	Batch  *ledger.BatchRow `json:"batch,omitempty"`
}

// ID is that of the run.
func (e Entry) ID() string {
	if e.Batch != nil {
		return e.Batch.ID
	}
	return e.Prompt.ID
}

// Status is that of the run.
func (e Entry) Status() task.Status {
	if e.Batch != nil {
		return e.Batch.Status
	}
	return e.Prompt.Status
}

// Live reports whether a root works on the run.
func (e Entry) Live() bool {
	if e.Batch != nil {
		return e.Batch.Live
	}
	return e.Prompt.Live
}

// Started is when the run began.
func (e Entry) Started() time.Time {
	if e.Batch != nil {
		return e.Batch.Started
	}
	return e.Prompt.Started
}

// List returns the runs that f selects, the newest first. Its agent and its text do not count: see [History.Search].
func (h History) List(f ledger.Filter) ([]Entry, error) {
	batches, err := h.led.Batches(f)
	if err != nil {
		return nil, err
	}
	f.Roots, f.Text, f.Agent = true, "", ""
	prompts, err := h.led.List(f)
	if err != nil {
		return nil, err
	}
	list := make([]Entry, 0, len(batches)+len(prompts))
	for i := range batches {
		list = append(list, Entry{Batch: &batches[i]})
	}
	for i := range prompts {
		list = append(list, Entry{Prompt: &prompts[i]})
	}
	slices.SortStableFunc(list, func(a, b Entry) int { return b.Started().Compare(a.Started()) })
	if f.Limit > 0 && len(list) > f.Limit {
		list = list[:f.Limit]
	}
	return list, nil
}

// Search returns the jobs at any depth that f selects, the newest first. The text of f is looked for in tasks, answers
// and errors; case counts only outside of ASCII.
func (h History) Search(f ledger.Filter) ([]ledger.Run, error) { return h.led.List(f) }
