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
	first    atomic.Int64 // when the root is told at the earliest that it is answered to; then never
	answered atomic.Bool  // since the root was told last
	left     atomic.Bool
}

// Enter implements [llm.Admission]: the root decides.
func (c *Conn) Enter(ctx context.Context, model string) (llm.Permit, error) {
	return c.enter(ctx, Enter{Model: model})
}

// EnterAgain is Enter for whom the circuit breaker has refused: the root decides,
// and may keep it waiting.
func (c *Conn) EnterAgain(ctx context.Context, model string) (llm.Permit, error) {
	return c.enter(ctx, Enter{Model: model, Again: true})
}

func (c *Conn) enter(ctx context.Context, in Enter) (llm.Permit, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if c.granted.CompareAndSwap(true, false) {
		return c.admitted(0), nil
	}
	_, a, err := c.ask(ctx, Ask{Enter: &in})
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
	p.first.Store(c.pulse.now() + int64(c.pulse.lead))
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

// Active implements [llm.Permit]. It is as cheap as that of Conn, and says the
// same of the child.
func (p *permit) Active() {
	if p.left.Load() {
		return
	}
	p.answered.Store(true)
	now := p.conn.pulse.now()
	if first := p.first.Load(); now >= first && p.first.CompareAndSwap(first, int64(never)) {
		p.conn.pulse.skip(now)
		p.conn.tell()
		return
	}
	p.conn.beat(now)
}

// Active says that something happens: a token, a tool. The root is told now and
// then, so a call costs next to nothing.
func (c *Conn) Active() { c.beat(c.pulse.now()) }

func (c *Conn) beat(now int64) {
	if c.pulse.due(now) {
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

// How often a child says that it is active: often enough within the idle time,
// and never when it is over soon.
const (
	firstSign    = 250 * time.Millisecond
	fastestPulse = 10 * time.Millisecond
	slowestPulse = 5 * time.Second
	pulsesInIdle = 20
	never        = time.Duration(1 << 62)
)

// pulse says when the root is told that something happens. It has no timer: who
// is active asks it. Times count from its beginning.
type pulse struct {
	began time.Time
	lead  time.Duration // before the first beat
	every time.Duration
	next  atomic.Int64
}

// begin starts the pulse of a child with that idle time, before anything else.
func (p *pulse) begin(idleMS int64) {
	p.began, p.lead, p.every = time.Now(), firstSign, never
	p.next.Store(int64(never))
	if idleMS > 0 {
		ms := min(idleMS/pulsesInIdle, slowestPulse.Milliseconds())
		p.every = max(time.Duration(ms)*time.Millisecond, fastestPulse)
		p.lead = min(firstSign, p.every)
		p.next.Store(int64(p.lead))
	}
}

func (p *pulse) now() int64 { return int64(time.Since(p.began)) }

// due reports whether the root is to be told now: to one of those who ask at the
// same time.
func (p *pulse) due(now int64) bool {
	next := p.next.Load()
	return now >= next && p.next.CompareAndSwap(next, now+int64(p.every))
}

// skip puts the next beat off: the root is told at this moment.
func (p *pulse) skip(now int64) { p.next.Store(now + int64(p.every)) }
