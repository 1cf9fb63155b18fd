package gate

import (
	"fmt"
	"time"

	"qq/pkg/llm"
)

const (
	// failuresToOpen is how many failures in a row open a breaker.
	failuresToOpen = 3
	// openFor is how long a breaker stays open before a trial request.
	openFor = time.Minute
)

// mostModels bounds how many models have a breaker: their names may come from an
// agent that follows untrusted input.
const mostModels = 64

// breakers holds the circuit breakers of one server: one for the server itself, which counts
// connection failures, and one for each model, which counts the server's failures with that
// model. A model that fails does not block the others. The mutex of the gate guards them.
type breakers struct {
	retries int
	server  *breaker
	models  map[string]*breaker // of those that have failed
}

func newBreakers(server string, retries int) breakers {
	retries = max(retries, 0)
	return breakers{retries: retries, server: newBreaker(server, retries), models: map[string]*breaker{}}
}

// generations counts how often the breakers of the server and of one model have opened.
type generations struct{ server, model int }

func (s *breakers) generations(model string) *generations {
	n := &generations{server: s.server.generation}
	if m := s.models[model]; m != nil {
		n.model = m.generation
	}
	return n
}

// refusal returns the error for a request to the model while a breaker is open. Nil means that the request is not
// refused. A since that is not nil holds the generations of the breakers that the request waits for: then only a
// breaker that has opened again, or that is hopeless, refuses it.
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

// left returns the time until no circuit breaker refuses requests for the model, that of the
// server and that of the model itself; 0 if none is open.
func (s *breakers) left(model string) time.Duration {
	d := s.server.left()
	if m := s.models[model]; m != nil {
		d = max(d, m.left())
	}
	return d
}

// trying reports whether requests for the model wait for the outcome of a trial.
func (s *breakers) trying(model string) bool {
	m := s.models[model]
	return s.server.trial != nil || m != nil && m.trial != nil
}

// calm reports whether certainly no breaker is open. False means that one may be open.
func (s *breakers) calm() bool { return s.server.opened == 0 && len(s.models) == 0 }

// admits reports whether the breakers let a request for the model pass. If so, the caller must send the request and
// call sent, because it may be the one trial request.
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

// record counts the outcome r of request p. last is the number of the last request sent, by any task.
func (s *breakers) record(p *permit, r llm.Report, last uint64, g *Gate) {
	server, model := verdicts(r)
	s.server.record(p, server, r.Kind, last, g)
	m := s.models[p.model]
	if m == nil && model == failed {
		for name := range s.models {
			if len(s.models) < mostModels {
				break
			}
			delete(s.models, name) // any one of them
		}
		m = newBreaker(fmt.Sprintf("model %q", p.model), s.retries)
		s.models[p.model] = m
	}
	if m != nil {
		m.record(p, model, r.Kind, last, g)
	}
}

// verdict is what a report means for a breaker: success, failure or neither.
type verdict int

const (
	nothing verdict = iota
	failed
	answered
)

// verdicts returns what r says about the server and about the model. A reply with Retry-After
// counts against neither. A server that rejects a request is up.
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
	case llm.Server, llm.TooLong:
		return answered, failed
	case "", llm.Rejected, llm.UnknownModel, llm.ContextOverflow:
		return answered, answered
	}
	return nothing, nothing
}

// breaker is a circuit breaker: closed, open for a time, or half open, when one trial request decides. A cancelled
// trial passes to another request. A late report of a request sent before the breaker opened does not count for the
// trial. A breaker that opens again and again becomes hopeless.
type breaker struct {
	of         string // its name in messages
	retries    int
	failures   int       // in a row, while it is closed
	opened     int       // times in a row, without a success between
	until      time.Time // when it is half open, if it has opened
	generation int       // grows whenever it opens
	since      uint64    // the last request sent before it opened
	trial      *permit   // the request that decides when the breaker is half open
}

func newBreaker(of string, retries int) *breaker { return &breaker{of: of, retries: retries} }

func (b *breaker) hopeless() bool { return b.opened > b.retries }

// left returns how long the breaker stays open; 0 if it is closed or half open.
func (b *breaker) left() time.Duration {
	if b.opened == 0 { // the common case, without a look at the clock
		return 0
	}
	return max(time.Until(b.until), 0)
}

// refusal returns the error for a request for the model while the breaker is open, or nil.
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

// admits reports whether a request may be sent. One that is sent while the breaker is half open is the trial.
func (b *breaker) admits() bool { return b.opened == 0 || b.trial == nil && b.left() == 0 }

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
		if b.failures++; b.opened > 0 || b.failures == failuresToOpen {
			b.generation++
			b.opened++
			b.since, b.until = last, time.Now().Add(openFor)
			b.tell(kind, g)
		}
	case answered:
		b.failures = 0
		if b.opened > 0 {
			b.opened = 0
			g.note("circuit breaker closed: %s answers again", b.of)
		}
	}
}

// tell notes that the breaker has opened, but only the first time and when it has become hopeless. Otherwise the
// note would come every minute.
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
