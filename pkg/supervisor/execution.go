package supervisor

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"qq/pkg/event"
	"qq/pkg/supervisor/access"
	"qq/pkg/supervisor/attempts"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/supervisor/limits"
	"qq/pkg/task"
)

// execution is one job that was accepted, through all its attempts.
type execution struct {
	s       *Supervisor
	parent  *handle // handle that started the job
	job     task.Job
	owner   owner
	mail    *jobs.Mailbox
	loan    *limits.Loan
	lease   *access.Lease // nil if it needs none, or has not asked
	queues  bool          // it waits for its lease and has not started
	copied  bool          // it works in a copy of the files, that of its parent or its own
	time    *limits.Timing
	limited atomic.Pointer[string] // first reason why its agent could not start a child; nil if there was none
	ctx     context.Context        // done when the job is to end
	outer   context.Context        // done when its parent, or the batch, is to end
	cancel  context.CancelCauseFunc
}

// owner receives the result of a job. It is a task of a batch, a child in the background, or, for
// job zero, the caller of [Supervisor.Run].
type owner interface {
	// ended is called with the result before it is recorded and before the slot of the job becomes
	// free. A batch counts failures there; the owner of job zero may complete the result.
	ended(r *task.Result)
	// file is called with the final result, after it was recorded. err says that the start or the
	// result of the job could not be recorded.
	file(r task.Result, err error)
}

// patient is an owner whose task may wait until an unavailable model server is back.
type patient interface {
	waitsForServer() bool
	// refusal returns the result of a task that is not to be tried any more, or nil if it is.
	refusal(t task.Task) *task.Result
}

// newExecution accepts job, which then waits for its slot until ctx is done. The caller must run it
// or drop it.
func (h *handle) newExecution(ctx context.Context, job task.Job, o owner) *execution {
	job.Attempt = 1
	x := &execution{s: h.s, parent: h, job: job, owner: o, outer: ctx}
	x.ctx, x.cancel = context.WithCancelCause(ctx)
	run, idle := x.limits()
	x.job.Idle, x.time = idle.For, limits.NewTiming(run, idle, x.zero(), x.cancel)
	x.mail = x.s.jobs.Add(x.job, x.time.Idle(), x.cancel)
	return x
}

// limits returns the limits of the run clock and of the idle clock.
func (x *execution) limits() (run, idle limits.Time) {
	a, _ := x.s.Agent(x.job.Agent) // without an agent no attempt starts
	who := limits.Agent{Name: a.Name + " (" + a.Source + ")", Timeout: a.Timeout, Idle: a.IdleTimeout}
	return x.s.cfg.Limits.Of(who, x.job.Task.Deadline(0), x.zero(), x.parent.exec == nil)
}

// drop says that the job has ended or is not run.
func (x *execution) drop() {
	x.queue(false)
	x.lease.End()
	x.s.jobs.Remove(x.job.ExecutionID)
	x.cancel(nil)
}

// cancelled announces and returns the result of a job that was cancelled before it started. It returns
// nil if the job was not cancelled.
func (x *execution) cancelled() *task.Result {
	if !errors.Is(context.Cause(x.ctx), ErrCancelled) {
		return nil
	}
	r := x.job.Fail(ErrCancelled)
	x.job.Sign(&r)
	x.announce(r)
	return &r
}

// zero reports whether x is job zero, the agent of this process.
func (x *execution) zero() bool {
	_, ok := x.owner.(*single)
	return ok
}

// run claims the job in the record, runs all its attempts and hands the result to the owner. The
// first attempt uses launcher. The job must hold a slot, which run gives back.
func (x *execution) run(launcher Launcher) {
	defer x.loan.End()
	defer x.drop()
	x.queue(false)
	start := time.Now()
	x.startClocks(start)
	if err := x.claim(); err != nil {
		x.time.Stop()
		if staged, ok := launcher.(Staged); ok {
			staged.Discard()
		}
		r := x.job.Fail(fmt.Errorf("not started: %w", err))
		if x.settle(x.ctx, &r); x.ctx.Err() != nil {
			err = nil // it was cancelled while it waited for the record
		}
		x.job.Sign(&r)
		x.owner.file(r, err)
		return
	}
	x.started()
	r := x.attempts(x.ctx, launcher)
	x.s.machine.Ended()
	x.time.Stop()
	x.drop()
	if r.Effects {
		x.parent.effects.Store(true)
	}
	x.job.Sign(&r)
	r.DurationMS, r.QueuedMS = time.Since(start).Milliseconds(), start.Sub(x.job.Queued).Milliseconds()
	r.Away = x.loan.Away(start)
	x.finish(r)
}

// attempts runs the job again and again until it may not be repeated. It returns the result of the
// last attempt, with the tokens, the changed files and the side effects of all attempts.
func (x *execution) attempts(ctx context.Context, launcher Launcher) task.Result {
	var before task.Result
	for n := 1; ; n++ {
		began := time.Now()
		x.job.Attempt = n
		x.s.jobs.Attempt(x.job.ExecutionID, n, x.loan)
		own := x.attempt(ctx, launcher)
		own.DurationMS = time.Since(began).Milliseconds()
		r := attempts.Sum(before, own)
		wait := attempts.Pause(n)
		if !x.repeats(&r, wait) {
			return r
		}
		if x.s.cfg.Record != nil { // now: the wait may be long, and the root end in it
			x.job.Sign(&own)
			x.s.cfg.Record.Attempt(x.job, began, own)
		}
		if x.s.cfg.Events.Wanted() {
			x.s.cfg.Events.Emit(event.Again(x.job, own, wait))
		}
		if !x.backOff(ctx, wait) {
			x.settle(ctx, &r)
			return r
		}
		before, launcher = r, x.s.cfg.Launcher // the one before may have been staged
	}
}

// attempt runs the job once, with a new handle. Before it returns, it ends the background children
// of the agent.
func (x *execution) attempt(ctx context.Context, launcher Launcher) task.Result {
	agent, err := x.s.Agent(x.job.Agent)
	if err != nil {
		r := x.job.Ended(task.Misused, err.Error())
		r.Attempts = 1
		return r
	}
	x.setDeadline(time.Now())
	h := x.newHandle(agent)
	x.time.Begin()
	var tries limits.Tries
	r := launch(ctx, launcher, h)
	for used := r.Usage; r.Hindered && x.retries(ctx, &tries, task.Machine("", "%s", r.Err())); used = r.Usage {
		r = launch(ctx, x.s.cfg.Launcher, h)
		r.Usage = r.Usage.Add(used)
	}
	x.time.Idle().Pause()
	h.close() // what it did not wait for is part of what it did
	h.conclude(&r)
	if r.Hindered {
		r.Attempts = 0
		r.End(task.Unavailable, r.Err())
	} else {
		r.Attempts = max(1, r.Attempts)
	}
	x.settle(ctx, &r)
	return r
}

// retries waits if err is a fault of the machine, and returns whether the job is to try again what
// failed with err. While it waits, the clocks of the job pause, and so do the run clocks of its
// ancestors that wait for it. Job zero does not wait: a person waits for it.
func (x *execution) retries(ctx context.Context, t *limits.Tries, err error) (again bool) {
	if x.zero() || !task.MachineFault(err) {
		return false
	}
	x.time.Queue(func() { again = x.s.machine.Wait(ctx, t, err.Error()) })
	return again
}

// launch runs the job of h. If that panics, the job ends with a failure, and the supervisor
// continues with its other jobs.
func launch(ctx context.Context, l Launcher, h *handle) (r task.Result) {
	defer func() {
		if p := recover(); p != nil {
			r = h.job.Ended(task.Failed, fmt.Sprintf("panic in the supervisor: %v", p))
			r.Effects = true // nobody knows
		}
	}()
	return l.Launch(ctx, h.job, h)
}

// repeats reports whether the job is to be run again after the pause wait. r is the result so far.
// A job is repeated if its process died, as long as attempts and run time are left. If the job may
// have had side effects and is not idempotent, repeats returns false and changes the status of r to
// [task.UnknownOutcome].
//
// A task of a batch is also repeated if its model server was unavailable, because the server may
// come back and nobody waits for this one answer. The task must not have had side effects (unless
// it is idempotent), and must not be refused by now. A task that an agent delegated is not repeated
// for this reason: that agent can do something else instead.
func (x *execution) repeats(r *task.Result, wait time.Duration) bool {
	last := x.job.Attempt > x.s.cfg.Limits.Retries
	p, ok := x.owner.(patient)
	switch {
	case x.zero(), r.Hindered:
		return false // its process is this one, or the machine starts none
	case r.Status == task.Unavailable && ok && p.waitsForServer():
		refused := p.refusal(x.job.Task)
		if refused != nil && refused.Status == task.Cancelled {
			r.End(refused.Status, r.Err())
		}
		if r.Effects && !x.job.Idempotent || refused != nil {
			return false
		}
	case !attempts.Died(r.Status):
		return false
	}
	if r.Effects && !x.job.Idempotent {
		attempts.Uncertain(r, last)
		return false
	}
	left, bounded := x.time.Left()
	return !last && (!bounded || left > wait)
}

// lend lets other jobs use the slot and the lease of the job, until resume.
func (x *execution) lend() {
	x.loan.Lend()
	x.lease.Lend()
}

// resume waits until the job has its lease, and then a slot again. While it waits for the lease, its clocks pause. An
// error says that ctx is done.
func (x *execution) resume(ctx context.Context) (err error) {
	defer x.s.jobs.Await(x.job.ExecutionID, jobs.AwaitsSlot)()
	if x.lease != nil {
		x.time.Queue(func() { err = x.lease.Resume(ctx) })
	}
	return errors.Join(err, x.loan.Resume(ctx, x.job.Depth))
}

// backOff waits for the time wait while other jobs use the slot and the lease, and then until the job has both
// again. The run clock pauses while the job waits for them. backOff returns false if ctx is
// done.
func (x *execution) backOff(ctx context.Context, wait time.Duration) bool {
	defer x.s.jobs.Await(x.job.ExecutionID, jobs.Retries)()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	x.lend()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	var err error
	x.time.Queue(func() { err = x.resume(ctx) })
	return err == nil && ctx.Err() == nil
}

// startClocks starts the clocks that limit the run time of the job.
func (x *execution) startClocks(now time.Time) {
	var up *limits.Timing
	if p := x.parent.exec; p != nil {
		up = p.time
	}
	x.job.Allowed = x.time.Start(now, up, x.parent.latest, x.s.cfg.Limits.TimeoutBy)
	x.setDeadline(now)
}

// setDeadline sets the deadline of the job: the time at which its run clock runs out if it is not
// paused before. Without a limit, setDeadline does nothing.
func (x *execution) setDeadline(now time.Time) {
	if left, bounded := x.time.Left(); bounded {
		x.job.Deadline = now.Add(left)
	}
}

// settle sets the status and the error of r to the reason why ctx was cancelled, see [attempts.Settle].
func (x *execution) settle(ctx context.Context, r *task.Result) {
	attempts.Settle(ctx, r, x.time.IdleOut)
}
