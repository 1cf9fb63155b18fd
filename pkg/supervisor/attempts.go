package supervisor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"qq/pkg/task"
)

// attempts launches the job until it ends by itself, or may not be repeated.
// What all the attempts used and did is in the result.
func (w *work) attempts(ctx context.Context, launcher Launcher) task.Result {
	cfg := &w.sc.s.cfg
	var before task.Result
	for n := 1; ; n++ {
		began := time.Now()
		w.job.Attempt = n
		own := w.attempt(ctx, launcher)
		own.DurationMS = time.Since(began).Milliseconds()
		r := sum(before, own)
		wait := pauseAfter(n)
		if !w.repeats(&r, wait) {
			return r
		}
		if cfg.Recorder != nil { // now: the wait may be long, and the root end in it
			w.sign(&own)
			cfg.Recorder.Attempt(w.job, began, own)
		}
		if !w.backOff(ctx, wait) {
			w.settle(ctx, &r)
			return r
		}
		before, launcher = r, cfg.Launcher // the one before may have been staged
	}
}

// attempt launches the job once, with a scope of its own.
func (w *work) attempt(ctx context.Context, launcher Launcher) task.Result {
	child := &Scope{s: w.sc.s, work: w, id: w.job.ExecutionID, depth: w.job.Depth, latest: w.latest}
	w.setDeadline(time.Now())
	job := w.job
	job.Delegate, job.Family, job.Pause = child.Delegate, child, child.pause
	job.Queue, job.Spare, job.Active = child.queue, child.spare, child.active

	w.idle.anew()
	w.idle.goOn()
	r := launch(ctx, launcher, job)
	w.idle.stand()
	child.End()
	r.Attempts = max(1, r.Attempts)
	r.Effects = r.Effects || child.effects.Load()
	w.settle(ctx, &r)
	return r
}

// launch keeps a panic in one task from taking the supervisor with it.
func launch(ctx context.Context, l Launcher, job task.Job) (r task.Result) {
	defer func() {
		if p := recover(); p != nil {
			r = job.Ended(task.Failed, fmt.Sprintf("panic in the supervisor: %v", p))
			r.Effects = true // nobody knows
		}
	}()
	return l.Launch(ctx, job)
}

// sum is the result r of the last attempt with what those before it came to.
func sum(before, r task.Result) task.Result {
	r.Attempts += before.Attempts
	r.Usage = r.Usage.Add(before.Usage)
	r.Effects = r.Effects || before.Effects
	if len(before.ChangedFiles) > 0 {
		files := slices.Concat(before.ChangedFiles, r.ChangedFiles)
		slices.Sort(files)
		r.ChangedFiles = slices.Compact(files)
	}
	return r
}

// repeats reports whether the job is to be done again after wait, when r is what
// it came to. When nobody knows what it has done, r says so.
//
// A task of a batch that says what is to be refused is done again too when its
// model server was not there, if it had done nothing yet and is not to be refused by
// now: the server may come back, and nobody waits for the answer. What an agent
// handed on is not, for that agent can think of something else.
func (w *work) repeats(r *task.Result, wait time.Duration) bool {
	last := w.job.Attempt > w.sc.s.cfg.Limits.Retries
	switch {
	case r.Status == task.Unavailable && w.refused != nil:
		if r.Effects && !w.job.Idempotent || w.refused(w.job.Task) != nil {
			return false
		}
	case r.Status != task.Killed && r.Status != task.NoResult:
		return false
	}
	if r.Effects && !w.job.Idempotent {
		what, _, _ := strings.Cut(r.Err(), "\nhint: ")
		what += "; it may have had side effects"
		if last {
			what += "\nhint: look what it has done before you do it again"
		} else {
			what += ", so it was not repeated\nhint: mark the task idempotent if doing it twice does no harm"
		}
		r.End(task.UnknownOutcome, what)
		return false
	}
	left, bounded := w.run.left()
	return !last && (!bounded || left > wait)
}

// pauseAfter is how long to wait after attempt n: 500 ms, then twice as long each
// time, a quarter more or less, at most a minute or so.
func pauseAfter(n int) time.Duration {
	d := min(500*time.Millisecond<<min(n-1, 10), time.Minute)
	return d*3/4 + rand.N(d/2)
}

// backOff waits while others use the slot, and then for a slot, which is no run
// time. It reports whether there is one.
func (w *work) backOff(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	w.lease.lend()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	var err error
	w.aside(func() { err = w.lease.resume(ctx, w.job.Depth) })
	return err == nil && ctx.Err() == nil
}
