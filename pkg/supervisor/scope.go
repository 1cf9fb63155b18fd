package supervisor

import (
	"context"
	"fmt"
	"sync"
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
	if !byAgent {
		return ""
	}
	refusal := sc.s.budget.take(time.Now())
	if refusal != "" && sc.work != nil {
		sc.work.limited.CompareAndSwap(nil, &refusal)
	}
	return refusal
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
	w.blocked.change(w, 0, 1)
	defer w.blocked.change(w, 0, -1)
	w.lease.lend()
	f()
	_ = w.lease.resume(ctx, w.job.Depth) // fails only when the agent is being ended
}

// queue runs f, which waits for others: the agent of sc spends no time, nor do
// those above it that wait for it.
func (sc *Scope) queue(f func()) {
	sc.work.idle.stand()
	defer sc.work.idle.goOn()
	sc.work.aside(f)
}

// aside runs f, which is no run time of w.
func (w *work) aside(f func()) {
	w.run.stand()
	defer w.run.goOn()
	w.above(1)
	defer w.above(-1)
	f()
}

// above tells the agent that started w that one more of its children queues, or
// one less.
func (w *work) above(n int) {
	if up := w.sc.work; up != nil {
		up.blocked.change(up, n, 0)
	}
}

// blocked is whether an agent can do nothing but wait for children that queue: then
// its run clock stands. One that goes on beside them uses time as any other.
type blocked struct {
	mu      sync.Mutex
	queuing int // children that queue, or are blocked
	waiting int // waits for children under way
	held    bool
}

// change counts and, when that blocks w or lets it go on, says so above.
func (b *blocked) change(w *work, queuing, waiting int) {
	b.mu.Lock()
	b.queuing += queuing
	b.waiting += waiting
	was := b.held
	b.held = b.queuing > 0 && b.waiting > 0
	is := b.held
	switch {
	case is && !was:
		w.run.stand()
	case was && !is:
		w.run.goOn()
	}
	b.mu.Unlock()
	switch {
	case is && !was:
		w.above(1)
	case was && !is:
		w.above(-1)
	}
}

// waits reports whether the agent waits for children.
func (b *blocked) waits() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting > 0
}

// spare gives back the last d, which the agent of sc has spent waiting for others,
// to it and to those above it that wait for it: each of them at most once.
func (sc *Scope) spare(d time.Duration) {
	w := sc.work
	d = w.run.spare(d)
	for w = w.sc.work; w != nil && w.blocked.waits(); w = w.sc.work {
		d = w.run.spare(d)
	}
}

// active says that the agent of sc does something, for those above it as well.
func (sc *Scope) active() {
	for w := sc.work; w != nil; w = w.sc.work {
		w.idle.anew()
	}
}
