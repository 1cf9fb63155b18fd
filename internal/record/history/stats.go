package history

import (
	"time"

	"qq/internal/record/ledger"
	"qq/pkg/task"
)

// Figures are what the runs of an agent with a model came to. Runs at every depth count.
type Figures struct {
	Agent    string              `json:"agent"`
	Model    string              `json:"model"`
	Runs     int                 `json:"runs"`
	Statuses map[task.Status]int `json:"statuses"`    // how many have which status
	Repeated int                 `json:"repeated"`    // runs with more than one attempt
	Cached   int                 `json:"cached"`      // besides them, those whose answer was known: nothing was run
	Duration int64               `json:"duration_ms"` // of those that started and ended, together
	Queued   int64               `json:"queued_ms"`
	Usage    task.Usage          `json:"usage"`
	// Time is how long the answers of the model took, in those runs that tell it.
	Time task.ModelTime `json:"model_time"`
}

// Ended is how many runs have ended by themselves: nobody cancelled or interrupted them.
func (f Figures) Ended() (n int) {
	for s, runs := range f.Statuses {
		switch s {
		case task.Cancelled, task.Interrupted, task.Terminated, task.Skipped:
		default:
			if s.Final() {
				n += runs
			}
		}
	}
	return n
}

// Mean is the mean time of a run that has started and ended.
func (f Figures) Mean() time.Duration {
	n := 0
	for s, runs := range f.Statuses {
		if timed(s) {
			n += runs
		}
	}
	return time.Duration(f.Duration) * time.Millisecond / time.Duration(max(n, 1))
}

// timed reports whether a run with that status has started and ended.
func timed(s task.Status) bool { return s.Final() && s != task.Skipped && s != task.Interrupted }

// add adds a part, which has one status.
func (f *Figures) add(s ledger.Stat) {
	if s.Cached {
		f.Cached += s.Runs
		return
	}
	f.Runs, f.Repeated = f.Runs+s.Runs, f.Repeated+s.Repeated
	f.Statuses[s.Status] += s.Runs
	if timed(s.Status) {
		f.Duration += s.DurationMS
	}
	f.Queued += s.QueuedMS
	f.Usage, f.Time = f.Usage.Add(s.Usage), f.Time.Add(s.Time)
}

// Stats returns the figures of the runs that f selects, by agent and model.
func (h History) Stats(f ledger.Filter) ([]Figures, error) {
	parts, err := h.led.Stats(f)
	list := []Figures{}
	for _, s := range parts {
		if n := len(list); n == 0 || list[n-1].Agent != s.Agent || list[n-1].Model != s.Model {
			list = append(list, Figures{Agent: s.Agent, Model: s.Model, Statuses: map[task.Status]int{}})
		}
		list[len(list)-1].add(s)
	}
	return list, err
}
