package gate

import (
	"time"

	"qq/pkg/llm"
)

// mostRecent bounds how many requests of the last window are remembered. A server that allows more in a window than
// that is kept to by what its replies say is left.
const mostRecent = 1024

// pace keeps the requests to one server within what the server says that it allows. A reply says how many more
// requests, and tokens, its user may use before a reset. Of requests, it also teaches how many are allowed in a window
// of time: those that the server has not answered yet, and those that it began to answer within the last window, are
// never more than that.
type pace struct {
	limit    int           // requests in a window; 0 is not known
	window   time.Duration // the longest time to a reset of requests, of late
	recent   []time.Time   // when the server began to answer, the latest last
	requests rest
	tokens   rest
	average  int // tokens of a request, of late
}

// rest is what is left of requests or tokens until the reset.
type rest struct {
	left   int
	until  time.Time
	number uint64 // of the request whose reply said so
}

// learn takes in what the reply to p says. unanswered is how many other requests the server may not have counted yet.
func (s *rest) learn(m llm.Meter, each, unanswered int, p *permit, now time.Time) {
	if !m.Known() {
		return
	}
	left := m.Left - each*unanswered
	if p.number < s.number && now.Before(s.until) { // a later reply is known already
		s.left = min(s.left, left)
		return
	}
	*s = rest{left: left, until: now.Add(m.Reset), number: p.number}
}

// wait returns how long to wait before so many more may be used.
func (s *rest) wait(each int, now time.Time) time.Duration {
	if s.until.IsZero() || s.left >= each {
		return 0
	}
	return s.until.Sub(now)
}

// learn takes in what the server says in the reply to p. unanswered is how many others it has not begun to answer.
func (s *pace) learn(p *permit, a llm.Allowance, unanswered int, now time.Time) {
	if m := a.Requests; m.Known() {
		s.limit = max(m.Limit, m.Left+1)
		// Of several requests, a reset may be that of the first: it is shorter than the window. That of the first in a
		// while is not, so that an odd value is forgotten.
		if m.Reset > s.window || m.Left+1 == s.limit {
			s.window = max(s.window-s.window/16, m.Reset)
		}
	}
	s.requests.learn(a.Requests, 1, unanswered, p, now)
	s.tokens.learn(a.Tokens, s.average, unanswered, p, now)
}

// sent counts a request that is sent.
func (s *pace) sent() {
	s.requests.left--
	s.tokens.left -= s.average
}

// answered notes that the server began to answer a request.
func (s *pace) answered(now time.Time) {
	if s.recent = append(s.recent, now); len(s.recent) > mostRecent {
		s.recent = append(s.recent[:0], s.recent[len(s.recent)-mostRecent/2:]...)
	}
}

// used notes how many tokens a request has used.
func (s *pace) used(tokens int) {
	switch {
	case tokens <= 0:
	case s.average == 0:
		s.average = tokens
	default:
		s.average += (tokens - s.average) / 4
	}
}

// wait returns how long no further request may be sent. unanswered is how many the server has not begun to answer.
// blocked says that one of these must be answered first.
func (s *pace) wait(unanswered int, now time.Time) (d time.Duration, blocked bool) {
	d = max(s.requests.wait(1, now), s.tokens.wait(max(s.average, 1), now), 0)
	if s.limit == 0 || s.limit >= mostRecent/2 {
		return d, false
	}
	begins := now.Add(-s.window)
	n := len(s.recent)
	within := 0
	for within < n && s.recent[n-1-within].After(begins) {
		within++
	}
	over := within + unanswered - s.limit // this many must be past, and one more
	switch {
	case over < 0:
		return d, false
	case over >= within:
		return d, true
	}
	return max(d, s.recent[n-within+over].Sub(begins)), false
}
