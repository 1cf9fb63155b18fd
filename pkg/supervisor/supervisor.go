// Package supervisor decides when a task may run, for how long, and what its
// end means. It owns the one cap on children at work in the whole tree, the
// deadlines, the limits of depth and number, and the order of results.
//
// Vocabulary: a [Scope] is a place in the tree of tasks from which tasks are
// started: the root, or a child that delegates. A slot is the right to be at
// work; a child that waits for its own children lends its slot, so that a cap
// of 1 cannot deadlock. A [Launcher] runs one task somewhere and knows nothing
// of all this.
//
// Promises: exactly one result per task, in input order, each delivered as soon
// as all before it are there, whatever happened; a free slot takes the next
// task at once; a child's deadline lies before that of its parent. Not
// promised: the order in which tasks run.
//
// The package reads the clock but starts no process and opens no file.
package supervisor

import (
	"context"
	"errors"
	"fmt"
	"strconv"
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
	// Started and Ended are told of each child, exactly once each; nil is not
	// told.
	Started func(task.Job)
	Ended   func(task.Job, task.Result)
}

// Supervisor runs the tasks of one tree.
type Supervisor struct {
	cfg     Config
	slots   *slots
	spawned atomic.Int64 // children started by agents
	staging atomic.Bool  // a job is staged and waits for its slot

	mu      sync.Mutex
	running map[string]context.CancelCauseFunc
}

// New returns a Supervisor. Limits.MaxParallel must be at least 1.
func New(cfg Config) *Supervisor {
	return &Supervisor{cfg: cfg, slots: newSlots(cfg.Limits.MaxParallel), running: map[string]context.CancelCauseFunc{}}
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

// TimeoutError says that a child used up the time that it had.
type TimeoutError struct{ After time.Duration }

func (e *TimeoutError) Error() string {
	return "Child process timed out after " + strconv.FormatFloat(e.After.Round(10*time.Millisecond).Seconds(), 'f', -1, 64) + "s"
}

// Scope is a place in the tree of tasks from which tasks are started.
type Scope struct {
	s        *Supervisor
	id       string // execution id; empty for the root
	depth    int
	deadline time.Time
	lend     func() // gives the scope's slot away while it waits; nil for the root
	resume   func(context.Context) error
	family   family
}

// Root is the scope of the root process, at the depth where it was started,
// with its deadline (zero is none).
func (s *Supervisor) Root(depth int, deadline time.Time) *Scope {
	return &Scope{s: s, depth: depth, deadline: deadline}
}

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

// margin is what a parent keeps of its own time to use the results of its
// children.
func margin(left time.Duration) time.Duration { return min(left/10, 5*time.Second) }

// deadlineFor is when a child of sc that starts now must end.
func (sc *Scope) deadlineFor(t task.Task, now time.Time) (time.Time, time.Duration) {
	allowed := t.Deadline(sc.s.cfg.Limits.ChildTimeout)
	if !sc.deadline.IsZero() {
		left := sc.deadline.Sub(now)
		if left -= margin(left); allowed == 0 || left < allowed {
			allowed = max(left, time.Nanosecond)
		}
	}
	if allowed == 0 {
		return time.Time{}, 0
	}
	return now.Add(allowed), allowed
}

// admit says why a child of sc may not start, or returns "".
func (sc *Scope) admit(byAgent bool) string {
	lim := sc.s.cfg.Limits
	if sc.depth+1 >= lim.MaxDepth {
		return fmt.Sprintf("Error: Maximum recursion depth (%d) exceeded", lim.MaxDepth)
	}
	if byAgent && sc.s.spawned.Add(1) > int64(lim.MaxChildren) {
		return fmt.Sprintf("Maximum %d sub-agents exceeded", lim.MaxChildren)
	}
	return ""
}

// run takes one admitted job, which holds a slot, to its result, and files that
// before the slot is free again.
func (sc *Scope) run(ctx context.Context, launcher Launcher, job task.Job, queued time.Duration, file func(task.Result)) {
	s := sc.s
	start := time.Now()
	job.Deadline, job.Allowed = sc.deadlineFor(job.Task, start)

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if job.Allowed > 0 {
		timer := time.AfterFunc(job.Allowed, func() { cancel(&TimeoutError{job.Allowed}) })
		defer timer.Stop()
	}
	s.track(job.ExecutionID, cancel)
	defer s.track(job.ExecutionID, nil)

	child := &Scope{s: s, id: job.ExecutionID, depth: job.Depth, deadline: job.Deadline}
	lease := &lease{slots: s.slots, held: true}
	defer lease.end()
	child.lend, child.resume = lease.lend, func(ctx context.Context) error { return lease.resume(ctx, child.depth) }
	job.Delegate, job.Family, job.Pause = child.Delegate, child, child.pause

	if s.cfg.Started != nil {
		s.cfg.Started(job)
	}
	r := launch(ctx, launcher, job)
	child.End()
	s.settle(ctx, &r)
	r.Task, r.Agent, r.ID = task.Shorten(job.Text, 100), job.Agent, job.ID
	r.ExecutionID, r.ParentExecutionID, r.BatchID = job.ExecutionID, job.Parent, job.BatchID
	r.QueuedMS, r.DurationMS = queued.Milliseconds(), time.Since(start).Milliseconds()
	r.Attempts = 1
	if s.cfg.Ended != nil {
		s.cfg.Ended(job, r)
	}
	file(r)
}

// launch keeps a panic in one task from taking the supervisor with it.
func launch(ctx context.Context, l Launcher, job task.Job) (r task.Result) {
	defer func() {
		if p := recover(); p != nil {
			r = job.Ended(task.Failed, fmt.Sprintf("panic in the supervisor: %v", p))
		}
	}()
	return l.Launch(ctx, job)
}

// settle says in r why a task was ended early, when it was.
func (s *Supervisor) settle(ctx context.Context, r *task.Result) {
	if ctx.Err() == nil || r.Status == task.Completed {
		return
	}
	var timeout *TimeoutError
	switch cause := context.Cause(ctx); {
	case errors.As(cause, &timeout), errors.Is(cause, context.DeadlineExceeded):
		r.End(task.Timeout, cause.Error())
	case errors.Is(cause, ErrCancelled), errors.Is(cause, ErrHalted), errors.Is(cause, task.ErrAbandoned):
		r.End(task.Cancelled, cause.Error())
	default:
		r.End(task.Interrupted, "interrupted: "+cause.Error())
	}
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
