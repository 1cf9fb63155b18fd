package gate

import (
	"cmp"
	"fmt"
	"time"

	"qq/pkg/llm"
)

// OnQuota says what happens when a server says that a quota is used up.
type OnQuota string

// What can happen then. With QuotaAuto requests wait for the reset if the server says when that is, and it is within an
// hour; else it is as with QuotaStop.
const (
	QuotaAuto     OnQuota = "auto"
	QuotaWait     OnQuota = "wait"     // requests wait for the reset
	QuotaStop     OnQuota = "stop"     // requests are refused
	QuotaFallback OnQuota = "fallback" // requests are refused, so that another model can answer
)

// QuotaHint says what a person can do then.
const QuotaHint = "look at your plan and balance there, name another model with --fallback, " +
	"or wait with --on-quota wait"

// quotaAgain is when a server is asked again that does not say when its quota is reset.
const quotaAgain = 10 * time.Minute

// waits returns how long requests wait after the server has asked for the time after; 0 means that they are refused.
func (q OnQuota) waits(after time.Duration) time.Duration {
	switch {
	case q == QuotaWait && after <= 0:
		return quotaAgain
	case q == QuotaWait, (q == QuotaAuto || q == "") && after < longestHold:
		return max(after, 0)
	}
	return 0
}

// exhaust notes that a quota is used up, and after which time the server says to come again; 0 if it does not say. The
// caller holds g.mu.
func (g *Gate) exhaust(after time.Duration, now time.Time) {
	d := g.config.OnQuota.waits(after)
	if d <= 0 {
		if g.usedUp == nil {
			g.usedUp = &llm.Error{Kind: llm.Quota, Problem: fmt.Sprintf("the quota of %s is used up", g.config.Server),
				Hint: QuotaHint}
			g.note("%s: no more requests are sent to it", g.usedUp.Problem)
		}
		return
	}
	g.heard = false // one request finds out for all
	if until := now.Add(d); until.After(g.held) {
		g.held, g.reset = until, until
		text := fmt.Sprintf("the quota of %s is used up: requests wait %ds for its reset", g.config.Server, seconds(d))
		if after <= 0 {
			text = fmt.Sprintf("the quota of %s is used up, and the server does not say until when: "+
				"it is asked again in %ds", g.config.Server, seconds(d))
		}
		g.tell(cmp.Or(g.config.Waits, g.config.Notes), text)
	}
}

// UsedUp returns why the gate refuses requests, if it does because a quota is used up; "" if not.
func (g *Gate) UsedUp() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.usedUp == nil {
		return ""
	}
	return g.usedUp.Problem
}
