package engine

import (
	"context"
	"sync"
	"time"

	"qq/internal/models/gate"
	"qq/pkg/llm"
	"qq/pkg/task"
)

// watch ends a request of the root's own agent that nothing comes back from for a
// time. The supervisor watches over children; nobody does over the root's own
// agent, which sends one request at a time. It is the admission of that agent, for
// time that a request spends behind others at the server does not count.
type watch struct {
	gate *gate.Gate
	idle time.Duration

	mu      sync.Mutex
	timer   *time.Timer // of the request under way
	expired bool        // that request, or the one before
}

var _ gate.Patient = (*watch)(nil)

// Enter implements llm.Admission.
func (w *watch) Enter(ctx context.Context, model string) (llm.Permit, error) {
	return w.over(w.gate.EnterFor(ctx, model, w, false))
}

// EnterAgain implements gate.Patient.
func (w *watch) EnterAgain(ctx context.Context, model string) (llm.Permit, error) {
	return w.over(w.gate.EnterFor(ctx, model, w, true))
}

// over is p, of which the watch knows.
func (w *watch) over(p llm.Permit, err error) (llm.Permit, error) {
	if err != nil {
		return nil, err
	}
	return watchedPermit{p, w}, nil
}

// Behind implements gate.Clocked.
func (w *watch) Behind(time.Duration) { w.anew() }

// anew begins the time anew, if a request is under way.
func (w *watch) anew() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Reset(w.idle)
	}
}

// begin starts the time of a request, of which end is told when it is over.
func (w *watch) begin(end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expired = false
	var t *time.Timer
	t = time.AfterFunc(w.idle, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.timer == t {
			w.expired = true
			end()
		}
	})
	w.timer = t
}

// end stops the time, and reports whether it was over.
func (w *watch) end() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	w.timer = nil
	return w.expired
}

// watchedPermit reports a request that was given up as what it is: neither a
// success nor a failure of the server.
type watchedPermit struct {
	llm.Permit
	w *watch
}

// Leave implements llm.Permit.
func (p watchedPermit) Leave(r llm.Report) {
	p.w.mu.Lock()
	gaveUp := p.w.expired
	p.w.mu.Unlock()
	if gaveUp && r.Kind != "" {
		r = llm.Report{Cancelled: true, Usage: r.Usage, Timing: r.Timing}
	}
	p.Permit.Leave(r)
}

// watched is a model whose requests are watched.
type watched struct {
	llm.Backend
	w *watch
}

// Chat implements llm.Backend.
func (b watched) Chat(ctx context.Context, r llm.Request, yield func(llm.Chunk)) (llm.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := &task.ClockError{Status: task.Idle, After: b.w.idle}
	b.w.begin(func() { cancel(over) })
	resp, err := b.Backend.Chat(ctx, r, func(c llm.Chunk) {
		b.w.anew()
		yield(c)
	})
	if b.w.end() && err != nil {
		err = over
	}
	return resp, err
}
