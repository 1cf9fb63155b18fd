package childproc

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"qq/pkg/childproc/heartbeat"
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
	p.first.Store(c.heartbeat.Now() + int64(c.heartbeat.Lead()))
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
	now := p.conn.heartbeat.Now()
	if first := p.first.Load(); now >= first && p.first.CompareAndSwap(first, int64(heartbeat.Never)) {
		p.conn.heartbeat.Skip(now)
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
func (c *Conn) Active() { c.beat(c.heartbeat.Now()) }

func (c *Conn) beat(now int64) {
	if c.heartbeat.Due(now) {
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
			p.first.Store(int64(heartbeat.Never))
			a.Permits = append(a.Permits, p.id)
		}
	}
	c.mu.Unlock()
	slices.Sort(a.Permits)
	_ = c.send(Frame{Type: TypeActive, Active: &a})
}
