package limits

import (
	"context"
	"sync"
)

// Loan is a slot that its holder can lend while it waits. A holder may wait
// for several groups of children at once: the slot is lent with the first and
// taken back with the last.
type Loan struct {
	slots *Slots

	mu    sync.Mutex
	held  bool
	waits int
	ended bool
	// regaining is closed when the wait for a slot that is under way is over; nil
	// without one.
	regaining chan struct{}
}

// HeldSlot is the loan of a slot of s that its holder has.
func HeldSlot(s *Slots) *Loan { return &Loan{slots: s, held: true} }

// NoSlot is the loan of a holder that needs no slot: nothing is lent or taken back.
func NoSlot() *Loan { return &Loan{ended: true} }

// Lend gives the slot away until Resume.
func (l *Loan) Lend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waits++
	l.drop()
}

// Resume ends one wait and, if it was the last, waits for a slot. An error says
// that the holder is being ended: the slot stays lent.
//
// Only one of several at once waits for a slot, and the others for that one: a
// second one might wait for the very slot that the first one got.
func (l *Loan) Resume(ctx context.Context, depth int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waits--
	for l.waits == 0 && !l.held && !l.ended {
		if err := l.regain(ctx, depth); err != nil {
			return err
		}
	}
	return nil
}

// regain waits for a slot, or for somebody else who does. The loan is locked,
// but not while it waits.
func (l *Loan) regain(ctx context.Context, depth int) error {
	if other := l.regaining; other != nil {
		l.mu.Unlock()
		defer l.mu.Lock()
		select {
		case <-other:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	done := make(chan struct{})
	l.regaining = done
	l.mu.Unlock()
	err := l.slots.Acquire(ctx, true, depth)
	l.mu.Lock()
	l.regaining = nil
	close(done)
	switch {
	case err != nil:
	case l.ended || l.waits > 0: // that has changed meanwhile
		l.slots.Release()
	default:
		l.held = true
	}
	return err
}

// End gives the slot back unless it is lent.
func (l *Loan) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.drop()
}

func (l *Loan) drop() {
	if l.held {
		l.held = false
		l.slots.Release()
	}
}
