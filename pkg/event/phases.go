package event

import (
	"slices"
	"sync"
	"time"

	"qq/pkg/task"
)

// Phases tells those who watch an agent what it does, and that it waits. Several goroutines may call its methods at
// once.
type Phases struct {
	Stream *Stream
	Job    task.Job // of the agent

	mu    sync.Mutex
	last  *Event  // what the agent does; nil if nothing was told
	waits []*wait // those that were told and are not over
	ended bool
}

// wait is one call of Wait.
type wait struct {
	text string
	over bool
}

// Emit emits e, an event about the agent. While the agent waits, that is told again after another phase.
func (p *Phases) Emit(e Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Phase == "" {
		p.Stream.Emit(e)
		return
	}
	p.last = &e
	p.tell()
	if len(p.waits) > 0 && e.Phase != PhaseWaiting {
		p.wait()
	}
}

// Tell emits that the agent is in that phase. text may be empty.
func (p *Phases) Tell(phase Phase, text string, done, total int) {
	p.Emit(Progress(p.Job, phase, text, done, total))
}

// Wait runs f, in which the agent waits for what text says. If that lasts longer than quiet, it is told, and
// after it the phase of before.
func (p *Phases) Wait(text string, quiet time.Duration, f func()) {
	w := &wait{text: text}
	if quiet > 0 {
		defer time.AfterFunc(quiet, func() { p.begin(w) }).Stop()
	} else {
		p.begin(w)
	}
	defer p.end(w)
	f()
}

// begin tells that w has begun, unless it is over by now.
func (p *Phases) begin(w *wait) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !w.over {
		p.waits = append(p.waits, w)
		p.wait()
	}
}

// end tells what the agent does after w, if w was told.
func (p *Phases) end(w *wait) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.over = true
	i := slices.Index(p.waits, w)
	if i < 0 {
		return
	}
	if p.waits = slices.Delete(p.waits, i, i+1); len(p.waits) > 0 {
		p.wait()
	} else {
		p.tell()
	}
}

// End says that the agent has ended. From now on no phase is told.
func (p *Phases) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}

// tell emits the last phase. The caller holds p.mu.
func (p *Phases) tell() {
	if p.last != nil && !p.ended {
		p.Stream.Emit(*p.last)
	}
}

// wait emits that the agent waits. The caller holds p.mu.
func (p *Phases) wait() {
	if !p.ended {
		text := p.waits[len(p.waits)-1].text
		p.Stream.Emit(Progress(p.Job, PhaseWaiting, text, 0, 0))
	}
}
