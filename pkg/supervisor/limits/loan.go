package limits

import (
	"context"
	"sync"
	"time"

	"qq/pkg/task"
)

// Loan is a slot that its holder lends to other jobs while it waits. A holder may wait for several
// groups of children at once: it lends the slot when the first wait begins and takes it back when
// the last one ends.
type Loan struct {
	slots *Slots

	mu    sync.Mutex
	held  bool
	waits int
	ended bool
	since time.Time // when it was lent; zero while it is not
	away  [][2]time.Time
	// regaining is nil unless a goroutine waits for a slot. It is closed when that goroutine has a
	// slot or has given up.
	regaining chan struct{}
}

// HeldSlot returns a Loan for a slot of s that the caller has already taken.
func HeldSlot(s *Slots) *Loan { return &Loan{slots: s, held: true} }

// NoSlot returns a Loan for a holder that needs no slot. Its methods lend and take back nothing.
func NoSlot() *Loan { return &Loan{ended: true} }

// Lend lets other jobs use the slot until Resume. Each Lend needs a Resume of its own.
func (l *Loan) Lend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waits++
	if l.held {
		l.since = time.Now()
	}
	l.drop()
}

// Resume ends one wait and, if no other wait is left, takes a slot again. It waits until one is
// free. depth is the depth of the holder in the tree. An error says that ctx is done; the holder
// then has no slot.
//
// If several goroutines call Resume at once, only one waits for a slot, and the others wait for
// that one. If two waited, the second might wait forever for the slot that the first one holds.
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

// regain waits for a slot or, if another goroutine already does, until that one has finished. The
// caller holds the lock; regain releases it while it waits.
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
	case l.ended || l.held || l.waits > 0: // that has changed meanwhile
		l.slots.Release()
	default:
		l.back()
	}
	return err
}

// maxAway is how many times are kept in which a slot was lent: the first ones.
const maxAway = 500

// back notes that the holder has its slot again.
func (l *Loan) back() {
	l.held = true
	if len(l.away) < maxAway {
		l.away = append(l.away, [2]time.Time{l.since, time.Now()})
	}
	l.since = time.Time{}
}

// Away returns when the slot was lent so far, in milliseconds after start.
func (l *Loan) Away(start time.Time) (spans []task.Span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.away
	if !l.since.IsZero() {
		all = append(all[:len(all):len(all)], [2]time.Time{l.since, time.Now()})
	}
	for _, one := range all {
		spans = append(spans, task.Span{From: one[0].Sub(start).Milliseconds(), To: one[1].Sub(start).Milliseconds()})
	}
	return spans
}

// Retake ends one wait and, if no other wait is left, has a slot again at once, even if all are taken: then one more is
// taken than there are, until a holder gives one back.
func (l *Loan) Retake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waits--; l.waits == 0 && !l.held && !l.ended {
		l.slots.overdraw()
		l.back()
	}
}

// Keeper knows what a holder waits for.
type Keeper interface {
	// Keeps reports whether the holder waits for something that other jobs can do without.
	Keeps() bool
}

// How soon, and then how often, a Keeper is asked.
const (
	firstLook = 20 * time.Millisecond
	nextLook  = 500 * time.Millisecond
)

// Watch lends the slot to other jobs as soon as k says so. The caller must call Stop when its wait is over.
func (l *Loan) Watch(k Keeper) *Watch {
	w := &Watch{loan: l, keeper: k}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(firstLook, w.look)
	return w
}

// Watch is one wait of a holder.
type Watch struct {
	loan   *Loan
	keeper Keeper

	mu         sync.Mutex
	timer      *time.Timer
	lent, over bool
}

func (w *Watch) look() {
	keeps := w.keeper.Keeps()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.over:
	case keeps:
		w.lent = true
		w.loan.Lend()
	default:
		w.timer.Reset(nextLook)
	}
}

// Stop ends the wait. If the slot is lent, the holder takes it back at once: it may hold a permit for which holders of
// slots wait. Further calls have no effect.
func (w *Watch) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	w.over = true
	w.timer.Stop()
	if w.lent {
		w.loan.Retake()
	}
}

// End gives the slot back unless it is lent. From then on Resume takes none.
func (l *Loan) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.drop()
}

// Held reports whether the holder has the slot now.
func (l *Loan) Held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

func (l *Loan) drop() {
	if l.held {
		l.held = false
		l.slots.Release()
	}
}
