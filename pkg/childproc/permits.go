package childproc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"qq/pkg/llm"
	"qq/pkg/task"
)

// permits are those of one child.
type permits struct {
	mu   sync.Mutex
	held map[int64]*held
	over bool // none are granted any more
}

// held is a permit, or the wait for one.
type held struct {
	id     int64
	permit llm.Permit      // nil while the child waits
	ctx    context.Context // of the wait
	cancel context.CancelFunc
}

// first files the permit of a child that has none yet, and reports whether there
// is one.
func (s *permits) first(p llm.Permit) bool {
	if p != nil {
		s.held[0] = &held{permit: p, cancel: func() {}}
	}
	return p != nil
}

// claim makes a place for a permit that the child asks for. It may wait for it
// when ctx is done already: that may be for its last turn.
func (s *permits) claim(ctx context.Context, id int64) (*held, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[id] != nil {
		return nil, fmt.Errorf("%w: permit %d is asked for twice", ErrFrameBroken, id)
	}
	if len(s.held) >= maxPermits {
		return nil, fmt.Errorf("%w: over %d permits at once", ErrFrameBroken, maxPermits)
	}
	h := &held{id: id}
	h.ctx, h.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if s.over {
		h.cancel()
	}
	s.held[id] = h
	return h, nil
}

// settle ends a wait with p, or with nothing when that is nil. It reports whether
// the child still waited; if not, p is not kept.
func (s *permits) settle(h *held, p llm.Permit) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.held[h.id] == h
	waited := known && h.ctx.Err() == nil
	if waited && p != nil {
		h.permit = p
	} else if known {
		delete(s.held, h.id)
	}
	return waited
}

// leave gives back the permit with that id, if there is one, or ends the wait.
func (s *permits) leave(id int64, r llm.Report) {
	s.mu.Lock()
	h := s.held[id]
	delete(s.held, id)
	s.mu.Unlock()
	if h == nil {
		return
	}
	h.cancel()
	if h.permit != nil {
		h.permit.Leave(r)
	}
}

// active passes on that the server has sent something.
func (s *permits) active(ids []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids[:min(len(ids), maxPermits)] {
		if h := s.held[id]; h != nil && h.permit != nil {
			h.permit.Active()
		}
	}
}

// shut ends all waiting, now and later. It returns the ids of what there is.
func (s *permits) shut() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for _, h := range s.held {
		h.cancel()
	}
	return slices.Collect(maps.Keys(s.held))
}

// end gives back what the child has kept: it is gone.
func (s *permits) end() {
	for _, id := range s.shut() {
		s.leave(id, llm.Report{Cancelled: true})
	}
}

// admit waits for a permit and tells the child that it has it, or why not. A
// child that has given up, or must, is told nothing.
func (c *child) admit(h *held, ask Ask) {
	var p llm.Permit
	var err error
	queue := c.job.Queue
	if queue == nil {
		queue = func(f func()) { f() }
	}
	queue(func() { p, err = c.cfg.Admit(h.ctx, c.job, ask.Enter.Model) })
	if err != nil {
		p = nil
	}
	if !c.permits.settle(h, p) {
		if p != nil {
			p.Leave(llm.Report{Cancelled: true})
		}
		return
	}
	reply := Answer{ID: ask.ID, Last: true}
	if e, ok := errors.AsType[*llm.Error](err); ok {
		reply.Fault = &Fault{e.Kind, e.Problem, e.Hint}
	} else if err != nil {
		reply.Error = err.Error()
	}
	c.send(Frame{Type: TypeAnswer, Answer: &reply}, answerTime)
}

// Bounds of what a child may report. It decides about the requests of others: a
// child that has been talked into it shall not stop them for long.
const (
	maxRetryAfter = time.Hour
	maxTiming     = 24 * time.Hour
	maxTokens     = 1_000_000_000
)

// plausible is r without what cannot be.
func plausible(r llm.Report) llm.Report {
	kinds := []llm.Kind{"", llm.Unreachable, llm.Busy, llm.BrokenStream, llm.ContextOverflow, llm.UnknownModel, llm.Rejected,
		llm.Unsupported, llm.Server, llm.Open, llm.Spent}
	if !slices.Contains(kinds, r.Kind) {
		r.Kind = llm.Rejected
	}
	r.RetryAfter = min(max(r.RetryAfter, 0), maxRetryAfter)
	r.Timing.Queued = min(max(r.Timing.Queued, 0), maxTiming)
	r.Timing.Served = min(max(r.Timing.Served, 0), maxTiming)
	r.Usage = plausibleUsage(r.Usage)
	return r
}

func plausibleUsage(u task.Usage) task.Usage {
	return task.Usage{InputTokens: min(max(u.InputTokens, 0), maxTokens), OutputTokens: min(max(u.OutputTokens, 0), maxTokens)}
}
