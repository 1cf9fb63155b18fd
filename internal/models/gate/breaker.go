package gate

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

// mostModels bounds how many models have a breaker: their names may come from an
// agent that follows untrusted input.
const mostModels = 64

// breakers are one for the server, which counts connection faults, and one for each
// model, which counts faults of the server with that model: a model that fails
// does not stop the others. The mu of the gate guards them.
type breakers struct {
	retries int
	server  *breaker
	models  map[string]*breaker // of those that have failed
}

func newBreakers(retries int) breakers {
	retries = max(retries, 0)
	return breakers{retries: retries, server: newBreaker("the model server", retries), models: map[string]*breaker{}}
}

// generations count how often the breakers for a model have opened.
type generations struct{ server, model int }

func (s *breakers) generations(model string) *generations {
	n := &generations{server: s.server.generation}
	if m := s.models[model]; m != nil {
		n.model = m.generation
	}
	return n
}

// refusal is the error for a request for the model while a breaker is open, or
// nil. A waiter is not refused by the opening that it waits out.
func (s *breakers) refusal(model string, since *generations) *llm.Error {
	waits := func(e *llm.Error) bool { return since != nil && e.RetryAfter > 0 }
	if e := s.server.refusal(model); e != nil && !(waits(e) && since.server == s.server.generation) {
		return e
	}
	if m := s.models[model]; m != nil {
		if e := m.refusal(model); e != nil && !(waits(e) && since.model == m.generation) {
			return e
		}
	}
	return nil
}

// left is how long the breakers for the model stay open.
func (s *breakers) left(model string) time.Duration {
	d := s.server.left()
	if m := s.models[model]; m != nil {
		d = max(d, m.left())
	}
	return d
}

// calm reports whether all are closed for certain.
func (s *breakers) calm() bool { return s.server.opened == 0 && len(s.models) == 0 }

// admits reports whether a request may be sent. If so, the caller must call sent.
func (s *breakers) admits(model string) bool {
	m := s.models[model]
	return s.server.admits() && (m == nil || m.admits())
}

func (s *breakers) sent(p *permit) {
	s.server.sent(p)
	if m := s.models[p.model]; m != nil {
		m.sent(p)
	}
}

// record counts the outcome of p; last is the number of the last request sent.
func (s *breakers) record(p *permit, r llm.Report, last uint64, g *Gate) {
	server, model := verdicts(r)
	s.server.record(p, server, r.Kind, last, g)
	m := s.models[p.model]
	if m == nil && model == failed {
		for name := range s.models {
			if len(s.models) < mostModels {
				break
			}
			delete(s.models, name) // whichever
		}
		m = newBreaker(fmt.Sprintf("model %q", p.model), s.retries)
		s.models[p.model] = m
	}
	if m != nil {
		m.record(p, model, r.Kind, last, g)
	}
}

// verdict is what a report says about something.
type verdict int

const (
	nothing verdict = iota
	failed
	answered
)

// verdicts are what r says about the server and about the model. A Retry-After
// counts against neither, and a server that rejects a request is up.
func verdicts(r llm.Report) (server, model verdict) {
	if r.Cancelled {
		return nothing, nothing
	}
	switch r.Kind {
	case llm.Unreachable, llm.BrokenStream:
		return failed, nothing
	case llm.Busy:
		if r.RetryAfter == 0 {
			return failed, nothing
		}
	case llm.Server:
		return answered, failed
	case "", llm.Rejected, llm.UnknownModel, llm.ContextOverflow:
		return answered, answered
	}
	return nothing, nothing
}

// breaker is a circuit breaker with what the library's does not do: a trial that
// was cancelled passes to another request, a late report of a request from before
// it opened does not count for the trial, and a breaker that opens again and again
// is hopeless.
type breaker struct {
	circuit    circuitbreaker.CircuitBreaker[any]
	of         string // for messages
	retries    int
	opened     int     // times in a row, without a success between
	generation int     // grows whenever it opens
	since      uint64  // the last request sent before it opened
	trial      *permit // the request that decides when the breaker is half open
}

func newBreaker(of string, retries int) *breaker {
	return &breaker{of: of, retries: retries, circuit: circuitbreaker.NewBuilder[any]().
		WithFailureThreshold(failuresToOpen).WithSuccessThreshold(1).WithDelay(openFor).Build()}
}

func (b *breaker) hopeless() bool { return b.opened > b.retries }

// left is how long it stays open.
func (b *breaker) left() time.Duration {
	if b.opened == 0 { // the common case, without a look at the clock
		return 0
	}
	return b.circuit.RemainingDelay()
}

// refusal is the error for a request for the model while the breaker is open, or
// nil.
func (b *breaker) refusal(model string) *llm.Error {
	left := b.left()
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

func (b *breaker) admits() bool {
	if b.opened == 0 {
		return true
	}
	// The library permits one trial; which request has it is known here.
	return b.circuit.IsHalfOpen() && b.trial == nil || b.circuit.TryAcquirePermit()
}

func (b *breaker) sent(p *permit) {
	if b.opened > 0 {
		b.trial = p
	}
}

func (b *breaker) record(p *permit, v verdict, kind llm.Kind, last uint64, g *Gate) {
	if p.number <= b.since {
		return
	}
	b.trial = nil
	switch v {
	case failed:
		b.circuit.RecordFailure()
		if b.circuit.IsOpen() {
			b.generation++
			b.opened++
			b.since = last
			b.tell(kind, g)
		}
	case answered:
		b.circuit.RecordSuccess()
		if b.opened > 0 {
			b.opened = 0
			g.note("circuit breaker closed: %s answers again", b.of)
		}
	}
}

// tell says that the breaker has opened: the first time, and when nobody waits for
// it any more. It does not repeat this every minute.
func (b *breaker) tell(kind llm.Kind, g *Gate) {
	switch {
	case b.opened == b.retries+1:
		g.note("circuit breaker open: %s fails (%s); tasks end until it answers, next try in %ds",
			b.of, kind, seconds(openFor))
	case b.opened == 1:
		g.note("circuit breaker open: %s failed %d times in a row (%s), next try in %ds",
			b.of, failuresToOpen, kind, seconds(openFor))
	}
}
