// Package supervisor decides when a task may run, for how long, how often, and
// what its end means. It owns the one cap on children at work in the whole tree,
// the clocks, the limits of depth, number and rate, and the order of results.
//
// Vocabulary: a [Scope] is a place in the tree of tasks from which tasks are
// started: the root, or a child that delegates. A slot is the right to be at
// work; a child that waits for its own children lends its slot, so that a cap
// of 1 cannot deadlock. A [Launcher] runs one task somewhere and knows nothing
// of all this. A [Recorder] keeps what happened.
//
// A task goes this way: it waits for a slot, is claimed, and is launched; when
// its process dies under it, it is launched again, as long as it has had no side
// effects; its slot becomes free, its result is recorded, announced and then
// delivered.
//
// A task has two clocks. The run clock goes from the first start to the end of
// the last attempt, and stands only while the task waits for strangers, for the
// model server above all ([task.Job] Queue and Spare) or for a slot to begin
// again; so do then the run clocks of those above it. Of the same time, each
// clock is given back as much as it went, once, however many have waited. The idle clock begins anew with each sign of activity, from
// below too, and stands while the task waits for anybody.
//
// Promises: exactly one result per task, in input order, each delivered as soon
// as all before it are there, whatever happened; a free slot takes the next
// task at once; a child's deadline lies before that of its parent; with a
// Recorder, nothing starts unclaimed and no result is delivered before it was
// recorded, or says that it could not be. Not promised: the order in which tasks
// run; that a task is idle after exactly its time, for the signs of life may be
// up to a twentieth (5 s at most) late.
//
// The package reads the clock but starts no process and opens no file.
package supervisor

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"qq/pkg/task"
)

// Launcher runs one task to its end, and ends it early when ctx is done. It
// always returns a result, with what the task had produced until then.
type Launcher interface {
	Launch(ctx context.Context, job task.Job) task.Result
}

// Stager is a Launcher that can get ready for a job before the job may run.
type Stager interface {
	Launcher
	// Stage gets ready for job, whose deadline is not known yet. It may return
	// nil when it cannot: then the job is launched as any other.
	Stage(job task.Job) Staged
}

// Staged launches the one job that it is ready for, or is discarded.
type Staged interface {
	Launcher
	Discard()
}

// Config is what a Supervisor needs.
type Config struct {
	Limits   task.Limits
	Launcher Launcher
	// NewID makes execution ids.
	NewID func() string
	// Started and Ended are told of each child, exactly once each, Ended when the
	// result is recorded, or says that it could not be; nil is not told.
	Started func(task.Job)
	Ended   func(task.Job, task.Result)
	// Idle is how long a job may be without activity, 0 without bound; nil is
	// Limits.IdleTimeout for all.
	Idle func(task.Job) time.Duration
	// Recorder keeps what happens; nil keeps nothing.
	Recorder Recorder
}

// Supervisor runs the tasks of one tree.
type Supervisor struct {
	cfg       Config
	slots     *slots
	budget    *budget
	staging   atomic.Bool   // a job is staged and waits for its slot
	finishing chan struct{} // holds one for each result on its way to the record

	mu      sync.Mutex
	running map[string]context.CancelCauseFunc
}

// New returns a Supervisor. Limits.MaxParallel must be at least 1.
func New(cfg Config) *Supervisor {
	return &Supervisor{
		cfg: cfg, slots: newSlots(cfg.Limits.MaxParallel), budget: newBudget(cfg.Limits),
		finishing: make(chan struct{}, maxFinishing), running: map[string]context.CancelCauseFunc{},
	}
}

// Reasons for which a task is ended before it is done, used as causes of
// cancellation.
var (
	// ErrCancelled ends a task because somebody asked for that.
	ErrCancelled error = cancelled{}
	// ErrHalted ends tasks because the batch is halted.
	ErrHalted = errors.New("halted: too many tasks failed")
)

// cancelled has the text that users and scripts rely on.
type cancelled struct{}

func (cancelled) Error() string { return "Sub-agent cancelled by user." }

// Cancel ends the running child with that execution id and what it started,
// and no other. It reports whether there was one.
func (s *Supervisor) Cancel(executionID string) bool {
	s.mu.Lock()
	cancel := s.running[executionID]
	s.mu.Unlock()
	if cancel == nil {
		return false
	}
	cancel(ErrCancelled)
	return true
}

func (s *Supervisor) track(id string, cancel context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel == nil {
		delete(s.running, id)
		return
	}
	s.running[id] = cancel
}
