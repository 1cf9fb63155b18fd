package control

import (
	"time"

	"qq/pkg/event"
)

// keepFor is how long events are kept after the last subscriber has left, in case it comes again.
const keepFor = time.Minute

// backlog holds the last events, for subscribers that come again: twice as many as one queue, because whoever is
// dropped for a full queue has not read any of it. It holds none before the first subscriber. The mutex of the server
// guards it.
type backlog struct {
	events []kept // the last ones, without gaps, in their order
	bytes  int
	left   time.Time // when a subscriber left; zero if none ever did
}

// kept is one event.
type kept struct {
	seq  int64
	kind event.Type
	line []byte
}

// wanted reports whether an event is kept. subscribed says that there are subscribers.
func (b *backlog) wanted(subscribed bool, now time.Time) bool {
	if subscribed || !b.left.IsZero() && now.Sub(b.left) < keepFor {
		return true
	}
	b.events, b.bytes = nil, 0
	return false
}

// add adds the next event, and forgets the oldest ones if there are too many.
func (b *backlog) add(k kept) {
	b.events, b.bytes = append(b.events, k), b.bytes+len(k.line)
	for len(b.events) > 2*maxEvents || b.bytes > 2*MaxQueued {
		b.bytes -= len(b.events[0].line)
		b.events[0] = kept{}
		b.events = b.events[1:]
	}
}

// after returns the events after number seq. last is the number of the last event. false means that some are not there.
func (b *backlog) after(seq, last int64) ([]kept, bool) {
	first := last + 1
	if len(b.events) > 0 {
		first = b.events[0].seq
	}
	if seq > last || seq+1 < first {
		return nil, false
	}
	return b.events[seq+1-first:], true
}
