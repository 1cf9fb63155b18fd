package supervisor

import (
	"cmp"
	"container/heap"
	"context"
	"sync"
)

// rank orders those who wait for a slot. A parent that goes on comes first, then
// deeper tasks before shallower ones, then the longest wait. So a tree finishes
// what it has begun before it begins more, and the number of live processes
// stays near the cap however long the batch is.
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

type waiter struct {
	rank
	granted chan struct{}
	index   int // in the heap; -1 once granted or gone
}

type waiters []*waiter

func (w waiters) Len() int           { return len(w) }
func (w waiters) Less(i, j int) bool { return w[i].before(w[j].rank) }
func (w waiters) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].index, w[j].index = i, j
}
func (w *waiters) Push(x any) {
	v := x.(*waiter)
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

// slots is the one cap on children at work, for the whole tree.
type slots struct {
	mu      sync.Mutex
	free    int
	seq     uint64
	waiting waiters
}

func newSlots(n int) *slots { return &slots{free: n} }

// try takes a slot if one is free.
func (s *slots) try() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == 0 {
		return false
	}
	s.free--
	return true
}

// acquire takes a slot, waiting for one in the order of rank.
func (s *slots) acquire(ctx context.Context, resume bool, depth int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.await(ctx, s.join(resume, depth))
}

// join takes a place in the queue, or a slot at once. Whoever joins must await.
func (s *slots) join(resume bool, depth int) *waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	w := &waiter{rank: rank{resume, depth, s.seq}, granted: make(chan struct{}), index: -1}
	if s.free > 0 {
		s.free--
		close(w.granted)
		return w
	}
	heap.Push(&s.waiting, w)
	return w
}

// await waits for the slot of w. An error says that it has none.
func (s *slots) await(ctx context.Context, w *waiter) error {
	select {
	case <-w.granted:
		err := ctx.Err() // read once: it may end at any time
		if err != nil {  // both happened: whoever stops means the next one too
			s.release()
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
	s.release() // granted in the same moment: hand it on
	return ctx.Err()
}

// release gives a slot back, to the first who waits.
func (s *slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		s.free++
		return
	}
	close(heap.Pop(&s.waiting).(*waiter).granted)
}
