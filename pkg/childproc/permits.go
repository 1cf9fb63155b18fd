package childproc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"qq/pkg/childproc/plausible"
	"qq/pkg/llm"
	"qq/pkg/task"
)

// permits holds the permit of one child, or its wait for one. A child may have only one at a time:
// if it held one permit and waited for a second one, or for children that need one, it could wait
// forever for itself.
type permits struct {
	mu   sync.Mutex
	held map[int64]*held // by id of the request; at most one
	over bool            // no more permits are granted
	kept time.Duration   // total time for which the reports of this child held back the requests of others
	used task.Usage      // of all reports of this child
}

// held is a permit, or the wait for one.
type held struct {
	id     int64
	permit llm.Permit      // nil while the child waits for it
	ctx    context.Context // ends the wait for the permit
	cancel context.CancelFunc
}

// claim notes that the child waits for a permit, under the id of its request. The error says that
// the child has one or waits for one already. The wait does not end with ctx, because a cancelled
// child may need the permit for its last turn.
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

// settle ends the wait h and stores the permit p, or nothing if p is nil. It returns false if the
// child does not wait any more; the caller then keeps p and must give it back.
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

// leave ends the wait or gives back the permit with that id, with the report r. An unknown id has
// no effect.
func (s *permits) leave(id int64, r llm.Report) {
	s.mu.Lock()
	h := s.held[id]
	delete(s.held, id)
	if h != nil && h.permit != nil {
		r.RetryAfter = min(r.RetryAfter, plausible.Kept-s.kept)
		s.kept += r.RetryAfter
		s.used = s.used.Add(r.Usage)
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

// reported returns the usage of all requests that the child has reported.
func (s *permits) reported() task.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// active reports to the permits in a that the server has sent something, and what it has said. It ignores unknown ids.
func (s *permits) active(a *Active) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, h := range s.held {
		if h.permit == nil || !slices.Contains(a.Permits, id) {
			continue
		}
		if a.Allowed != nil {
			h.permit.Allowed(*a.Allowed)
		} else {
			h.permit.Active()
		}
	}
}

// shut ends the wait for a permit, and makes each later wait end at once.
func (s *permits) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for _, h := range s.held {
		h.cancel()
	}
}

// reclaim gives back the permit of the child, or ends its wait for one.
func (s *permits) reclaim() {
	s.mu.Lock()
	ids := slices.Collect(maps.Keys(s.held))
	s.mu.Unlock()
	for _, id := range ids {
		s.leave(id, llm.Report{Cancelled: true})
	}
}

// admit waits for a permit and sends it to the child, or the reason why there is none. If the child
// has given up the wait or has been told to end, admit gives the permit back and sends nothing.
func (c *child) admit(h *held, ask Ask) {
	ctx := h.ctx
	if ask.Enter.Hurry {
		ctx = llm.Hurried(ctx)
	}
	p, err := c.parent.Enter(ctx, ask.Enter.Model, ask.Enter.Again)
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

// milliseconds returns d in milliseconds, rounded up, because 0 has a special meaning in frames.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
