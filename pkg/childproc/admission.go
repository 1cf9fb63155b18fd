package childproc

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"qq/pkg/llm"
)

var _ llm.Admission = (*Conn)(nil)

// permit is one that the root has granted.
type permit struct {
	conn     *Conn
	id       int64
	first    atomic.Int64 // when the root may first be told of an answer; never, once it was
	answered atomic.Bool  // since the root was told last
	left     atomic.Bool
}

// Enter implements [llm.Admission]: the root decides.
func (c *Conn) Enter(ctx context.Context, model string, again bool) (llm.Permit, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if c.granted.CompareAndSwap(true, false) {
		return c.admitted(0), nil
	}
	_, a, err := c.ask(ctx, Ask{Enter: &Enter{Model: model, Again: again}})
	if a.ID != 0 && ctx.Err() != nil && err != nil { // it may be granted at this moment
		c.leave(a.ID, llm.Report{Cancelled: true})
	}
	switch {
	case err != nil:
		return nil, err
	case a.Fault != nil:
		after := time.Duration(a.Fault.RetryAfterMS) * time.Millisecond
		return nil, &llm.Error{Kind: a.Fault.Kind, Problem: a.Fault.Problem, Hint: a.Fault.Hint, RetryAfter: after}
	}
	return c.admitted(a.ID), nil
}

func (c *Conn) admitted(id int64) *permit {
	p := &permit{conn: c, id: id}
	p.first.Store(c.heartbeat.now() + int64(c.heartbeat.lead))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.permits[p] = struct{}{}
	return p
}

// Leave implements [llm.Permit].
func (p *permit) Leave(r llm.Report) {
	if !p.left.CompareAndSwap(false, true) {
		return
	}
	p.conn.mu.Lock()
	delete(p.conn.permits, p)
	p.conn.mu.Unlock()
	p.conn.leave(p.id, r)
}

func (c *Conn) leave(id int64, r llm.Report) {
	_ = c.send(Frame{Type: TypeLeave, Leave: &Leave{ID: id, Report: r}})
}

// giveBack returns the permit that came with the start frame, if it was not used.
func (c *Conn) giveBack() {
	if c.granted.CompareAndSwap(true, false) {
		c.leave(0, llm.Report{Cancelled: true})
	}
}

// Active implements [llm.Permit]. It is as cheap as that of Conn, and counts as activity
// of the child as well.
func (p *permit) Active() {
	if p.left.Load() {
		return
	}
	p.answered.Store(true)
	now := p.conn.heartbeat.now()
	if first := p.first.Load(); now >= first && p.first.CompareAndSwap(first, int64(never)) {
		p.conn.heartbeat.skip(now)
		p.conn.tell()
		return
	}
	p.conn.beat(now)
}

// Active says that the child is at work: a token came, a tool runs. It tells the root
// only now and then, so most calls cost next to nothing.
func (c *Conn) Active() { c.beat(c.heartbeat.now()) }

func (c *Conn) beat(now int64) {
	if c.heartbeat.due(now) {
		c.tell()
	}
}

// tell sends an active frame.
func (c *Conn) tell() {
	var a Active
	c.mu.Lock()
	for p := range c.permits {
		if p.answered.Swap(false) {
			p.first.Store(int64(never))
			a.Permits = append(a.Permits, p.id)
		}
	}
	c.mu.Unlock()
	slices.Sort(a.Permits)
	_ = c.send(Frame{Type: TypeActive, Active: &a})
}

// How often a child says that it is active: several times within its idle time, and not
// at all when it ends soon.
const (
	firstSign   = 250 * time.Millisecond
	fastestBeat = 10 * time.Millisecond
	slowestBeat = 5 * time.Second
	beatsInIdle = 20
	never       = time.Duration(1 << 62)
)

// heartbeat says when the root is told that the child is active. It has no timer: each
// call of Active asks it. Times count from its beginning.
type heartbeat struct {
	began time.Time
	lead  time.Duration // before the first beat
	every time.Duration
	next  atomic.Int64
}

// begin starts the heartbeat of a child with that idle time, before anything else.
func (h *heartbeat) begin(idleMS int64) {
	h.began, h.lead, h.every = time.Now(), firstSign, never
	h.next.Store(int64(never))
	if idleMS > 0 {
		ms := min(idleMS/beatsInIdle, slowestBeat.Milliseconds())
		h.every = max(time.Duration(ms)*time.Millisecond, fastestBeat)
		h.lead = min(firstSign, h.every)
		h.next.Store(int64(h.lead))
	}
}

func (h *heartbeat) now() int64 { return int64(time.Since(h.began)) }

// due reports whether the root is to be told now. Of several callers at the same time,
// one gets true.
func (h *heartbeat) due(now int64) bool {
	next := h.next.Load()
	return now >= next && h.next.CompareAndSwap(next, now+int64(h.every))
}

// skip delays the next beat, because the root is told now.
func (h *heartbeat) skip(now int64) { h.next.Store(now + int64(h.every)) }
