package supervisor

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"qq/pkg/task"
)

// Scope is a place in the tree of tasks from which tasks are started.
type Scope struct {
	s     *Supervisor
	work  *work  // of the agent whose scope this is; nil for the root
	id    string // the parent of what is started here
	depth int
	// latest is when all must have ended that was started here, whatever their
	// clocks say: the deadline of the root does not wait for anybody. Zero is none.
	latest  time.Time
	effects atomic.Bool // of those that were started here
	family  family
}

// Root is a scope of the root process, at the depth where it was started, with
// its deadline (zero is none). Its id is the parent of what starts there.
func (s *Supervisor) Root(id string, depth int, deadline time.Time) *Scope {
	return &Scope{s: s, id: id, depth: depth, latest: deadline}
}

// margin is what a parent keeps of its own time to use the results of its
// children.
func margin(left time.Duration) time.Duration { return min(left/10, 5*time.Second) }

// allowance is how long a child of sc that starts now may run, and when it must
// have ended although its clock stood still; zero is without bound.
func (sc *Scope) allowance(t task.Task, now time.Time) (allowed time.Duration, latest time.Time) {
	allowed = t.Deadline(sc.s.cfg.Limits.ChildTimeout)
	shrink := func(left time.Duration) time.Duration {
		left = max(left-margin(left), time.Nanosecond)
		if allowed == 0 || left < allowed {
			allowed = left
		}
		return left
	}
	if sc.work != nil {
		if left, bounded := sc.work.run.left(); bounded {
			shrink(left)
		}
	}
	if !sc.latest.IsZero() {
		latest = now.Add(shrink(sc.latest.Sub(now)))
	}
	return allowed, latest
}

// newJob gives t a place below sc.
func (sc *Scope) newJob(t task.Task) task.Job {
	return task.Job{Task: t, ExecutionID: sc.s.cfg.NewID(), Parent: sc.id, Depth: sc.depth + 1}
}

// admit says why a child of sc may not start, or returns "".
func (sc *Scope) admit(byAgent bool) string {
	if most := sc.s.cfg.Limits.MaxDepth; sc.depth+1 >= most {
		return fmt.Sprintf("Error: Maximum recursion depth (%d) exceeded", most)
	}
	if byAgent {
		return sc.s.budget.take(time.Now())
	}
	return ""
}

// pause runs f while the slot of the agent of sc is lent, and does not count as
// idle until it has one again.
func (sc *Scope) pause(ctx context.Context, f func()) {
	w := sc.work
	if w == nil {
		f()
		return
	}
	w.idle.stand()
	defer w.idle.goOn()
	w.lease.lend()
	f()
	_ = w.lease.resume(ctx, w.job.Depth) // fails only when the agent is being ended
}

// queue runs f, which waits for others: neither the agent of sc nor those above
// it spend time.
func (sc *Scope) queue(f func()) {
	sc.work.idle.stand()
	defer sc.work.idle.goOn()
	for w := sc.work; w != nil; w = w.sc.work {
		w.run.stand()
		defer w.run.goOn()
	}
	f()
}

// spare gives back time that the agent of sc has spent waiting for others. Those
// above it have spent no less.
func (sc *Scope) spare(d time.Duration) {
	for w := sc.work; w != nil; w = w.sc.work {
		d = w.run.spare(d)
	}
}

// active says that the agent of sc does something, for those above it as well.
func (sc *Scope) active() {
	for w := sc.work; w != nil; w = w.sc.work {
		w.idle.anew()
	}
}
