// Package gate is the way of requests to one model server, for a whole tree
// of processes: who may send one now, who has to wait, when there is no use in
// it, and what is sent again.
//
// Vocabulary: a [Gate] stands at the root; every request, of whichever process,
// enters it and leaves it again with a report of what came of it. The limit is
// how many may be under way at once. It begins at the ceiling and finds what the
// server serves by itself: see limiter. A breaker is a circuit breaker: after
// three failures in a row nothing is sent for a minute, then one trial. The server
// has one, and each of its models, which may be broken by itself. The
// budget is how many tokens the tree may use. A [Backend] is a model whose
// requests pass an admission, the Gate itself or a way to it, and are sent again
// when that may help.
//
// Flow: Enter refuses at once (the budget is spent, a breaker is open), or
// waits in line until the limit, a Retry-After of the server and the breakers let
// the request pass. EnterAgain is for whoever was refused by a breaker and has a
// repeat left: it waits in line for the trial. Leave counts the tokens, judges the
// limit and the breakers, and lets the next one pass or refuses those in line. A
// Backend waits by itself only where nobody has said how long: for a Retry-After
// and for a breaker it waits in the line, where no clock of its task goes.
//
// Promises: first come, first served, but nobody waits behind the trial of another
// model; a permit is given once, and one whose taker has gone meanwhile goes to
// the next; nobody waits in line for a breaker that has opened since, for one
// that is hopeless, or when the budget is spent; no function of the caller is called
// with a lock held. Not promised: that the limit is exactly what the server
// serves (it tries one more now and then); that the budget is not overdrawn by
// the requests that are under way when it is used up; that what a Backend yields
// comes from one try only.
package gate

import (
	"container/list"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"qq/pkg/llm"
	"qq/pkg/task"
)

// Bounds on what a report may say: it may come from a process that was talked
// into anything.
const (
	longestHold   = time.Hour
	longestTiming = 24 * time.Hour
	mostTokens    = 1 << 40
)

// Config is what a Gate needs.
type Config struct {
	MaxInFlight int // requests under way at once: the ceiling, and where the limit begins
	MaxTokens   int // of all requests together; 0 is no limit
	// Retries is how often a request is repeated. A breaker that opened more often
	// than that, one time after the other, is not worth waiting for.
	Retries int
	// Note says to a person, once for each event, that requests are held back, or
	// that the breaker has opened or closed; nil says it to nobody.
	Note func(format string, args ...any)
}

// Gate lets requests to one model server pass. It is safe for use by several
// goroutines.
type Gate struct {
	config Config

	mu       sync.Mutex
	queue    list.List // of *waiter, who came first is first
	flight   []*permit // in the order in which they were sent
	sent     uint64    // requests so far
	limiter  limiter
	breakers breakers
	used     task.Usage
	held     time.Time   // nothing is sent before
	wake     *time.Timer // at due, when somebody waits for that
	due      time.Time
	after    []func() // what to call when mu is free again
}

var _ Patient = (*Gate)(nil)

// NewGate makes a gate that everybody may pass.
func NewGate(c Config) *Gate {
	c.MaxInFlight = max(c.MaxInFlight, 1)
	if c.Note == nil {
		c.Note = func(string, ...any) {}
	}
	return &Gate{config: c, limiter: newLimiter(c.MaxInFlight), breakers: newBreakers(c.Retries)}
}

// waiter is one who waits in line. What it came to is set before done is closed.
type waiter struct {
	model  string
	behind func(time.Duration)
	since  *eras         // of the breakers that it waits for; nil is for none
	place  *list.Element // nil when it waits no more
	permit *permit
	err    error
	done   chan struct{}
}

// Enter implements [llm.Admission].
func (g *Gate) Enter(ctx context.Context, model string) (llm.Permit, error) {
	return g.EnterFor(ctx, model, nil)
}

// EnterAgain implements [Patient].
func (g *Gate) EnterAgain(ctx context.Context, model string) (llm.Permit, error) {
	return g.EnterAgainFor(ctx, model, nil)
}

// EnterFor is Enter for somebody with clocks: behind is told how long the
// request, once sent, waited at the server while that was busy with others. It
// is told so whenever the server shows that it is, and may still be called by
// another goroutine when the permit is just being left.
func (g *Gate) EnterFor(ctx context.Context, model string, behind func(time.Duration)) (llm.Permit, error) {
	return g.enter(ctx, model, behind, false)
}

// EnterAgainFor is EnterAgain for somebody with clocks, as EnterFor.
func (g *Gate) EnterAgainFor(ctx context.Context, model string, behind func(time.Duration)) (llm.Permit, error) {
	return g.enter(ctx, model, behind, true)
}

func (g *Gate) enter(ctx context.Context, model string, behind func(time.Duration), again bool) (llm.Permit, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	g.mu.Lock()
	var since *eras
	if again {
		since = g.breakers.eras(model)
	}
	if err := g.refusal(model, since); err != nil {
		g.unlock()
		return nil, err
	}
	if p := g.pass(model, behind); p != nil {
		g.unlock()
		return p, nil
	}
	w := &waiter{model: model, behind: behind, since: since, done: make(chan struct{})}
	w.place = g.queue.PushBack(w)
	g.serve() // sets the clock when it is that which it waits for
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

// giveUp takes w out of the line. A permit that came at the same moment goes to
// the next.
func (g *Gate) giveUp(w *waiter) {
	g.mu.Lock()
	if w.place != nil {
		g.queue.Remove(w.place)
		w.place = nil
	}
	g.unlock()
	if w.permit != nil {
		w.permit.Leave(llm.Report{Cancelled: true})
	}
}

// Try is EnterFor for one who does not wait: it returns nil unless the request
// may be sent at once and nobody waits.
func (g *Gate) Try(model string, behind func(time.Duration)) llm.Permit {
	g.mu.Lock()
	defer g.unlock()
	if g.refusal(model, nil) != nil {
		return nil
	}
	if p := g.pass(model, behind); p != nil {
		return p
	}
	return nil
}

// Refusal says why a request for the model would be refused right now, and those
// that follow on it soon: the budget is spent, or a breaker has opened too
// often. It returns nil when it is worth to try.
func (g *Gate) Refusal(model string) error {
	g.mu.Lock()
	defer g.unlock()
	if err := g.refusal(model, nil); err != nil && err.RetryAfter == 0 {
		return err
	}
	return nil
}

// Used is how many tokens all requests together have used.
func (g *Gate) Used() task.Usage {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used
}

// Spent reports whether the budget is used up.
func (g *Gate) Spent() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, over := g.spent()
	return over
}

// spent is how many tokens are used, and whether that is all. The gate is locked.
func (g *Gate) spent() (used int, over bool) {
	used = g.used.InputTokens + g.used.OutputTokens
	return used, g.config.MaxTokens > 0 && used >= g.config.MaxTokens
}

// Waits is how long those in line wait for a moment that is known: the end of a
// Retry-After, or the trial of a breaker. It is 0 when nobody does.
func (g *Gate) Waits() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	front := g.queue.Front()
	if front == nil {
		return 0
	}
	return max(time.Until(g.held), g.breakers.left(front.Value.(*waiter).model), 0)
}

// Limit is how many requests may be under way at once, as things stand.
func (g *Gate) Limit() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.limiter.limit
}

// unlock frees mu, and calls what was put off until then.
func (g *Gate) unlock() {
	after := g.after
	g.after = nil
	g.mu.Unlock()
	for _, f := range after {
		f()
	}
}

func (g *Gate) note(format string, args ...any) {
	g.after = append(g.after, func() { g.config.Note(format, args...) })
}

// refusal says why a request is not even let into the line, or may not stay there;
// since is that of its waiter.
func (g *Gate) refusal(model string, since *eras) *llm.Error {
	if used, over := g.spent(); over {
		return &llm.Error{Kind: llm.Spent, Hint: "raise QQ_MAX_TOKENS or --max-tokens",
			Problem: fmt.Sprintf("Token budget exhausted: %d of %d tokens used", used, g.config.MaxTokens)}
	}
	return g.breakers.refusal(model, since)
}

// pass lets one request pass that has nobody before it in the line, or returns
// nil.
func (g *Gate) pass(model string, behind func(time.Duration)) *permit {
	if g.queue.Len() > 0 {
		return nil
	}
	now := time.Now()
	if !g.open(now) || !g.breakers.admits(model) {
		return nil
	}
	return g.send(model, behind, now)
}

// open reports whether one more request may be sent now that no breaker stops.
func (g *Gate) open(now time.Time) bool {
	return len(g.flight) < g.limiter.limit && !now.Before(g.held)
}

func (g *Gate) send(model string, behind func(time.Duration), now time.Time) *permit {
	g.sent++
	p := &permit{gate: g, model: model, number: g.sent, sent: now, credited: now, behind: behind}
	g.flight = append(g.flight, p)
	g.limiter.filled(len(g.flight), now)
	g.breakers.sent(p)
	return p
}

// serve lets those in the line pass for whom there is room, and refuses those who
// may not stay.
func (g *Gate) serve() {
	now := time.Now()
	for place := g.queue.Front(); place != nil; {
		w := place.Value.(*waiter)
		place = place.Next()
		if err := g.refusal(w.model, w.since); err != nil {
			w.err = err
		} else if g.open(now) && g.breakers.admits(w.model) {
			w.permit = g.send(w.model, w.behind, now)
		} else {
			g.wakeIn(max(g.held.Sub(now), g.breakers.left(w.model)), now)
			if g.breakers.calm() {
				return // all wait for the same
			}
			continue
		}
		g.queue.Remove(w.place)
		w.place = nil
		close(w.done)
	}
}

// wakeIn has the line served after d, unless that is due sooner anyhow.
func (g *Gate) wakeIn(d time.Duration, now time.Time) {
	if d <= 0 { // it waits for somebody to leave
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

// hold keeps all requests back for d.
func (g *Gate) hold(d time.Duration, now time.Time) {
	until := now.Add(d)
	if !until.After(g.held) {
		return
	}
	// Those who were told the same at about the same time are one event.
	if until.Sub(g.held) > time.Second || !now.Before(g.held) {
		g.note("requests held back %ds by Retry-After of the model server", seconds(d))
	}
	g.held = until
}

// permit is one request under way. What it holds is guarded by the mu of the
// gate.
type permit struct {
	gate   *Gate
	model  string
	number uint64
	sent   time.Time
	first  time.Time // when the server first said something; zero until then
	gone   bool

	behind    func(time.Duration) // may be nil
	credited  time.Time           // until when behind knows
	overtaken int                 // answers to requests that were sent later

	most     int       // requests being answered at once, itself one of them, since its first byte
	suspect  int       // how many the server seems to serve while it waits; -1 is disproved
	doubtful time.Time // since when it is suspect
	quick    bool      // the first byte came about as soon as it can
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
	if p.first.IsZero() {
		p.first = now
		g.limiter.began(p, g.flight, g.sent)
	}
	g.progress(p, now)
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
	g.used = g.used.Add(r.Usage)
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
	if r.Kind == llm.Busy && r.RetryAfter > 0 && !r.Cancelled {
		g.hold(r.RetryAfter, now)
	}
	g.breakers.record(p, r, g.sent, g.note)
	g.serve()
}

// progress notes that the server is at work for p: the others to which it has
// said nothing yet wait for that. One that more have overtaken than ever fit
// before it is in no line any more; it is lost, and its clocks shall tell.
func (g *Gate) progress(p *permit, now time.Time) {
	for _, o := range g.flight {
		if o == p || o.behind == nil || !o.first.IsZero() || o.overtaken > 2*g.config.MaxInFlight {
			continue
		}
		if d := now.Sub(o.credited); d > 0 {
			o.credited = now
			g.after = append(g.after, func() { o.behind(d) })
		}
	}
}

// bounded is r without what no server can mean.
func bounded(r llm.Report) llm.Report {
	r.RetryAfter = min(max(r.RetryAfter, 0), longestHold)
	r.Timing.Queued = min(max(r.Timing.Queued, 0), longestTiming)
	r.Timing.Served = min(max(r.Timing.Served, 0), longestTiming)
	r.Usage.InputTokens = min(max(r.Usage.InputTokens, 0), mostTokens)
	r.Usage.OutputTokens = min(max(r.Usage.OutputTokens, 0), mostTokens)
	return r
}

// seconds is d in whole seconds, rounded up.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }
