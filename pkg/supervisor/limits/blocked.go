package limits

import "sync"

// Blocked pauses the run clock of a job while the job can do nothing but wait for
// children that queue. A job that works meanwhile uses time like any other. A job that
// is blocked counts as queuing for the one that waits for it.
type Blocked struct {
	clock *Clock
	up    *Blocked // of the job that started it; nil at the top

	mu      sync.Mutex
	queuing int // children that queue, or are blocked
	waiting int // waits for children under way
	held    bool
}

// NewBlocked returns that of a job with a run clock. That of the job that started it is
// up, or nil.
func NewBlocked(clock *Clock, up *Blocked) *Blocked { return &Blocked{clock: clock, up: up} }

// Queue runs f, in which the job queues for others than its children: its clock pauses.
func (b *Blocked) Queue(f func()) {
	b.clock.Pause()
	defer b.clock.Resume()
	b.up.change(1, 0)
	defer b.up.change(-1, 0)
	f()
}

// Wait runs f, in which the job waits for its children.
func (b *Blocked) Wait(f func()) {
	b.change(0, 1)
	defer b.change(0, -1)
	f()
}

// Waiting reports whether the job waits for its children.
func (b *Blocked) Waiting() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting > 0
}

// change counts and, when that blocks the job or lets it continue, says so above.
func (b *Blocked) change(queuing, waiting int) {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.queuing += queuing
	b.waiting += waiting
	was := b.held
	b.held = b.queuing > 0 && b.waiting > 0
	is := b.held
	switch {
	case is && !was:
		b.clock.Pause()
	case was && !is:
		b.clock.Resume()
	}
	b.mu.Unlock()
	switch {
	case is && !was:
		b.up.change(1, 0)
	case was && !is:
		b.up.change(-1, 0)
	}
}
