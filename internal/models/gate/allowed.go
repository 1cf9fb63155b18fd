package gate

import (
	"errors"
	"fmt"
	"time"

	"qq/pkg/llm"
)

// Allowed implements [llm.Permit].
func (p *permit) Allowed(a llm.Allowance) {
	g := p.gate
	g.mu.Lock()
	defer g.unlock()
	if p.gone {
		return
	}
	now := time.Now()
	g.hear(p, now)
	g.pace.learn(p, a.Plausible(), g.unanswered(), now)
	if a.Requests.Known() && g.pace.requests.left <= 0 && !g.paced {
		g.paced = true
		g.note("%s allows %d requests in %v: more wait", g.config.Server, g.pace.limit,
			g.pace.window.Round(time.Second/10))
	}
	g.serve()
}

// hear notes that the server has begun to answer p, and reports whether others may wait for that. The caller holds
// g.mu.
func (g *Gate) hear(p *permit, now time.Time) bool {
	if p.answered {
		return false
	}
	waits := !g.heard || g.pace.limit > 0
	p.answered, g.heard = true, true
	g.pace.answered(now)
	return waits
}

// Ready returns how long a task whose model that is should wait before it starts, because its requests would wait for
// the server alone: for the end of a Retry-After or a reset, for the trial of a breaker, or because it hangs. 0 means
// that the task may start, if only to be refused at once.
func (g *Gate) Ready(model string) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.refusal(model, nil); err != nil {
		return err.RetryAfter
	}
	now := time.Now()
	d, soon := g.pause(now)
	if soon || d <= 0 && (g.breakers.trying(model) || g.silent(now)) {
		return lookAgain
	}
	return d
}

// silence is after what time a server that does not say anything seems to hang.
const silence = 15 * time.Second

// silent reports whether requests are under way and the server has not said anything for a while. The caller holds
// g.mu.
func (g *Gate) silent(now time.Time) bool {
	return len(g.flight) > 0 && now.Sub(g.flight[0].sent) > silence && now.Sub(g.sign) > silence
}

// lookAgain is when to look again whether a request has been answered for which others wait.
const lookAgain = 50 * time.Millisecond

// probeTime is how long others wait for the answer to a request that finds out what the server allows.
const probeTime = 10 * time.Second

// pause returns how long the Retry-After and the pace of the server hold back all requests. soon says that they may
// pass before, as soon as one under way is answered. The caller holds g.mu.
func (g *Gate) pause(now time.Time) (d time.Duration, soon bool) {
	held := max(g.held.Sub(now), 0)
	if !g.heard && len(g.flight) > 0 && held == 0 {
		d = g.flight[len(g.flight)-1].sent.Add(probeTime).Sub(now)
		return max(d, 0), d > 0
	}
	if g.pace.limit == 0 && g.pace.tokens.until.IsZero() { // the common case
		return held, false
	}
	d, soon = g.pace.wait(g.unanswered(), now)
	return max(d, held), soon && held == 0
}

// turnsAway returns why w may not wait; nil means that it may. One that another model can answer waits for no server
// longer than a retry does, except for the reset of a quota, because a person wants that. The caller holds g.mu.
func (g *Gate) turnsAway(w *waiter, now time.Time) *llm.Error {
	if err := g.refusal(w.model, w.since); err != nil || !w.hurried || now.Before(g.reset) {
		return err
	}
	d, soon := g.pause(now)
	if soon || d <= longestWait {
		return nil
	}
	return &llm.Error{Kind: llm.Busy, RetryAfter: d,
		Problem: fmt.Sprintf("%s wants no requests for %ds", g.config.Server, seconds(d))}
}

// unanswered returns how many requests the server has not begun to answer. The caller holds g.mu.
func (g *Gate) unanswered() int {
	n := 0
	for _, p := range g.flight {
		if !p.answered {
			n++
		}
	}
	return n
}

// Found counts a look-up at the server, which is no request to a model: err is its error, or nil. One that failed was
// retried before, so it opens the breaker of the server at once.
func (g *Gate) Found(err error) {
	e, _ := errors.AsType[*llm.Error](err)
	r := llm.Report{Cancelled: err != nil && e == nil}
	if e != nil {
		r.Kind = e.Kind
	}
	g.mu.Lock()
	defer g.unlock()
	b := g.breakers.server
	v, _ := verdicts(r)
	if v != answered && b.left() > 0 {
		return
	}
	for range failuresToOpen {
		g.sent++
		b.record(&permit{number: g.sent}, v, r.Kind, g.sent, g)
		if v != failed || b.left() > 0 {
			break
		}
	}
	g.serve()
}
