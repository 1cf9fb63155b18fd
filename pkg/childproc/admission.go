package childproc

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"qq/pkg/llm"
)

var _ llm.Admission = (*Conn)(nil)

// permit is a permit for one request to a model, seen from the child: the root has granted it and
// can take it back.
type permit struct {
	conn     *Conn
	id       int64
	first    atomic.Int64 // from when on the answer is reported to the root at once; never after that report
	answered atomic.Bool  // the server has sent something since the last active frame
	left     atomic.Bool
}

// Enter implements [llm.Admission]: it asks the root for a permit, unless one came with the start
// frame.
func (c *Conn) Enter(ctx context.Context, model string, again bool) (llm.Permit, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if c.granted.CompareAndSwap(true, false) {
		return c.admitted(0), nil
	}
	_, a, err := c.ask(ctx, Ask{Enter: &Enter{Model: model, Again: again, Hurry: llm.InHurry(ctx)}})
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

// giveBack returns the permit that came with the start frame to the root, if it has not been used.
func (c *Conn) giveBack() {
	if c.granted.CompareAndSwap(true, false) {
		c.leave(0, llm.Report{Cancelled: true})
	}
}

// Active implements [llm.Permit]. It also counts as activity of the child, and costs as little as
// [Conn.Active].
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

// Allowed implements [llm.Permit]. The root is told at once, because requests of others may wait for it.
func (p *permit) Allowed(a llm.Allowance) {
	if !p.left.Load() {
		_ = p.conn.send(Frame{Type: TypeActive, Active: &Active{Permits: []int64{p.id}, Allowed: &a}})
	}
}

// Active says that the child is active: for example, a token has arrived or a tool runs. Only some
// calls send a frame to the root, so most calls cost very little.
func (c *Conn) Active() { c.beat(c.heartbeat.now()) }

func (c *Conn) beat(now int64) {
	if c.heartbeat.due(now) {
		c.tell()
	}
}

// tell sends an active frame with the permits whose requests have received a part of an answer
// since the last one.
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

// How often a child reports activity: several times within its idle time, and not at all if it ends
// soon.
const (
	firstSign   = 250 * time.Millisecond
	fastestBeat = 10 * time.Millisecond
	slowestBeat = 5 * time.Second
	beatsInIdle = 20
	never       = time.Duration(1 << 62)
)

// heartbeat decides when the child reports to the root that it is active. It has no timer: each
// call of Active asks it. Its times are nanoseconds since began.
type heartbeat struct {
	began time.Time
	lead  time.Duration // before the first beat
	every time.Duration
	next  atomic.Int64
}

// begin starts the heartbeat of a child that may be inactive for idleMS milliseconds. With 0 there
// is no such limit and the heartbeat never asks for a report. It must be called before any other
// method.
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

// due reports whether the child must report activity now. If several goroutines call it at the same
// time, only one of them gets true.
func (h *heartbeat) due(now int64) bool {
	next := h.next.Load()
	return now >= next && h.next.CompareAndSwap(next, now+int64(h.every))
}

// skip delays the next report by a full interval. It is called when the child reports activity for
// another reason.
func (h *heartbeat) skip(now int64) { h.next.Store(now + int64(h.every)) }
