package gate

import (
	"slices"
	"time"

	"qq/pkg/llm"
)

const (
	// slack is how long a server may take to start on a request that does not wait in its queue.
	// slackPart expresses the same as a fraction of the time of the answer (1/slackPart).
	slack     = 10 * time.Millisecond
	slackPart = 8
	// longWait is how many times longer than usual a request must wait for its first byte before
	// it counts as queued: long prompts take longer too.
	longWait = 4
	// mostPatience bounds the patience of a limiter, so that a higher limit is still tried now and then.
	mostPatience = 32
	// mostSpans bounds how many finished requests are remembered.
	mostSpans = 1024
)

// limiter finds how many requests the server serves at once. It ignores how long
// answers take: that shows their length, not the load of the server.
//
// A server that reports how long a request was queued shows it directly: while one
// request was queued, the server was serving as many as it can, and these are
// counted. For other servers it is inferred. If one request was answered completely
// while another, sent no later, had no first byte, the second was queued behind the
// first, unless its prompt is just long: then a later request overtakes it, or it
// does not wait much longer than others. While it was queued, the server served as
// many requests as were seen to be answered at the same time.
//
// The limit drops at once to the number found, and is halved when the server turns
// a request away. It rises by one after as many answers as the limit came without
// queueing while the limit was in full use. If that was one too many, the next
// attempt waits twice as long.
type limiter struct {
	ceiling, limit int

	timed    bool          // the server reports how long requests were served
	spans    []span        // when finished requests were served, ordered by their end
	quickest time.Duration // shortest time from a request to its first byte, of late
	full     time.Time     // when the limit was last in full use
	calm     int           // answers in a row without queueing
	since    uint64        // number of the last request sent before the limit changed
	patience int
	trying   bool // the limit is one higher than what is known to be good
}

// span is the time during which one request was served.
type span struct{ start, end time.Time }

func newLimiter(ceiling int) limiter {
	return limiter{ceiling: ceiling, limit: ceiling, patience: 1}
}

// resize changes the ceiling. A limit that was lowered, because the server had too much to do, stays.
func (l *limiter) resize(ceiling int) {
	if l.limit == l.ceiling {
		l.limit = ceiling
	}
	l.ceiling, l.limit = ceiling, min(l.limit, ceiling)
}

// filled records the time at which n requests were under way, if n reaches the limit.
func (l *limiter) filled(n int, now time.Time) {
	if n >= l.limit {
		l.full = now
	}
}

// began records the first byte of p. flight holds the requests under way; last is the number of
// the last request sent.
func (l *limiter) began(p *permit, flight []*permit, last uint64) {
	if l.timed {
		return
	}
	answered := 0
	for _, o := range flight {
		switch {
		case !o.first.IsZero():
			answered++
		case o.suspect > 0 && !p.sent.Before(o.doubtful):
			o.suspect = -1
		}
	}
	for _, o := range flight {
		if !o.first.IsZero() {
			o.most = max(o.most, answered)
		}
	}
	took := p.first.Sub(p.sent)
	if p.suspect > 0 && took >= longWait*l.quickest {
		l.lower(p.suspect, last)
	}
	if l.quickest == 0 || took < l.quickest {
		l.quickest = took
	} else {
		l.quickest += (took - l.quickest) / 64 // prompts may have become longer
	}
	p.quick = took <= l.quickest*3/2
}

// ended records the outcome of p, which is still in flight.
func (l *limiter) ended(p *permit, r llm.Report, flight []*permit, last uint64, now time.Time) {
	l.timed = l.timed || r.Timing.Served > 0
	l.filled(len(flight), now)
	full := !l.full.Before(p.sent)
	switch {
	case r.Cancelled:
	case r.Kind == llm.Busy:
		l.calm = 0
		if p.number > l.since { // an older request says nothing about the present limit
			l.lower(l.limit/2, last)
		}
	case r.Kind != "":
	case r.Timing.Served > 0:
		start := now.Add(-r.Timing.Served)
		if r.Timing.Queued > slack+r.Timing.Served/slackPart && l.madeRoom(p.sent) {
			l.calm = 0
			l.lower(l.served(p, flight, start, r.Timing.Queued), last)
		} else if full {
			l.calmed(p, last)
		}
	case !l.timed:
		if l.suspects(p, flight, now) {
			l.calm = 0
		} else if full && (p.quick || max(p.most, 1) >= l.limit) {
			l.calmed(p, last)
		}
	}
	l.remember(p, r, flight, now)
}

// madeRoom reports whether another request ended after that time. A request that waits behind others is taken up when
// one of them ends. If none ended, the server was slow for another reason: a busy machine, other people's requests.
func (l *limiter) madeRoom(sent time.Time) bool {
	return slices.ContainsFunc(l.spans, func(s span) bool { return s.end.After(sent) })
}

// served returns how many requests were being served while p was queued, until start. Requests
// that end and begin together are briefly not counted, so it takes the highest of several
// samples.
func (l *limiter) served(p *permit, flight []*permit, start time.Time, queued time.Duration) int {
	// When the server took up p, it had taken up all requests sent before p. Those without a first byte may still
	// have had their prompts read.
	at := start.Add(-queued / 10)
	before := 0
	for _, o := range flight {
		if o.number < p.number && (o.first.IsZero() || o.first.After(at)) {
			before++
		}
	}
	return max(before+l.serving(flight, at),
		l.serving(flight, start.Add(-queued/2)), l.serving(flight, start.Add(-queued/4*3)))
}

// serving counts the requests that were certainly being served at that time.
func (l *limiter) serving(flight []*permit, at time.Time) int {
	n := 0
	for _, s := range l.spans {
		if !s.start.After(at) && s.end.After(at) {
			n++
		}
	}
	for _, o := range flight {
		if !o.first.IsZero() && !o.first.After(at) {
			n++
		}
	}
	return n
}

// suspects marks the requests that were probably queued behind p, on a server that does not
// report queueing, and reports whether there are any.
func (l *limiter) suspects(p *permit, flight []*permit, now time.Time) bool {
	if p.first.IsZero() || !p.first.Before(now) {
		return false // it came in one piece: nothing can be told
	}
	// Requests count as sent together up to half of the time of the answer: a server
	// that serves both sends the first byte of one before the last of the other.
	together := p.sent.Add(now.Sub(p.first) / 2)
	found := false
	for _, o := range flight {
		if o == p || !o.first.IsZero() || o.sent.After(together) || o.suspect < 0 {
			continue
		}
		if o.suspect == 0 {
			o.doubtful = now
		}
		o.suspect = max(o.suspect, p.most)
		found = true
	}
	return found
}

// remember keeps the time in which p was served, and drops the times that no request under way can have been queued
// behind.
func (l *limiter) remember(p *permit, r llm.Report, flight []*permit, now time.Time) {
	if !l.timed || len(flight) == 1 {
		l.spans = l.spans[:0]
		return
	}
	start := p.first
	if r.Timing.Served > 0 {
		start = now.Add(-r.Timing.Served)
	}
	if !start.IsZero() {
		l.spans = append(l.spans, span{start, now})
	}
	oldest := flight[0]
	if oldest == p {
		oldest = flight[1]
	}
	keep := slices.IndexFunc(l.spans, func(s span) bool { return s.end.After(oldest.sent) })
	if keep < 0 {
		keep = len(l.spans)
	}
	keep = max(keep, len(l.spans)-mostSpans)
	l.spans = slices.Delete(l.spans, 0, keep)
}

// calmed counts an answer that was not queued although the limit was in full use.
func (l *limiter) calmed(p *permit, last uint64) {
	if p.number <= l.since {
		return // an older request says nothing about the present limit
	}
	l.calm++
	if l.calm < l.limit*l.patience {
		return
	}
	if l.trying {
		l.patience = 1
	}
	l.calm, l.trying = 0, false
	if l.limit < l.ceiling {
		l.limit++
		l.since, l.trying = last, true
	}
}

func (l *limiter) lower(n int, last uint64) {
	n = max(n, 1)
	if n >= l.limit {
		return
	}
	if l.trying {
		l.patience = min(2*l.patience, mostPatience)
	}
	l.limit, l.since, l.calm, l.trying = n, last, 0, false
}
