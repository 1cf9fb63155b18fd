package limits

import (
	"time"

	"qq/pkg/task"
)

// Timing is the time of one job: its two clocks, and when it must have ended at the latest.
type Timing struct {
	// IdleOut is the error with which the job ends when its idle clock runs out.
	IdleOut *task.ClockError
	idle    *Clock   // of each attempt
	run     *Clock   // from the start on, through all attempts; nil before
	whole   *Clock   // to latest, also while the others are paused; nil without
	limit   Time     // of the run clock
	blocked *Blocked // pauses the run clock while the job waits for children that queue
	up      *Timing  // of the job that started it; nil if there is none
	top     bool     // it is job zero
	end     func(cause error)
	latest  time.Time
}

// NewTiming returns the Timing of a job with these limits. top says that it is job zero. end is called with the cause
// when a clock has run out.
func NewTiming(run, idle Time, top bool, end func(cause error)) *Timing {
	t := &Timing{IdleOut: idle.Over(task.Idle), limit: run, top: top, end: end}
	// Launchers report activity now and then, that is somewhat late.
	t.idle = NewClock(idle.For+min(idle.For/20, 5*time.Second), func() { end(t.IdleOut) })
	return t
}

// Idle returns the idle clock.
func (t *Timing) Idle() *Clock { return t.idle }

// Latest returns when all children of the job must have ended, even if their clocks were paused. Zero means that there
// is no such time.
func (t *Timing) Latest() time.Time { return t.latest }

// Start starts the run clock. up is the Timing of the job that started this one, or nil. latest is when all jobs of
// that one must have ended, and by who set it. A clock that runs out ends the job with a [task.ClockError], and job
// zero with the error of the run. Start returns the limit of the run clock.
func (t *Timing) Start(now time.Time, up *Timing, latest time.Time, by Source) time.Duration {
	t.up = up
	over := func(limit Time) func() {
		if t.top {
			return func() { t.end(limit.RunOver()) }
		}
		return func() { t.end(limit.Over(task.Timeout)) }
	}
	var above *Blocked
	if up != nil {
		above = up.blocked
	}
	if t.top { // its context ends with the whole run
		t.latest = latest
	} else if whole := t.lower(now, latest, by); whole.For > 0 {
		t.latest = now.Add(whole.For)
		t.whole = NewClock(whole.For, over(whole))
	}
	t.run = NewClock(t.limit.For, over(t.limit))
	t.blocked = NewBlocked(t.run, above)
	if t.whole != nil {
		t.whole.Resume()
	}
	t.run.Resume()
	return t.limit.For
}

// lower lowers the limit of the run clock to what the parent has left. whole is the time after which the job must have
// ended even if its clock was paused. Both leave the parent a margin before its own end.
func (t *Timing) lower(now, latest time.Time, by Source) (whole Time) {
	if t.up != nil && !t.up.top {
		if left, bounded := t.up.run.Left(); bounded {
			t.limit = t.limit.Lower(t.up.limit.Share(left))
		}
	}
	if !latest.IsZero() {
		whole = by.Limit(0, 0, "").Share(latest.Sub(now))
	}
	t.limit = t.limit.Lower(whole)
	return whole
}

// Left returns the time that is left of the run clock. false means that there is no limit.
func (t *Timing) Left() (time.Duration, bool) { return t.run.Left() }

// Stop stops all clocks for good.
func (t *Timing) Stop() {
	for _, c := range []*Clock{t.whole, t.run, t.idle} {
		if c != nil {
			c.End()
		}
	}
}

// Begin begins an attempt: the idle clock starts again.
func (t *Timing) Begin() {
	t.idle.Reset()
	t.idle.Resume()
}

// Queue runs f, in which the job waits for something other than its children, such as a permit or a person. Until f
// returns, its clocks pause, and so do the run clocks of its ancestors that wait for it.
func (t *Timing) Queue(f func()) {
	t.idle.Pause()
	defer t.idle.Resume()
	t.blocked.Queue(f)
}

// Wait runs f, in which the job waits for its children. The idle clock pauses for the whole time. The run clock pauses
// while a child queues (see [Blocked]), that of job zero for the whole time: nobody waits for it, and its children
// have limits of their own.
func (t *Timing) Wait(f func()) {
	if t.top {
		t.Queue(f)
		return
	}
	t.idle.Pause()
	defer t.idle.Resume()
	t.blocked.Wait(f)
}

// Child says that one more child queues before it starts, or that one does not any more.
func (t *Timing) Child(queues bool) {
	if queues {
		t.blocked.change(1, 0)
	} else {
		t.blocked.change(-1, 0)
	}
}

// GiveBack takes the last d off the run clock of the job and of each ancestor that waits for it, because the job spent
// that time waiting for others. The same time is taken off a clock only once.
func (t *Timing) GiveBack(d time.Duration) {
	d = t.run.GiveBack(d)
	for t = t.up; t != nil && t.blocked.Waiting(); t = t.up {
		d = t.run.GiveBack(d)
	}
}

// Active resets the idle clocks of the job and of all its ancestors.
func (t *Timing) Active() {
	for ; t != nil; t = t.up {
		t.idle.Reset()
	}
}
