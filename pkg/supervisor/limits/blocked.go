package limits

import "sync"

// Blocked pauses the run clock of a job while the job waits for its children and at least one of
// them queues for something, such as a slot. While the job does not wait for its children, its
// clock runs. A job whose clock is paused for this reason is blocked; its parent treats it like a
// child that queues.
type Blocked struct {
	clock *Clock
	up    *Blocked // Blocked of the job that started this one; nil if there is none

	mu      sync.Mutex
	queuing int // children that queue, or are blocked
	waiting int // calls of Wait that have not returned
	held    bool
}

// NewBlocked returns the Blocked of a job with that run clock. up is the Blocked of the job that
// started it, or nil.
func NewBlocked(clock *Clock, up *Blocked) *Blocked { return &Blocked{clock: clock, up: up} }

// Queue runs f, in which the job waits for something other than its children, such as a slot. The
// run clock of the job pauses until f returns.
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

// Waiting reports whether a call of Wait has not returned yet.
func (b *Blocked) Waiting() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting > 0
}

// change adds to the two counts. If that makes the job blocked, it pauses the run clock; if the job
// is not blocked any more, it resumes the clock. In both cases it updates the parent too. A nil b
// does nothing.
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
