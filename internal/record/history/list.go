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
	list, _, err := h.Page(f)
	return list, err
}

// Page is like [History.List]. behind selects what the limit of f has cut off; it is nil if that is nothing.
func (h History) Page(f ledger.Filter) (list []Entry, behind *ledger.Filter, err error) {
	one := f
	if f.Limit > 0 {
		one.Limit++
	}
	batches, err := h.led.Batches(one)
	if err != nil {
		return nil, nil, err
	}
	one.Roots, one.Text, one.Agent = true, "", ""
	prompts, err := h.led.List(one)
	if err != nil {
		return nil, nil, err
	}
	list = merged(batches, prompts)
	if f.Limit > 0 && len(list) > f.Limit {
		list, behind = list[:f.Limit], &f
		for _, e := range list {
			if e.Batch != nil {
				behind.BehindBatch = e.Batch.ID
			} else {
				behind.BehindRun = e.Prompt.ID
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Entry) int { return b.Started().Compare(a.Started()) })
	return list, behind, nil
}

// merged has all of both, each in its own order: a limit cuts off the end of each.
func merged(batches []ledger.BatchRow, prompts []ledger.Run) []Entry {
	list := make([]Entry, 0, len(batches)+len(prompts))
	b := 0
	for p := range prompts {
		for ; b < len(batches) && !batches[b].Latest.Before(prompts[p].Started); b++ {
			list = append(list, Entry{Batch: &batches[b]})
		}
		list = append(list, Entry{Prompt: &prompts[p]})
	}
	for ; b < len(batches); b++ {
		list = append(list, Entry{Batch: &batches[b]})
	}
	return list
}

// Search returns the jobs at any depth that f selects, the newest first. The text of f is looked for in tasks, answers
// and errors; case counts only outside of ASCII.
func (h History) Search(f ledger.Filter) ([]ledger.Run, error) { return h.led.List(f) }
