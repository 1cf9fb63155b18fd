package supervisor

import (
	"context"
	"sync"
)

// lease is a slot that its holder can lend while it waits. A holder may wait
// for several groups of children at once: the slot is lent with the first and
// taken back with the last.
type lease struct {
	slots *slots

	mu    sync.Mutex
	held  bool
	waits int
	ended bool
}

// lend gives the slot away until resume.
func (l *lease) lend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waits++
	l.drop()
}

// resume ends one wait and, if it was the last, waits for a slot. An error says
// that the holder is being ended: the slot stays lent.
func (l *lease) resume(ctx context.Context, depth int) error {
	l.mu.Lock()
	l.waits--
	needed := l.waits == 0 && !l.held && !l.ended
	l.mu.Unlock()
	if !needed {
		return nil
	}
	if err := l.slots.acquire(ctx, true, depth); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held || l.ended || l.waits > 0 { // the world went on meanwhile
		l.slots.release()
		return nil
	}
	l.held = true
	return nil
}

// end gives the slot back unless it is lent.
func (l *lease) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.drop()
}

func (l *lease) drop() {
	if l.held {
		l.held = false
		l.slots.release()
	}
}
