// Package pace says when the next task of a batch may start: a time after the last start, and not while the machine has
// too little memory available.
//
// Nothing here ends a task that runs. Not promised: that the memory is enough once the task has started.
package pace

import "time"

// poll is how often a batch that waits for memory looks again.
const poll = time.Second

// Pace delays the starts of the tasks of one batch. It is for one goroutine.
type Pace struct {
	Delay  time.Duration // between two starts
	Memory Memory        // nil means that memory does not matter
	Free   int64         // bytes that must be available before a task starts
	Notes  Notes         // is told once that the batch waits for memory; not nil if Memory is set

	last  time.Time // when the last task started
	since time.Time // when the batch began to wait for memory; zero while it does not
	noted bool
}

// Memory is the memory of the machine.
type Memory interface {
	// Available returns how many bytes new programs can use without swapping.
	Available() (int64, error)
}

// Notes is told what a person should know while tasks run.
type Notes interface {
	// Note gets one line, with the arguments of [fmt.Sprintf].
	Note(format string, args ...any)
}

// Next returns how long to wait before it is called again. 0 means that a task starts now. If nobody knows how much
// memory is available, memory does not matter.
func (p *Pace) Next() time.Duration {
	now := time.Now()
	if left := p.Delay - now.Sub(p.last); left > 0 && !p.last.IsZero() {
		return left
	}
	if p.Memory != nil {
		if free, err := p.Memory.Available(); err == nil && free < p.Free {
			p.wait(now, free)
			return poll
		}
	}
	p.last, p.since = now, time.Time{}
	return 0
}

// wait tells a person that tasks wait for memory, once it has been so for a while.
func (p *Pace) wait(now time.Time, free int64) {
	if p.since.IsZero() {
		p.since = now
	}
	if !p.noted && now.Sub(p.since) >= noteAfter {
		p.noted = true
		p.Notes.Note("%d MB of memory are available, %d are asked for: no further task starts", free>>20, p.Free>>20)
	}
}

// noteAfter is how long a batch waits for memory before it says so.
const noteAfter = 5 * time.Second
