// Package access lets the jobs of a tree wait for their leases: see package lease.
//
// A job asks for its lease before it starts, and ends it when it is gone. While it waits for its children, a
// message or an approval, it lends the lease, as it lends its slot. It never waits for a lease while it holds
// a slot: whoever needs both takes the lease first.
//
// A nil [Tree] gives nil leases. A nil [Lease] is that of a job that needs none.
package access

import (
	"context"
	"sync"

	"qq/pkg/supervisor/lease"
	"qq/pkg/supervisor/targets"
)

// Mode says which jobs are held apart.
type Mode string

// Modes. The zero Mode is [Auto].
const (
	Auto   Mode = "auto"   // all, but for the tasks of a batch of which none has targets
	Strict Mode = "strict" // all
	Off    Mode = "off"    // none
)

// Tree has the leases of all live jobs of a tree. The zero Tree is empty. Several goroutines may use it.
type Tree struct {
	mu      sync.Mutex
	table   lease.Table
	waiting map[*lease.Lease]*Lease
	named   named
}

// Lease is what one job may touch.
type Lease struct {
	tree   *Tree
	own    *lease.Lease
	family *family
	wake   chan<- struct{}
	waits  int           // calls of Lend without a Resume yet
	turned chan struct{} // closed when it is granted, lent or ended; nil while nobody waits for that
	queued int           // calls of Resume that wait
	ended  bool
}

// Ask asks for a lease for a job below that of parent, which may be nil. If it is granted later, wake gets a
// message then, unless one is in it; wake may be nil. The caller must end the lease.
func (t *Tree) Ask(parent *Lease, r lease.Request, wake chan<- struct{}) *Lease {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	own := &family{own: r.Targets}
	if parent != nil {
		r.Parent, own.parent = parent.own, parent.family
	}
	t.named.add(own)
	l := &Lease{tree: t, own: t.table.Ask(r), wake: wake, family: own}
	l.expect()
	return l
}

// expect notes that l waits, if it does.
func (l *Lease) expect() {
	if l.own.Held() {
		return
	}
	if l.tree.waiting == nil {
		l.tree.waiting = map[*lease.Lease]*Lease{}
	}
	l.tree.waiting[l.own] = l
}

// grant tells those who wait for the leases that they have them.
func (t *Tree) grant(granted []*lease.Lease) {
	for _, own := range granted {
		l := t.waiting[own]
		delete(t.waiting, own)
		l.turn()
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// turn wakes those who wait for l.
func (l *Lease) turn() {
	if l.turned != nil {
		close(l.turned)
		l.turned = nil
	}
}

// Granted reports whether the job may start, or go on.
func (l *Lease) Granted() bool {
	if l == nil {
		return true
	}
	l.tree.mu.Lock()
	defer l.tree.mu.Unlock()
	return l.own.Held()
}

// Targets returns what the job may touch. None means anything.
func (l *Lease) Targets() []targets.Target {
	if l == nil {
		return nil
	}
	return l.own.Targets()
}

// Await waits until the lease is granted. An error says that ctx is done.
func (l *Lease) Await(ctx context.Context) error {
	if l == nil {
		return ctx.Err()
	}
	l.tree.mu.Lock()
	defer l.tree.mu.Unlock()
	for !l.own.Held() && !l.ended {
		if err := l.pause(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// pause waits until something has changed. The caller holds the lock; pause releases it while it waits.
func (l *Lease) pause(ctx context.Context) error {
	if l.turned == nil {
		l.turned = make(chan struct{})
	}
	turned := l.turned
	l.tree.mu.Unlock()
	defer l.tree.mu.Lock()
	select {
	case <-turned:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Lend lets others have the lease until Resume. Each Lend needs a Resume of its own.
func (l *Lease) Lend() {
	if l == nil {
		return
	}
	l.tree.mu.Lock()
	defer l.tree.mu.Unlock()
	if l.waits++; l.waits == 1 {
		l.lend()
	}
}

// lend lets others have the lease. Who waits for it waits no more.
func (l *Lease) lend() {
	delete(l.tree.waiting, l.own)
	l.turn()
	l.tree.grant(l.tree.table.Lend(l.own))
}

// Rest lets others have the lease, or the place before them, of a job that does not start yet, until Claim.
func (l *Lease) Rest() {
	if l == nil {
		return
	}
	l.tree.mu.Lock()
	defer l.tree.mu.Unlock()
	if !l.ended {
		l.lend()
	}
}

// Claim asks again for a lease that rests. It keeps its place among the requests, and does not wait.
func (l *Lease) Claim() {
	if l == nil {
		return
	}
	l.tree.mu.Lock()
	defer l.tree.mu.Unlock()
	if !l.ended {
		l.tree.table.Resume(l.own)
		l.expect()
	}
}

// Resume ends one wait and, if no other wait is left, waits until the job has its lease again. An error says
// that ctx is done; the lease then stays lent.
func (l *Lease) Resume(ctx context.Context) error {
	if l == nil {
		return nil
	}
	l.tree.mu.Lock()
	defer l.tree.mu.Unlock()
	l.waits--
	l.queued++
	defer func() { l.queued-- }()
	for l.waits == 0 && !l.ended {
		l.tree.table.Resume(l.own)
		if l.own.Held() {
			return nil
		}
		l.expect()
		if err := l.pause(ctx); err != nil {
			if l.queued == 1 && l.waits == 0 && !l.own.Held() && !l.ended {
				l.lend()
			}
			return err
		}
	}
	return nil
}

// End gives the lease back, or withdraws the request.
func (l *Lease) End() {
	if l == nil {
		return
	}
	l.tree.mu.Lock()
	defer l.tree.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	delete(l.tree.waiting, l.own)
	l.turn()
	l.tree.grant(l.tree.table.End(l.own))
}
