// Package gate decides when the requests of a whole tree of processes may go to
// the model servers, refuses those that are hopeless, and retries failed ones.
//
// Vocabulary: the root has one [Gate] for each server. Every request of every process
// enters the gate of its server, and leaves it with a report of the outcome. The limit is the number of requests
// that may be under way at once. It begins at the ceiling, and adapts to what the
// server serves in parallel: see limiter. A breaker is a circuit breaker: after
// three failures in a row nothing is sent for a minute, then one trial request.
// The server has a breaker, and so has each of its models, because one model can
// be broken alone. The pace is what the server allows, as its replies say: so many
// requests and tokens before a reset. A quota is what it allows on the whole: see
// [OnQuota]. The [Budget] is how many tokens the tree may use, and what they may cost, at all servers
// together. A
// [Backend] sends the requests of one model through an admission (the Gate, or a
// control pipe that leads to it), and retries them.
//
// Flow: Enter refuses at once when the budget is spent, a quota is used up or a breaker is open. Otherwise it queues
// the request until the limit, the pace, the Retry-After of the server and the breakers admit it. A request that was
// refused by an open breaker and has a retry left calls Enter with again set: it is then queued until the trial
// request. A request that another model can answer is refused, too, while the server wants no requests for longer than
// half a minute. Leave counts the tokens, updates the limit and the breakers, and then admits or refuses queued
// requests. After a Retry-After, an open breaker or for the reset of a quota a Backend waits in this queue, where the
// clocks of its task are paused. Before other retries it waits outside of the queue.
//
// Promises: first come, first served, except that a request does not wait behind one that waits for the trial of
// another model. A permit is given once; if its request has been cancelled, the next one gets it. No request stays
// in the queue for a breaker that has opened again, for one that is hopeless, for a quota whose reset is not waited
// for, or for a spent budget. A server whose replies say what it allows is never asked more often. Methods of
// callers are never called with a lock held.
//
// Not promised: that the limit is exactly what the server serves (the gate tries
// one more now and then); that requests under way do not overdraw the budget; that
// what a Backend yields comes from a single attempt.
package gate

import (
	"cmp"
	"container/list"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"qq/pkg/llm"
)

// Bounds on what a report may say: it may come from an agent that follows
// untrusted input.
const (
	longestHold   = time.Hour
	longestTiming = 24 * time.Hour
	mostTokens    = 1 << 40
)

// Config holds the limits of a Gate.
type Config struct {
	Server      string  // how notes and errors name it; empty is "the model server"
	MaxInFlight int     // requests under way at once: the ceiling, and where the limit begins
	Budget      *Budget // of all gates together; nil is no limit
	// Probe says that the first request goes alone, until the server has said what it allows.
	Probe   bool
	OnQuota OnQuota // what happens when a quota is used up
	// Retries is how often a request is retried. A breaker that opened more often than that,
	// without a success between, is hopeless.
	Retries int
	// Notes hears once about each event: requests are held back, a breaker has
	// opened or closed. Nil means nobody listens.
	Notes Notes
	// Waits hears instead that requests wait for the reset of a quota: the agent of such a request says nothing of it,
	// as it does of a repeated one. Nil is Notes.
	Waits Notes
}

// Notes passes messages on to a person.
type Notes interface {
	Note(format string, args ...any)
}

// Clocked is a task whose clocks pause while its request waits at the server.
type Clocked interface {
	// Behind reports that a sent request has waited for that long because the server was busy with others, since
	// the last report. It is called each time that the server shows progress on others, possibly still while Leave
	// of the request runs.
	Behind(time.Duration)
}

// Gate limits the requests to one model server. Several goroutines may use it.
type Gate struct {
	config Config

	mu       sync.Mutex
	queue    list.List // of *waiter, who came first is first
	flight   []*permit // in the order in which they were sent
	sent     uint64    // requests so far
	limiter  limiter
	breakers breakers
	pace     pace
	heard    bool        // the server has answered a request
	sign     time.Time   // when it last said something
	paced    bool        // a person was told about the pace
	usedUp   *llm.Error  // a quota is used up, and nothing waits for its reset; nil if it is not so
	held     time.Time   // nothing is sent before this time (Retry-After)
	reset    time.Time   // the same, for the reset of a quota: a person wants to wait for it
	wake     *time.Timer // fires at due and calls woken; nil if it is not set
	due      time.Time
	after    []message // to deliver when mu is free again
}

// message is what the gate reports after it has unlocked: a note for a person, or to the Clocked
// of a request how long the request has waited at the server.
type message struct {
	to     Notes
	note   string
	who    Clocked
	behind time.Duration
	serve  []*Gate // whose queues must be served
}

// NewGate returns a gate with no requests under way.
func NewGate(c Config) *Gate {
	c.MaxInFlight = max(c.MaxInFlight, 1)
	c.Server = cmp.Or(c.Server, "the model server")
	if c.Budget == nil {
		c.Budget = NewBudget(0, 0)
	}
	g := &Gate{config: c, limiter: newLimiter(c.MaxInFlight), breakers: newBreakers(c.Server, c.Retries),
		heard: !c.Probe}
	c.Budget.join(g)
	return g
}

// waiter is a queued request. Its permit or err is set before done is closed.
type waiter struct {
	model   string
	who     Clocked
	hurried bool          // another model can answer, see [llm.Hurried]
	since   *generations  // the breakers it waits for, as they were; nil waits for none
	element *list.Element // in the queue; nil when it has left it
	permit  *permit
	err     error
	done    chan struct{}
}

// Enter implements [llm.Admission] for the task who: it returns a permit once the request may be sent, or an error
// if it is refused or ctx ends. The clocks of who pause while the server works on other requests. A nil who has no
// clocks.
func (g *Gate) Enter(ctx context.Context, model string, again bool, who Clocked) (llm.Permit, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	g.mu.Lock()
	var since *generations
	if again {
		since = g.breakers.generations(model)
	}
	w := &waiter{model: model, who: who, since: since, hurried: llm.InHurry(ctx)}
	if err := g.turnsAway(w, time.Now()); err != nil {
		g.unlock()
		return nil, err
	}
	if p := g.pass(model, who); p != nil {
		g.unlock()
		return p, nil
	}
	w.done = make(chan struct{})
	w.element = g.queue.PushBack(w)
	g.serve() // sets the wake-up timer if this waiter needs one
	g.unlock()
	select {
	case <-w.done:
	case <-ctx.Done():
		g.giveUp(w)
		return nil, context.Cause(ctx)
	}
	if w.err != nil {
		return nil, w.err
	}
	return w.permit, nil
}

// giveUp removes w from the queue. If w got a permit at the same moment, the next request gets
// it.
func (g *Gate) giveUp(w *waiter) {
	g.mu.Lock()
	if w.element != nil {
		g.queue.Remove(w.element)
		w.element = nil
	}
	g.unlock()
	if w.permit != nil {
		w.permit.Leave(llm.Report{Cancelled: true})
	}
}

// Try is Enter without waiting: it returns nil unless the request may be sent at once and the
// queue is empty.
func (g *Gate) Try(model string, who Clocked) llm.Permit {
	g.mu.Lock()
	defer g.unlock()
	if g.refusal(model, nil) != nil {
		return nil
	}
	if p := g.pass(model, who); p != nil {
		return p
	}
	return nil // a nil *permit would be an interface that is not nil
}

// Refusal returns why a request for the model would be refused now and in the near future: the
// budget is spent, or a breaker is hopeless. Nil means that a request is worth trying.
func (g *Gate) Refusal(model string) error {
	g.mu.Lock()
	defer g.unlock()
	if err := g.refusal(model, nil); err != nil && err.RetryAfter == 0 {
		return err
	}
	return nil
}

// Waits returns how long the first queued request still waits for the end of a Retry-After, for a reset or for
// the trial of a breaker; 0 if none waits for any of them.
func (g *Gate) Waits() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	front := g.queue.Front()
	if front == nil {
		return 0
	}
	d, soon := g.pause(time.Now())
	if soon {
		d = 0
	}
	return max(d, g.breakers.left(front.Value.(*waiter).model))
}

// InFlight returns how many requests are under way.
func (g *Gate) InFlight() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.flight)
}

// Limit returns how many requests may currently be under way at once.
func (g *Gate) Limit() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.limiter.limit
}

// unlock unlocks mu, then delivers the messages collected under it.
func (g *Gate) unlock() {
	after := g.after
	g.after = nil
	g.mu.Unlock()
	for _, m := range after {
		switch {
		case m.who != nil:
			m.who.Behind(m.behind)
		case m.note != "":
			m.to.Note("%s", m.note)
		}
		for _, o := range m.serve {
			o.again()
		}
	}
}

// note collects a message, which unlock delivers. The caller holds g.mu.
func (g *Gate) note(format string, args ...any) {
	g.tell(g.config.Notes, fmt.Sprintf(format, args...))
}

// tell is note for those who listen at to, which may be nil.
func (g *Gate) tell(to Notes, note string) {
	if to != nil {
		g.after = append(g.after, message{to: to, note: note})
	}
}

// refusal returns why a request may not enter the queue or stay in it; nil means that it may. since holds the
// generations of the breakers that the request waits for, or is nil. The caller holds g.mu.
func (g *Gate) refusal(model string, since *generations) *llm.Error {
	if err := g.config.Budget.refusal(); err != nil {
		return err
	}
	if g.usedUp != nil {
		return g.usedUp
	}
	return g.breakers.refusal(model, since)
}

// pass sends a request at once if the queue is empty and nothing holds the request back. Otherwise it returns nil.
// The caller holds g.mu.
func (g *Gate) pass(model string, who Clocked) *permit {
	if g.queue.Len() > 0 {
		return nil
	}
	now := time.Now()
	if !g.open(now) || !g.breakers.admits(model) {
		return nil
	}
	return g.send(model, who, now)
}

// open reports whether the limit, the pace and the Retry-After of the server admit another request. The caller holds
// g.mu.
func (g *Gate) open(now time.Time) bool {
	if len(g.flight) >= g.limiter.limit {
		return false
	}
	d, soon := g.pause(now)
	return d <= 0 && !soon
}

func (g *Gate) send(model string, who Clocked, now time.Time) *permit {
	g.sent++
	p := &permit{gate: g, model: model, number: g.sent, sent: now, credited: now, who: who}
	g.flight = append(g.flight, p)
	g.limiter.filled(len(g.flight), now)
	g.breakers.sent(p)
	g.pace.sent()
	return p
}

// Resize changes how many requests may be under way at once. Those that are go on.
func (g *Gate) Resize(n int) {
	g.mu.Lock()
	defer g.unlock()
	g.config.MaxInFlight = max(n, 1)
	g.limiter.resize(g.config.MaxInFlight)
	g.serve()
}

// serve goes through the queue: it sends requests that are admitted, and refuses those that may not stay. The
// caller holds g.mu.
func (g *Gate) serve() {
	now := time.Now()
	for e := g.queue.Front(); e != nil; {
		w := e.Value.(*waiter)
		e = e.Next()
		if err := g.turnsAway(w, now); err != nil {
			w.err = err
		} else if g.open(now) && g.breakers.admits(w.model) {
			w.permit = g.send(w.model, w.who, now)
		} else {
			d, _ := g.pause(now)
			g.wakeIn(max(d, g.breakers.left(w.model)), now)
			if g.breakers.calm() && d <= longestWait {
				return // all others wait for the same
			}
			continue
		}
		g.queue.Remove(w.element)
		w.element = nil
		close(w.done)
	}
}

// wakeIn makes a timer call serve after d, unless the timer fires earlier anyway. The caller holds g.mu.
func (g *Gate) wakeIn(d time.Duration, now time.Time) {
	if d <= 0 { // the request waits until another one leaves
		return
	}
	due := now.Add(d)
	if g.wake != nil {
		if !due.Before(g.due) {
			return
		}
		g.wake.Stop()
	}
	g.wake, g.due = time.AfterFunc(d, g.woken), due
}

func (g *Gate) woken() {
	g.mu.Lock()
	defer g.unlock()
	g.wake = nil
	g.serve()
}

// again serves the queue, because something outside of the gate has changed.
func (g *Gate) again() {
	g.mu.Lock()
	defer g.unlock()
	g.serve()
}

// hold holds back all requests for d from now on, unless they are held back longer already. The caller holds g.mu.
func (g *Gate) hold(d time.Duration, now time.Time) {
	until := now.Add(d)
	if !until.After(g.held) {
		return
	}
	// Several replies with about the same Retry-After are one event.
	if until.Sub(g.held) > time.Second || !now.Before(g.held) {
		g.note("requests held back %ds by Retry-After of %s", seconds(d), g.config.Server)
	}
	g.held = until
}

// permit is one request under way. The mutex of the gate guards it.
type permit struct {
	gate   *Gate
	model  string
	number uint64
	sent   time.Time
	first  time.Time // when the server first said something; zero until then
	gone   bool

	answered bool // the server has begun to answer, as far as its pace is concerned

	who       Clocked   // may be nil
	credited  time.Time // until when its waiting has been reported to who
	overtaken int       // number of later requests that were answered before it

	most     int       // most requests answered at once since its first byte, itself included
	suspect  int       // how many the server seems to serve while this one waits; -1 is disproved
	doubtful time.Time // when suspect was set
	quick    bool      // the first byte came about as fast as possible
}

var _ llm.Permit = (*permit)(nil)

// Active implements [llm.Permit].
func (p *permit) Active() {
	g := p.gate
	g.mu.Lock()
	defer g.unlock()
	if p.gone {
		return
	}
	now := time.Now()
	g.sign = now
	if p.first.IsZero() {
		p.first = now
		g.limiter.began(p, g.flight, g.sent)
	}
	g.progress(p, now)
	if g.hear(p, now) {
		g.serve()
	}
}

// Leave implements [llm.Permit].
func (p *permit) Leave(r llm.Report) {
	r = bounded(r)
	g := p.gate
	g.mu.Lock()
	defer g.unlock()
	if p.gone {
		return
	}
	p.gone = true
	now := time.Now()
	if !r.Cancelled {
		g.sign = now
	}
	if others := g.config.Budget.use(r.Usage, g); others != nil {
		g.after = append(g.after, message{serve: others})
	}
	g.pace.used(r.Usage.Tokens())
	if !r.Cancelled && r.Kind != llm.Unreachable && r.Kind != llm.Busy {
		for _, o := range g.flight {
			if o.number < p.number {
				o.overtaken++
			}
		}
		g.progress(p, now)
	}
	g.limiter.ended(p, r, g.flight, g.sent, now)
	i := slices.Index(g.flight, p)
	g.flight = slices.Delete(g.flight, i, i+1)
	switch {
	case r.Kind == llm.Unreachable:
	case r.Cancelled:
		if !p.answered {
			g.pace.answered(now) // it may have reached the server
		}
	case r.Kind == llm.Quota:
		g.exhaust(r.RetryAfter, now)
	default:
		g.hear(p, now)
		if r.Kind == llm.Busy && r.RetryAfter > 0 {
			g.hold(r.RetryAfter, now)
		}
	}
	g.breakers.record(p, r, g.sent, g)
	g.serve()
}

// progress records that the server is answering p. Requests without a first byte wait behind p, and their tasks are
// told so (Behind). A request that was overtaken more often than a queue explains counts as lost: its task is not
// told, so that its clocks run and it times out. The caller holds g.mu.
func (g *Gate) progress(p *permit, now time.Time) {
	for _, o := range g.flight {
		if o == p || o.who == nil || !o.first.IsZero() || o.overtaken > 2*g.config.MaxInFlight {
			continue
		}
		if d := now.Sub(o.credited); d > 0 {
			o.credited = now
			g.after = append(g.after, message{who: o.who, behind: d})
		}
	}
}

// bounded returns r with each value limited to a plausible maximum.
func bounded(r llm.Report) llm.Report {
	r.RetryAfter = min(max(r.RetryAfter, 0), longestHold)
	r.Timing.Queued = min(max(r.Timing.Queued, 0), longestTiming)
	r.Timing.Served = min(max(r.Timing.Served, 0), longestTiming)
	priced := r.Usage.PricedTokens
	r.Usage = r.Usage.Bounded(mostTokens)
	// Another agent program says what its tokens cost after it has said how many they are.
	r.Usage.PricedTokens = min(max(priced, 0), mostTokens)
	return r
}

// seconds returns d in whole seconds, rounded up.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }
