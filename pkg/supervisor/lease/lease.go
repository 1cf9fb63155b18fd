// Package lease keeps which of the live jobs of a tree may touch which paths.
//
// A job asks for all its targets at once, and starts when it has the lease. Two leases conflict if they
// have a path in common and one of them writes. A job waits while a lease is held that conflicts with its
// own, and while one is waited for that was asked for earlier. So who asked first goes first.
//
// An ancestor's lease admits its descendants: the leases of a job and of those below it never conflict.
// A lease is also no wider than that of the parent, where that can be said.
//
// Two leases are also not held apart where their topmost ancestors that differ are in one group, or where each is that
// of a job in a copy of the files and the copies differ. The descendants of one job are held apart in its copy.
//
// A holder lends its lease while it waits for others, and resumes it before it goes on. So only jobs that
// work hold leases, those wait for nobody, and of those that wait the earliest one is always next:
// every schedule ends.
//
// A [Table] reads no clock and no file, and starts no goroutine. Only one goroutine may use it at a time.
package lease

import (
	"cmp"
	"slices"

	"qq/pkg/supervisor/targets"
)

// Request is what a job asks for.
type Request struct {
	Job    string // its name; two may be the same
	Parent *Lease // that of the job that started it, also after its end; nil if there is none
	Effect targets.Effect
	// Targets are what it may touch. None means what its parent may touch, and without a parent anything.
	Targets []targets.Target
	// Group is the same for requests that do not count among each other, nor do their descendants. "" is no group.
	Group string
	Copy  bool // the job and its descendants work in a copy of the files; in that of an ancestor, if it has one
}

// Lease is what one job may touch.
type Lease struct {
	job    string
	parent *Lease
	effect targets.Effect
	scope  []targets.Target
	wild   bool // the scope is every path
	group  string
	copy   *Lease // of the job that the copy was made for; nil without one
	depth  int
	asked  uint64 // its place among all requests

	state  state
	on     *Lease   // that it waits for
	behind []*Lease // those that wait for this one
	refs   []targets.Ref
}

type state uint8

const (
	waiting state = iota
	held
	lent
	ended
)

// Job returns the name in the request.
func (l *Lease) Job() string { return l.job }

// Held reports whether the job may touch its targets now.
func (l *Lease) Held() bool { return l.state == held }

// On returns the lease that l waits for, or nil if it does not wait. There may be others.
func (l *Lease) On() *Lease { return l.on }

// Targets returns what the job may touch.
func (l *Lease) Targets() []targets.Target { return l.scope }

// Table has the leases of the live jobs. The zero Table is empty.
type Table struct {
	asked   uint64
	held    [2]set // by effect
	waiting [2]set
	refs    []targets.Ref // scratch of overlapping
	found   []*Lease
	budget  *targets.Budget
}

// maxSteps bounds the comparisons of globs each time that a lease is asked for. It is about a tenth of a second, and
// 80,000 pairs of globs that begin alike. Those that are left count as touching the same paths.
const maxSteps = 5_000_000

// set has leases with the same effect and the same state.
type set struct {
	wild, narrow []*Lease // in the order in which they were asked for
	paths        targets.Index[*Lease]
}

// conflicting are the effects that conflict with each effect.
var conflicting = [...][]targets.Effect{
	targets.Writes: {targets.Writes, targets.Reads},
	targets.Reads:  {targets.Writes},
	targets.None:   nil,
}

// Ask asks for a lease. [Lease.Held] says whether it is granted at once.
func (t *Table) Ask(r Request) *Lease {
	t.asked++
	l := &Lease{job: r.Job, parent: r.Parent, effect: r.Effect, group: r.Group, asked: t.asked, state: lent}
	l.scope = scope(r, targets.NewBudget(maxSteps))
	l.wild = slices.ContainsFunc(l.scope, targets.Target.Anything)
	if r.Parent != nil {
		l.depth, l.copy = r.Parent.depth+1, r.Parent.copy
	}
	if r.Copy && l.copy == nil {
		l.copy = l
	}
	t.Resume(l)
	return l
}

// scope returns the targets of r, no wider than those of its parent as far as that can be said.
func scope(r Request, budget *targets.Budget) []targets.Target {
	bounds := []targets.Target{{}}
	if r.Parent != nil {
		bounds = r.Parent.scope
	}
	if len(r.Targets) == 0 {
		return bounds
	}
	var found []targets.Target
	for _, target := range r.Targets {
		n := len(found)
		if !slices.ContainsFunc(bounds, func(b targets.Target) bool { return budget.Contains(b, target) }) {
			for _, b := range bounds {
				if budget.Contains(target, b) {
					found = append(found, b)
				}
			}
		}
		if len(found) == n {
			found = append(found, target)
		}
	}
	return found
}

// Lend lets others have the lease l until Resume. If l waits, it waits no more. Lend returns the leases that
// are granted now.
func (t *Table) Lend(l *Lease) []*Lease { return t.leave(l, lent) }

// End gives l back, or withdraws its request. It returns the leases that are granted now.
func (t *Table) End(l *Lease) []*Lease { return t.leave(l, ended) }

// Resume asks for a lease that was lent. It keeps its place among the requests. [Lease.Held] says whether it
// is granted at once.
func (t *Table) Resume(l *Lease) {
	switch {
	case l.state != lent:
	case l.effect == targets.None:
		l.state = held
	case t.wait(l):
		l.state = waiting
		t.waiting[l.effect].add(l)
	default:
		l.state = held
		t.held[l.effect].add(l)
	}
}

// wait lets l wait for one that is in its way. It returns false if there is none.
func (t *Table) wait(l *Lease) bool {
	t.budget = targets.NewBudget(maxSteps)
	if l.on = t.blocker(l); l.on != nil {
		l.on.behind = append(l.on.behind, l)
	}
	return l.on != nil
}

// leave takes l out of the table in the state next, and returns those that are granted because of that.
func (t *Table) leave(l *Lease, next state) (granted []*Lease) {
	before := l.state
	if l.state = max(next, before); before > held || l.effect == targets.None {
		return nil
	}
	if before == waiting {
		t.waiting[l.effect].remove(l)
		l.on.behind = slices.DeleteFunc(l.on.behind, func(o *Lease) bool { return o == l })
		l.on = nil
	} else {
		t.held[l.effect].remove(l)
	}
	behind := l.behind
	l.behind = nil
	slices.SortFunc(behind, first)
	for _, w := range behind {
		if !t.wait(w) {
			t.waiting[w.effect].remove(w)
			w.state = held
			t.held[w.effect].add(w)
			granted = append(granted, w)
		}
	}
	return granted
}

// blocker returns a lease that l has to wait for, or nil. It prefers the last of those that wait: of many that wait
// for the same path each then waits for the one before it, and only one is looked at when a lease ends.
func (t *Table) blocker(l *Lease) *Lease {
	var last *Lease
	for _, e := range conflicting[l.effect] {
		if b := t.waiting[e].last(t, l); b != nil {
			last = later(last, b)
		}
	}
	if last != nil {
		return last
	}
	for _, e := range conflicting[l.effect] {
		if b := t.held[e].any(t, l); b != nil {
			return b
		}
	}
	return nil
}

// counts reports whether a and b keep each other waiting if they conflict.
func counts(a, b *Lease) bool {
	if a.copy != b.copy && a.copy != nil && b.copy != nil {
		return false
	}
	for a.depth > b.depth {
		a = a.parent
	}
	for b.depth > a.depth {
		b = b.parent
	}
	if a == b {
		return false // one is above the other
	}
	for a.parent != b.parent {
		a, b = a.parent, b.parent
	}
	return a.group == "" || a.group != b.group
}

func first(a, b *Lease) int { return cmp.Compare(a.asked, b.asked) }

// ordered returns the list of s that l belongs to.
func (s *set) ordered(l *Lease) *[]*Lease {
	if l.wild {
		return &s.wild
	}
	return &s.narrow
}

func (s *set) add(l *Lease) {
	list := s.ordered(l)
	at, _ := slices.BinarySearchFunc(*list, l, first)
	*list = slices.Insert(*list, at, l)
	if !l.wild {
		for _, target := range l.scope {
			l.refs = append(l.refs, s.paths.Add(target, l))
		}
	}
}

func (s *set) remove(l *Lease) {
	list := s.ordered(l)
	at, _ := slices.BinarySearchFunc(*list, l, first)
	*list = slices.Delete(*list, at, at+1)
	for _, ref := range l.refs {
		s.paths.Remove(ref)
	}
	l.refs = l.refs[:0]
}

// last returns the last lease of s that was asked for before l and conflicts with it.
func (s *set) last(t *Table, l *Lease) (last *Lease) {
	lists := [][]*Lease{s.wild}
	if l.wild {
		lists = append(lists, s.narrow)
	}
	for _, list := range lists {
		at, _ := slices.BinarySearchFunc(list, l, first)
		for ; at > 0; at-- {
			if b := list[at-1]; counts(b, l) {
				last = later(last, b)
				break
			}
		}
	}
	if l.wild {
		return last
	}
	at, _ := slices.BinarySearchFunc(s.narrow, l, first)
	from := at
	if len(l.scope) <= nearest {
		from = max(at-nearest, 0)
	}
	for k := at; k > from; k-- {
		if b := s.narrow[k-1]; counts(b, l) && t.touch(b, l) {
			return later(last, b)
		}
	}
	if from == 0 {
		return last
	}
	for _, b := range s.overlapping(t, l) {
		if b.asked < l.asked && counts(b, l) {
			last = later(last, b)
		}
	}
	return last
}

// nearest is how many leases are looked at one by one before the index is asked, for a lease with no more targets. In a
// queue for one path, the lease before it is the one.
const nearest = 8

// touch reports whether a and b have a path in common.
func (t *Table) touch(a, b *Lease) bool {
	return slices.ContainsFunc(a.scope, func(one targets.Target) bool {
		return slices.ContainsFunc(b.scope, func(other targets.Target) bool { return t.budget.Overlap(one, other) })
	})
}

// later returns the lease that was asked for later. a may be nil.
func later(a, b *Lease) *Lease {
	if a == nil || b.asked > a.asked {
		return b
	}
	return a
}

// any returns a lease of s that conflicts with l.
func (s *set) any(t *Table, l *Lease) *Lease {
	lists := [][]*Lease{s.wild}
	if l.wild {
		lists = append(lists, s.narrow)
	}
	for _, list := range append(lists, s.overlapping(t, l)) {
		for _, b := range list {
			if counts(b, l) {
				return b
			}
		}
	}
	return nil
}

// overlapping returns the leases of s that have a path in common with l, without those that may touch anything. If l
// itself may touch anything, it returns none: that is all of them.
// The result is valid until the next call.
func (s *set) overlapping(t *Table, l *Lease) []*Lease {
	if l.wild || len(s.narrow) == 0 {
		return nil
	}
	t.found = t.found[:0]
	for _, target := range l.scope {
		t.refs = s.paths.Near(0, target, t.refs[:0])
		for _, ref := range t.refs {
			if other, b := s.paths.At(ref); t.budget.Overlap(other, target) {
				t.found = append(t.found, b)
			}
		}
	}
	return t.found
}
