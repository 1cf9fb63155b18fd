// Package history reads what happened in a run, from the ledger and the transcripts. It changes nothing.
//
// A run is what a person started: a prompt, or a batch. Its jobs are a tree: those that a batch or a prompt made, and
// below each those that it handed on. What is shown of a past run comes from here, so that its numbers are the same
// everywhere.
//
// The ledger has a job from its start on. A job that waits is known only to its root: see qq/internal/control.
//
// Texts in a [Job] and in a transcript come from models. Whoever shows them cleans them.
package history

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"qq/internal/record/ledger"
	"qq/pkg/task"
)

// History is what is recorded in a folder of qq. Several goroutines may use it at once.
type History struct {
	led  *ledger.Ledger
	home string
}

// New returns the history in home, the folder of qq, of which led is the ledger.
func New(led *ledger.Ledger, home string) History { return History{led, home} }

// Refresh reads what roots have recorded since the ledger was opened.
func (h History) Refresh() error { return h.led.Refresh() }

// Job is one job of a run, with the jobs that it has handed on.
type Job struct {
	ledger.Run
	Earlier []ledger.AttemptRow `json:"earlier,omitempty"` // the attempts before the last
	ledger.Outcome
	Jobs []*Job `json:"jobs,omitempty"` // in the order in which they started
}

// Took is how long the last attempt has taken, until now if it is at work.
func (j *Job) Took(now time.Time) time.Duration {
	switch {
	case !j.Ended.IsZero():
		return time.Duration(j.DurationMS) * time.Millisecond
	case j.Live:
		return now.Sub(j.Started)
	}
	return 0
}

// Run is a prompt or a batch with all its jobs. For a job that was handed on it is that job and what is below it.
type Run struct {
	ID    string           `json:"id"`              // of the prompt, of the batch or of the job
	Batch *ledger.BatchRow `json:"batch,omitempty"` // nil for a prompt or a job
	Jobs  []*Job           `json:"jobs"`            // in the order in which they started
}

// Run returns the run with that id: of a prompt, a batch or a job. id may be the beginning or the end of an id if only
// one matches. The error wraps [ledger.ErrNone] or [ledger.ErrAmbiguous].
func (h History) Run(id string) (Run, error) {
	id, err := h.led.Whole(id)
	if err != nil {
		return Run{}, err
	}
	r := Run{ID: id, Jobs: []*Job{}}
	rows, err := h.led.Batches(ledger.Filter{Batch: id, Limit: 1})
	if err != nil {
		return Run{}, err
	}
	if len(rows) > 0 {
		r.Batch = &rows[0]
	}
	if err := h.grow(&r); err != nil {
		return Run{}, err
	}
	if r.Batch == nil && len(r.Jobs) == 0 { // it was cleared meanwhile
		return Run{}, fmt.Errorf("%s: %w", id, ledger.ErrNone)
	}
	return r, nil
}

// Whole returns the run that a job, a prompt, a batch or a root belongs to.
func (h History) Whole(id string) (Run, error) {
	top, err := h.led.Top(id)
	if err != nil {
		return Run{}, err
	}
	return h.Run(top)
}

// grow reads the jobs of r. A run may have very many, so two queries run at once, and the one for attempts runs only if
// there are some.
func (h History) grow(r *Run) error {
	var list []ledger.Run
	var ends map[string]ledger.Outcome
	var errs [2]error
	var reading sync.WaitGroup
	reading.Go(func() { list, errs[0] = h.led.Tree(r.ID) })
	reading.Go(func() { ends, errs[1] = h.led.Outcomes(r.ID) })
	reading.Wait()
	if err := cmp.Or(errs[:]...); err != nil {
		return err
	}
	var attempts map[string][]ledger.AttemptRow
	if slices.ContainsFunc(list, func(one ledger.Run) bool { return one.Attempts > 1 }) {
		var err error
		if attempts, err = h.led.Attempts(r.ID); err != nil {
			return err
		}
	}
	jobs := make(map[string]*Job, len(list))
	for _, one := range list {
		j := &Job{Run: one, Earlier: attempts[one.ID], Outcome: ends[one.ID]}
		jobs[one.ID] = j
		if above := jobs[one.Parent]; above != nil {
			above.Jobs = append(above.Jobs, j)
		} else {
			r.Jobs = append(r.Jobs, j)
		}
	}
	return nil
}

// All returns all jobs of the run, each followed by those below it.
func (r Run) All() iter.Seq[*Job] {
	return func(yield func(*Job) bool) { all(r.Jobs, yield) }
}

func all(jobs []*Job, yield func(*Job) bool) bool {
	for _, j := range jobs {
		if !yield(j) || !all(j.Jobs, yield) {
			return false
		}
	}
	return true
}

// Usage is what all jobs of the run have used.
func (r Run) Usage() (sum task.Usage) {
	for _, j := range r.Jobs {
		sum = sum.Add(j.TotalUsage)
	}
	return sum
}

// Slots returns how many jobs of the run its root could have at work at once when it began, the last one if there were
// several; 0 means that it is not known.
func (h History) Slots(r Run) (int, error) {
	switch {
	case r.Batch != nil:
		return h.led.Slots(r.Batch.Root)
	case len(r.Jobs) > 0:
		return h.led.Slots(r.Jobs[0].Root)
	}
	return 0, nil
}

// Live reports whether a root works on the run.
func (r Run) Live() bool {
	if r.Batch != nil {
		return r.Batch.Live
	}
	return slices.ContainsFunc(r.Jobs, func(j *Job) bool { return j.Live })
}

// Answer returns the result of a job with its whole output, and false if there is none. id is a whole one.
func (h History) Answer(id string) (task.Result, bool, error) {
	_, _, res, err := h.led.Show(id)
	return res, res.Status != "", err
}
