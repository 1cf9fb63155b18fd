package limits

import (
	"cmp"
	"container/heap"
	"context"
	"sync"
)

// rank orders the jobs that wait for a slot: first a parent that takes its own slot back, then
// deeper jobs before shallower ones, then the job that has waited longest. So a tree finishes what
// it has begun before it begins more. This keeps the number of live processes near the cap, however
// long a batch is.
type rank struct {
	resume bool
	depth  int
	seq    uint64
}

func (r rank) before(o rank) bool {
	if r.resume != o.resume {
		return r.resume
	}
	return cmp.Or(cmp.Compare(o.depth, r.depth), cmp.Compare(r.seq, o.seq)) < 0
}

// Turn is a place in the queue for a slot.
type Turn struct {
	rank
	granted chan struct{}
	index   int // in the heap; -1 once granted or gone
}

type waiters []*Turn

func (w waiters) Len() int           { return len(w) }
func (w waiters) Less(i, j int) bool { return w[i].before(w[j].rank) }
func (w waiters) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].index, w[j].index = i, j
}
func (w *waiters) Push(x any) {
	v := x.(*Turn)
	v.index = len(*w)
	*w = append(*w, v)
}
func (w *waiters) Pop() any {
	old := *w
	v := old[len(old)-1]
	old[len(old)-1] = nil
	*w = old[:len(old)-1]
	v.index = -1
	return v
}

// Slots limits how many jobs of the whole tree run at once: each running job holds one slot.
// Several goroutines may use it at once.
type Slots struct {
	mu      sync.Mutex
	all     int
	paused  bool
	free    int // negative while more are taken than there are, see overdraw
	seq     uint64
	waiting waiters
}

// NewSlots returns Slots with n free slots.
func NewSlots(n int) *Slots { return &Slots{all: n, free: n} }

// Try takes a slot if one is free, and reports whether it did. It does not wait.
func (s *Slots) Try() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free <= 0 || s.paused {
		return false
	}
	s.free--
	return true
}

// Acquire takes a slot, and waits until one is free. Callers with resume come first, then deeper
// jobs before shallower ones, then the caller that has waited longest. An error says that ctx is
// done; the caller then has no slot.
func (s *Slots) Acquire(ctx context.Context, resume bool, depth int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.Await(ctx, s.Join(resume, depth))
}

// Join takes a slot if one is free, or else a place in the queue. The caller must pass the Turn to
// Await, even if it needs no slot any more: otherwise the slot is lost.
func (s *Slots) Join(resume bool, depth int) *Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	w := &Turn{rank: rank{resume, depth, s.seq}, granted: make(chan struct{}), index: -1}
	heap.Push(&s.waiting, w)
	s.grant()
	return w
}

// grant gives free slots to those who wait. While no job may start, only those get one that take theirs back. The
// caller holds s.mu.
func (s *Slots) grant() {
	for s.free > 0 && len(s.waiting) > 0 && (!s.paused || s.waiting[0].resume) {
		s.free--
		close(heap.Pop(&s.waiting).(*Turn).granted)
	}
}

// Resize changes how many slots there are, to at least 1. Jobs that have one keep it.
func (s *Slots) Resize(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = max(n, 1)
	s.free, s.all = s.free+n-s.all, n
	s.grant()
}

// Pause says whether no further job may start. Those that have started go on, and get their slots back that they lent.
func (s *Slots) Pause(paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = paused
	s.grant()
}

// State returns how many slots there are, how many are in use, and whether no further job may start.
func (s *Slots) State() (all, taken int, paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all, s.all - s.free, s.paused
}

// Await waits until w has a slot. An error says that ctx is done; the caller then has no slot.
func (s *Slots) Await(ctx context.Context, w *Turn) error {
	select {
	case <-w.granted:
		err := ctx.Err() // read once: it may end at any time
		if err != nil {  // both happened: whoever stops means the next one too
			s.Release()
		}
		return err
	case <-ctx.Done():
	}
	s.mu.Lock()
	if w.index >= 0 {
		heap.Remove(&s.waiting, w.index)
		s.mu.Unlock()
		return ctx.Err()
	}
	s.mu.Unlock()
	s.Release() // granted in the same moment: hand it on
	return ctx.Err()
}

// Release gives a slot back. The first caller in the queue gets it.
func (s *Slots) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	s.grant()
}

// overdraw takes a slot even if none is free.
func (s *Slots) overdraw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free--
}

// taken returns how many slots are in use.
func (s *Slots) taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all - s.free
}

// Free returns how many slots are free, and how many callers wait for one.
func (s *Slots) Free() (free, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.free, 0), len(s.waiting)
}
