package supervisor

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"qq/pkg/task"
)

// work is one admitted job under way, through all its attempts.
type work struct {
	sc      *Scope // where it was started
	job     task.Job
	lease   *lease
	run     *clock                 // from the start on, through all attempts
	idle    *clock                 // of each attempt
	limited atomic.Pointer[string] // why it could not start a child, the first time
	// blocked is whether it can only wait for children that queue.
	blocked blocked
	// idleOut is why the job ends when its idle clock runs out.
	idleOut *task.ClockError
	latest  time.Time // see Scope
	cancel  context.CancelCauseFunc

	// refused is what the job is refused with by now, nil when it is not; nil is never
	// asked.
	refused func(task.Task) *task.Result
	// count is told of the end while the slot is still held, and file when the
	// result is recorded, with the error of that.
	count func(task.Result)
	file  func(task.Result, error)
}

func (sc *Scope) newWork(job task.Job, count func(task.Result), file func(task.Result, error)) *work {
	cfg := &sc.s.cfg
	job.Attempt = 1
	w := &work{sc: sc, job: job, count: count, file: file}
	limit := cfg.Limits.IdleTimeout
	if cfg.Idle != nil {
		limit = cfg.Idle(job)
	}
	w.idleOut = &task.ClockError{Status: task.Idle, After: limit}
	// Launchers report activity now and then, that is somewhat late.
	w.idle = newClock(limit+min(limit/20, 5*time.Second), func() { w.cancel(w.idleOut) })
	return w
}

// perform takes w, which holds a slot, to its result, and files that.
func (w *work) perform(ctx context.Context, launcher Launcher, queued time.Duration) {
	w.lease = &lease{slots: w.sc.s.slots, held: true}
	defer w.lease.end()
	if err := w.claim(); err != nil {
		w.notStarted(launcher, err)
		return
	}
	r := w.conduct(ctx, launcher)
	r.QueuedMS = queued.Milliseconds()
	w.finish(r)
}

// conduct runs w from its first start to the end of its last attempt.
func (w *work) conduct(ctx context.Context, launcher Launcher) task.Result {
	s := w.sc.s
	ctx, w.cancel = context.WithCancelCause(ctx)
	defer w.cancel(nil)
	start := time.Now()
	defer w.startClocks(start)()
	s.track(w.job.ExecutionID, w.cancel)
	defer s.track(w.job.ExecutionID, nil)

	if s.cfg.Started != nil {
		s.cfg.Started(w.job)
	}
	r := w.attempts(ctx, launcher)
	if r.Effects {
		w.sc.effects.Store(true)
	}
	w.sign(&r)
	r.DurationMS = time.Since(start).Milliseconds()
	return r
}

// notStarted files the result of a job that could not be claimed.
func (w *work) notStarted(launcher Launcher, err error) {
	if staged, ok := launcher.(Staged); ok {
		staged.Discard()
	}
	r := w.job.Ended(task.Failed, "not started: "+err.Error())
	w.sign(&r)
	w.file(r, err)
}

// startClocks starts what bounds the run time, and returns what stops all
// clocks of w.
func (w *work) startClocks(start time.Time) func() {
	timeout := func(after time.Duration) func() {
		return func() { w.cancel(&task.ClockError{Status: task.Timeout, After: after}) }
	}
	w.job.Allowed, w.latest = w.sc.allowance(w.job.Task, start)
	w.run = newClock(w.job.Allowed, timeout(w.job.Allowed))
	clocks := []*clock{w.run}
	if !w.latest.IsZero() {
		left := w.latest.Sub(start)
		clocks = append(clocks, newClock(left, timeout(left)))
	}
	for _, c := range clocks {
		c.goOn()
	}
	w.setDeadline(start)
	return func() {
		for _, c := range append(clocks, w.idle) {
			c.end()
		}
	}
}

// setDeadline tells the job when it will have to end unless its clock stands
// still meanwhile.
func (w *work) setDeadline(now time.Time) {
	if left, bounded := w.run.left(); bounded {
		w.job.Deadline = now.Add(left)
	}
}

// sign says in r whose result it is.
func (w *work) sign(r *task.Result) {
	job := &w.job
	r.Task, r.Agent, r.ID = task.Shorten(job.Text, 100), job.Agent, job.ID
	r.ExecutionID, r.ParentExecutionID, r.BatchID = job.ExecutionID, job.Parent, job.BatchID
}

// settle says in r why the job was ended early, when it was.
func (w *work) settle(ctx context.Context, r *task.Result) {
	if ctx.Err() == nil || r.Status == task.Completed {
		return
	}
	cause := context.Cause(ctx)
	clock, ranOut := errors.AsType[*task.ClockError](cause)
	switch {
	case ranOut && clock.Status == task.Idle && clock != w.idleOut: // it was not idle itself
		r.End(task.Cancelled, "ended with its parent: "+cause.Error())
	case ranOut:
		r.End(clock.Status, cause.Error())
	case errors.Is(cause, context.DeadlineExceeded):
		r.End(task.Timeout, cause.Error())
	case errors.Is(cause, ErrCancelled), errors.Is(cause, ErrHalted), errors.Is(cause, task.ErrAbandoned):
		r.End(task.Cancelled, cause.Error())
	default:
		r.End(task.Interrupted, cause.Error()) // the status says the rest
	}
}
