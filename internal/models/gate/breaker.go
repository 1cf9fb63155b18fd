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

// mostModels bounds for how many models there is a breaker: their names may come
// from a process that was talked into anything.
const mostModels = 64

// breakers are that of the server, for faults on the way to it, and those of its
// models, for faults of its own: one that fails does not stop the others. The mu
// of the gate guards them.
type breakers struct {
	retries int
	server  *breaker
	models  map[string]*breaker // of those that have failed
}

func newBreakers(retries int) breakers {
	retries = max(retries, 0)
	return breakers{retries: retries, server: newBreaker("the model server", retries), models: map[string]*breaker{}}
}

// eras say how often the breakers for a model have opened.
type eras struct{ server, model int }

func (s *breakers) eras(model string) *eras {
	e := &eras{server: s.server.era}
	if m := s.models[model]; m != nil {
		e.model = m.era
	}
	return e
}

// refusal is what a request for the model is told while a breaker is open, or
// nil. Somebody who waits is not refused by one that has been open since then.
func (s *breakers) refusal(model string, since *eras) *llm.Error {
	waits := func(e *llm.Error) bool { return since != nil && e.RetryAfter > 0 }
	if e := s.server.refusal(model); e != nil && !(waits(e) && since.server == s.server.era) {
		return e
	}
	if m := s.models[model]; m != nil {
		if e := m.refusal(model); e != nil && !(waits(e) && since.model == m.era) {
			return e
		}
	}
	return nil
}

// left is how long a request for the model has to wait for what is open.
func (s *breakers) left(model string) time.Duration {
	d := s.server.left()
	if m := s.models[model]; m != nil {
		d = max(d, m.left())
	}
	return d
}

// calm reports whether all are closed, for certain.
func (s *breakers) calm() bool { return s.server.opened == 0 && len(s.models) == 0 }

// admits reports whether a request may be sent. One for which it does must be
// told to sent.
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

// record counts what came of p, when the request sent last is the one with the
// number last.
func (s *breakers) record(p *permit, r llm.Report, last uint64, note func(string, ...any)) {
	server, model := verdicts(r)
	s.server.record(p, server, r.Kind, last, note)
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
		m.record(p, model, r.Kind, last, note)
	}
}

// verdict is what a report says about something.
type verdict int

const (
	nothing verdict = iota
	failed
	answered
)

// verdicts are what r says about the server and about the model. To be asked to
// come again later tells against nobody, and whoever answers is up, if only to say
// that it does not like the request.
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

// breaker is a circuit breaker, and what the library's does not do: a trial that
// comes to nothing goes to another, a late report of a request from before it
// opened is none about the trial, and one that opens again and again is
// hopeless.
type breaker struct {
	circuit circuitbreaker.CircuitBreaker[any]
	of      string // for messages
	retries int
	opened  int     // times in a row, without a success between
	era     int     // grows whenever it opens
	since   uint64  // the last request sent before it opened
	trial   *permit // the request that decides, when it is half open
}

func newBreaker(of string, retries int) *breaker {
	return &breaker{of: of, retries: retries, circuit: circuitbreaker.NewBuilder[any]().
		WithFailureThreshold(failuresToOpen).WithSuccessThreshold(1).WithDelay(openFor).Build()}
}

func (b *breaker) hopeless() bool { return b.opened > b.retries }

// left is how long it will be open.
func (b *breaker) left() time.Duration {
	if b.opened == 0 { // the common case, without a look at the clock
		return 0
	}
	return b.circuit.RemainingDelay()
}

// refusal is what a request for the model is told while the breaker is open, or
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
	// The library gives the right to one trial; who has it is known here.
	return b.circuit.IsHalfOpen() && b.trial == nil || b.circuit.TryAcquirePermit()
}

func (b *breaker) sent(p *permit) {
	if b.opened > 0 {
		b.trial = p
	}
}

func (b *breaker) record(p *permit, v verdict, kind llm.Kind, last uint64, note func(string, ...any)) {
	if p.number <= b.since {
		return
	}
	b.trial = nil
	switch v {
	case failed:
		b.circuit.RecordFailure()
		if b.circuit.IsOpen() {
			b.era++
			b.opened++
			b.since = last
			b.tell(kind, note)
		}
	case answered:
		b.circuit.RecordSuccess()
		if b.opened > 0 {
			b.opened = 0
			note("circuit breaker closed: %s answers again", b.of)
		}
	}
}

// tell says that the breaker has opened: the first time and the last time that
// somebody waits for it, not each minute of a night.
func (b *breaker) tell(kind llm.Kind, note func(string, ...any)) {
	switch {
	case b.opened == b.retries+1:
		note("circuit breaker open: %s fails (%s); tasks end until it answers, next try in %ds", b.of, kind, seconds(openFor))
	case b.opened == 1:
		note("circuit breaker open: %s failed %d times in a row (%s), next try in %ds", b.of, failuresToOpen, kind, seconds(openFor))
	}
}
