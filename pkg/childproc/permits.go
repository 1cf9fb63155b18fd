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

// permits is the permit of one child, or its wait for one. A child sends one request at
// a time: if it held a permit and waited for another one, or for children that need
// one, it could wait for itself.
type permits struct {
	mu   sync.Mutex
	held map[int64]*held // that one, and waits that are being given up
	over bool            // none are granted any more
	kept time.Duration   // how long its reports held back the requests of others
}

// held is a permit, or the wait for one.
type held struct {
	id     int64
	permit llm.Permit      // nil while the child waits
	ctx    context.Context // of the wait
	cancel context.CancelFunc
}

// claim files the wait for a permit. The end of ctx does not end that wait, because the
// permit may be for the last turn of the child.
func (s *permits) claim(ctx context.Context, id int64) (*held, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.held) > 0 {
		return nil, fmt.Errorf("%w: a permit is asked for while there is one already", ErrFrameBroken)
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
	if h != nil && h.permit != nil {
		r.RetryAfter = min(r.RetryAfter, maxKept-s.kept)
		s.kept += r.RetryAfter
	}
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
	for id, h := range s.held {
		if h.permit != nil && slices.Contains(ids, id) {
			h.permit.Active()
		}
	}
}

// shut ends all waiting, now and later.
func (s *permits) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for _, h := range s.held {
		h.cancel()
	}
}

// reclaim gives back what the child has.
func (s *permits) reclaim() {
	s.mu.Lock()
	ids := slices.Collect(maps.Keys(s.held))
	s.mu.Unlock()
	for _, id := range ids {
		s.leave(id, llm.Report{Cancelled: true})
	}
}

// admit waits for a permit and tells the child that it has it, or why not. It tells
// nothing to a child that has given up or has to.
func (c *child) admit(h *held, ask Ask) {
	p, err := c.parent.Enter(h.ctx, ask.Enter.Model, ask.Enter.Again)
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
		reply.Fault = &Fault{e.Kind, e.Problem, e.Hint, milliseconds(e.RetryAfter)}
	} else if err != nil {
		reply.Error = err.Error()
	}
	c.send(Frame{Type: TypeAnswer, Answer: &reply}, answerTime)
}

// milliseconds is d in whole milliseconds, rounded up: 0 would mean never or for ever.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// Bounds of what a child may report. Its report delays the requests of other children,
// so an agent that follows untrusted input must not be able to stop them for long.
const (
	maxRetryAfter = time.Hour
	maxKept       = time.Hour // by all its reports together
	maxTiming     = 24 * time.Hour
	maxTokens     = 1_000_000_000
)

// plausible is r with each value within its bounds.
func plausible(r llm.Report) llm.Report {
	kinds := []llm.Kind{"", llm.Unreachable, llm.Busy, llm.BrokenStream, llm.ContextOverflow, llm.UnknownModel,
		llm.Rejected, llm.Unsupported, llm.Server}
	if !slices.Contains(kinds, r.Kind) {
		r.Kind = llm.Rejected
	}
	if r.RetryAfter = min(max(r.RetryAfter, 0), maxRetryAfter); r.Kind != llm.Busy || r.Cancelled {
		r.RetryAfter = 0 // for nothing else a server asks for time
	}
	r.Timing.Queued = min(max(r.Timing.Queued, 0), maxTiming)
	r.Timing.Served = min(max(r.Timing.Served, 0), maxTiming)
	r.Usage = plausibleUsage(r.Usage)
	return r
}

func plausibleUsage(u task.Usage) task.Usage {
	return task.Usage{
		InputTokens: min(max(u.InputTokens, 0), maxTokens), OutputTokens: min(max(u.OutputTokens, 0), maxTokens),
	}
}
