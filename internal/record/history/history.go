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
	"errors"
	"fmt"
	"iter"
	"slices"
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
	list, err := h.led.Tree(id)
	if err != nil {
		return Run{}, err
	}
	r := Run{}
	batch, err := h.led.Find(id)
	switch {
	case err == nil:
		rows, err := h.led.Batches(ledger.Filter{Batch: batch.ID, Limit: 1})
		if err != nil {
			return Run{}, err
		}
		if len(rows) == 0 { // it was cleared meanwhile
			return Run{}, fmt.Errorf("show %s: %w", id, ledger.ErrNone)
		}
		r.ID, r.Batch = batch.ID, &rows[0]
	case !errors.Is(err, ledger.ErrNone) || len(list) == 0:
		return Run{}, err
	default:
		r.ID = list[0].ID
	}
	return r, h.grow(&r, list)
}

// Whole returns the run that a job, a prompt, a batch or a root belongs to.
func (h History) Whole(id string) (Run, error) {
	top, err := h.led.Top(id)
	if err != nil {
		return Run{}, err
	}
	return h.Run(top)
}

// grow makes the tree of list, in which parents come before their children.
func (h History) grow(r *Run, list []ledger.Run) error {
	ends, err := h.led.Outcomes(r.ID)
	if err != nil {
		return err
	}
	attempts, err := h.led.Attempts(r.ID)
	if err != nil {
		return err
	}
	jobs := make(map[string]*Job, len(list))
	r.Jobs = []*Job{}
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
