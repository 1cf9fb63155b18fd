package upstream

import (
	"fmt"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"

	"qq/pkg/llm"
)

const (
	// failuresToOpen is how many failures in a row open the breaker.
	failuresToOpen = 3
	// openFor is how long it stays open before a trial.
	openFor = time.Minute
)

// breaker is a circuit breaker, and what the library's does not do: a trial that
// comes to nothing goes to another, a late report of a request from before it
// opened is none about the trial, and one that opens again and again is
// hopeless. The mu of the gate guards it.
type breaker struct {
	circuit circuitbreaker.CircuitBreaker[any]
	retries int
	opened  int     // times in a row, without a success between
	era     int     // grows whenever it opens
	trial   *permit // the request that decides, when it is half open
}

func newBreaker(retries int) breaker {
	return breaker{retries: max(retries, 0), circuit: circuitbreaker.NewBuilder[any]().
		WithFailureThreshold(failuresToOpen).WithSuccessThreshold(1).WithDelay(openFor).Build()}
}

func (b *breaker) hopeless() bool { return b.opened > b.retries }

// refusal is what a request for the model is told while the breaker is open, or
// nil.
func (b *breaker) refusal(model string) *llm.Error {
	if b.opened == 0 { // the common case, without a look at the clock
		return nil
	}
	left := b.circuit.RemainingDelay()
	if left == 0 {
		return nil
	}
	e := &llm.Error{Kind: llm.Open, RetryAfter: left, Problem: fmt.Sprintf(
		"Circuit breaker open: %s failed %d times in a row, next try in %ds", model, failuresToOpen, seconds(left))}
	if b.hopeless() {
		e.RetryAfter = 0
	}
	return e
}

// admits reports whether a request may be sent. One for which it does must be
// told to sent.
func (b *breaker) admits() bool {
	if b.opened == 0 {
		return true
	}
	// The library gives the right to one trial; who has it is known here.
	return b.circuit.IsHalfOpen() && b.trial == nil || b.circuit.TryAcquirePermit()
}

func (b *breaker) sent(p *permit) {
	p.era = b.era
	if b.opened > 0 {
		b.trial = p
	}
}

// record counts what came of p.
func (b *breaker) record(p *permit, r llm.Report, note func(string, ...any)) {
	if p.era != b.era {
		return
	}
	b.trial = nil
	switch {
	case r.Cancelled:
	case failure(r):
		b.circuit.RecordFailure()
		if b.circuit.IsOpen() {
			b.era++
			b.opened++
			b.tell(r, note)
		}
	case success(r):
		b.circuit.RecordSuccess()
		if b.opened > 0 {
			b.opened = 0
			note("circuit breaker closed: the model server answers again")
		}
	}
}

// tell says that the breaker has opened: the first time and the last time that
// somebody waits for it, not each minute of a night.
func (b *breaker) tell(r llm.Report, note func(string, ...any)) {
	switch {
	case b.opened == b.retries+1:
		note("circuit breaker open: the model server fails (%s); tasks end until it answers, next try in %ds", r.Kind, seconds(openFor))
	case b.opened == 1:
		note("circuit breaker open: the model server failed %d times in a row (%s), next try in %ds", failuresToOpen, r.Kind, seconds(openFor))
	}
}

// failure reports whether r tells against the server. To be asked to come again
// later does not.
func failure(r llm.Report) bool {
	switch r.Kind {
	case llm.Unreachable, llm.BrokenStream, llm.Server:
		return true
	case llm.Busy:
		return r.RetryAfter == 0
	}
	return false
}

// success reports whether r tells that the server is up: it answered, if only
// that it does not like the request.
func success(r llm.Report) bool {
	switch r.Kind {
	case "", llm.Rejected, llm.UnknownModel, llm.ContextOverflow:
		return true
	}
	return false
}
