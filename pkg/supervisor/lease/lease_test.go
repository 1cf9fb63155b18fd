package lease

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/supervisor/targets"
)

func paths(names ...string) (all []targets.Target) {
	for _, name := range names {
		all = append(all, targets.Parse(name, false))
	}
	return all
}

func names(granted []*Lease) (jobs []string) {
	for _, l := range granted {
		jobs = append(jobs, l.Job())
	}
	return jobs
}

func TestWritersOfOneFile(t *testing.T) {
	var table Table
	write := func(job string, targets ...string) *Lease {
		return table.Ask(Request{Job: job, Targets: paths(targets...)})
	}
	a, b, c := write("a", "x", "y"), write("b", "y", "z"), write("c", "z")
	assert.True(t, a.Held())
	assert.False(t, b.Held())
	assert.Same(t, a, b.On())
	assert.False(t, c.Held(), "b asked first, also for what nobody has")
	d := write("d", "elsewhere")
	assert.True(t, d.Held())
	assert.Equal(t, []string{"b"}, names(table.End(a)))
	assert.Nil(t, b.On())
	assert.False(t, c.Held())
	assert.Equal(t, []string{"c"}, names(table.End(b)))
	assert.Empty(t, table.End(b), "it is over")
}

func TestReaders(t *testing.T) {
	var table Table
	read := func(job string) *Lease {
		return table.Ask(Request{Job: job, Effect: targets.Reads, Targets: paths("src")})
	}
	a, b := read("a"), read("b")
	assert.True(t, a.Held() && b.Held())
	w := table.Ask(Request{Job: "w", Targets: paths("src/x.go")})
	late := read("late")
	assert.False(t, w.Held() || late.Held(), "a stream of readers cannot keep a writer out")
	assert.Empty(t, table.End(a))
	assert.Equal(t, []string{"w"}, names(table.End(b)))
	assert.Equal(t, []string{"late"}, names(table.End(w)))
}

// A writer without targets may touch anything, one without effect nothing.
func TestAnything(t *testing.T) {
	var table Table
	a := table.Ask(Request{Job: "a", Targets: paths("a")})
	w := table.Ask(Request{Job: "w"})
	none := table.Ask(Request{Job: "none", Effect: targets.None})
	assert.True(t, a.Held() && none.Held())
	assert.False(t, w.Held())
	b := table.Ask(Request{Job: "b", Targets: paths("b")})
	assert.False(t, b.Held(), "w asked first")
	assert.Equal(t, []string{"w"}, names(table.End(a)))
	assert.Equal(t, []string{"b"}, names(table.End(w)))
}

// A lease admits those below it, and holds others of the tree apart.
func TestAncestors(t *testing.T) {
	var table Table
	a := table.Ask(Request{Job: "a", Targets: paths("src")})
	child := table.Ask(Request{Job: "child", Parent: a})
	grandchild := table.Ask(Request{Job: "grandchild", Parent: child, Targets: paths("src/x.go")})
	assert.True(t, child.Held() && grandchild.Held())
	assert.Equal(t, a.Targets(), child.Targets(), "without targets it may touch what its parent may")

	b := table.Ask(Request{Job: "b", Targets: paths("docs")})
	background := table.Ask(Request{Job: "background", Parent: b, Targets: paths("src/x.go")})
	assert.True(t, b.Held())
	assert.False(t, background.Held(), "held apart like two tasks of one batch")
	table.End(a)
	table.End(child)
	assert.Equal(t, []string{"background"}, names(table.End(grandchild)))
	sibling := table.Ask(Request{Job: "sibling", Parent: b, Targets: paths("src")})
	assert.False(t, sibling.Held(), "children of one job are held apart")
}

func TestScope(t *testing.T) {
	for _, row := range []struct{ parent, own, want []string }{
		{nil, nil, []string{"/"}},
		{nil, []string{"a"}, []string{"/a"}},
		{[]string{"src"}, nil, []string{"/src"}},
		{[]string{"src"}, []string{"."}, []string{"/src"}},
		{[]string{"src", "docs"}, []string{"."}, []string{"/src", "/docs"}},
		{[]string{"src"}, []string{"src/a", "src/*.go"}, []string{"/src/a", "/src/*.go"}},
		{[]string{"src"}, []string{"docs"}, []string{"/docs"}}, // it asks for what it says
		{[]string{"src", "."}, []string{"."}, []string{"/"}},
	} {
		var table Table
		var parent *Lease
		if row.parent != nil {
			parent = table.Ask(Request{Targets: paths(row.parent...)})
		}
		var got []string
		for _, target := range table.Ask(Request{Parent: parent, Targets: paths(row.own...)}).Targets() {
			got = append(got, target.String())
		}
		assert.Equal(t, row.want, got, "%v", row)
	}
}

// Two readers of everything whose writers would wait for each other: both lend, and the writers run one by one.
func TestLend(t *testing.T) {
	var table Table
	r1, r2 := table.Ask(Request{Job: "r1", Effect: targets.Reads}), table.Ask(Request{Job: "r2", Effect: targets.Reads})
	assert.True(t, r1.Held() && r2.Held())
	table.Lend(r1)
	w1 := table.Ask(Request{Job: "w1", Parent: r1})
	assert.False(t, w1.Held(), "r2 reads")
	assert.Equal(t, []string{"w1"}, names(table.Lend(r2)))
	w2 := table.Ask(Request{Job: "w2", Parent: r2})
	assert.False(t, w2.Held())
	table.Resume(r2)
	assert.False(t, r2.Held(), "w1 writes")
	assert.Equal(t, []string{"r2", "w2"}, names(table.End(w1)), "r2 is above w2, and r1 is lent")
	table.Resume(r1)
	assert.False(t, r1.Held(), "w2 writes")
	assert.Equal(t, []string{"r1"}, names(table.End(w2)))
}

// A lease that waits to be resumed can be lent again: its job is to end.
func TestLendWhileItResumes(t *testing.T) {
	var table Table
	a := table.Ask(Request{Job: "a"})
	table.Lend(a)
	b := table.Ask(Request{Job: "b"})
	table.Resume(a)
	c := table.Ask(Request{Job: "c"})
	assert.False(t, a.Held() || c.Held())
	assert.Empty(t, table.Lend(a))
	assert.Equal(t, []string{"c"}, names(table.End(b)), "a does not stand before it any more")
	assert.Empty(t, table.End(a))
}

func TestGroup(t *testing.T) {
	var table Table
	a := table.Ask(Request{Job: "a", Group: "g"})
	b := table.Ask(Request{Job: "b", Group: "g"})
	assert.True(t, a.Held() && b.Held(), "they do not count among each other")
	child := table.Ask(Request{Job: "child", Parent: a})
	other := table.Ask(Request{Job: "other", Parent: b, Group: "another"})
	assert.True(t, child.Held() && other.Held(), "nor do those below them")
	sibling := table.Ask(Request{Job: "sibling", Parent: a})
	assert.False(t, sibling.Held(), "two below one of them do")
	outside := table.Ask(Request{Job: "outside"})
	assert.False(t, outside.Held())
	assert.Equal(t, []string{"sibling"}, names(table.End(child)))
}

// What is done in two copies of the files is not held apart, what is done in one of them is.
func TestCopies(t *testing.T) {
	var table Table
	lead := table.Ask(Request{Job: "lead", Effect: targets.Reads})
	middle := table.Ask(Request{Job: "middle", Parent: lead, Effect: targets.Reads})
	a := table.Ask(Request{Job: "a", Parent: lead, Copy: true})
	b := table.Ask(Request{Job: "b", Parent: middle, Copy: true})
	assert.False(t, a.Held(), "middle reads what a changes at last")
	table.Lend(middle)
	assert.True(t, a.Held() && b.Held())
	one := table.Ask(Request{Job: "one", Parent: a, Copy: true, Targets: paths("x")})
	two := table.Ask(Request{Job: "two", Parent: b, Targets: paths("x")})
	assert.True(t, one.Held() && two.Held())
	three := table.Ask(Request{Job: "three", Parent: b, Copy: true, Targets: paths("x")})
	assert.False(t, three.Held(), "it works in the copy of b")
	assert.Equal(t, []string{"three"}, names(table.End(two)))
}

// Globs that begin alike are compared up to a bound, and count as touching the same paths after that. Who asked first
// still goes first, and nobody waits for ever.
func TestManyGlobs(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and of one goroutine")
	}
	var table Table
	var all []*Lease
	globs := func(n, first int) (all []targets.Target) {
		for i := range n {
			// no two have a path in common
			all = append(all, targets.Parse(fmt.Sprintf("/src/**/a%d?b/*", first+i), false))
		}
		return all
	}
	for i := range 12 {
		all = append(all, table.Ask(Request{Job: fmt.Sprint(i), Targets: globs(400, 1000+400*i)}))
	}
	far := table.Ask(Request{Job: "far", Targets: paths("docs/*.md")})
	few := table.Ask(Request{Job: "few", Targets: globs(1, 9000)})
	assert.True(t, far.Held(), "another folder")
	assert.True(t, few.Held(), "there are steps for so few")
	for i, l := range all {
		require.True(t, l.Held(), i)
		for k, later := range all[i+1:] {
			require.False(t, later.Held(), "%d beside %d", i+1+k, i)
		}
		table.End(l)
	}
}

// job is a job of the model: what it does, step by step.
type job struct {
	lease    *Lease
	parent   *job
	children []*job // not ended
	ask      Request
	steps    []step
	began    bool
	slot     bool
	waiting  bool // for its children, with its lease lent
	rests    bool // it has not begun, and lends its lease or its place
}

// step is one thing that a job does: it works, starts a child, or waits for all its children.
type step byte

// schedule is a random tree of jobs that run in a random order, with a cap on those that run at once.
type schedule struct {
	t     *testing.T
	r     *rand.Rand
	table Table
	asks  map[*Lease]Request
	jobs  []*job // live, in the order in which they asked
	slots int
	left  int // jobs that may still be started
}

func (s *schedule) start(parent *job) {
	s.left--
	j := &job{parent: parent, ask: Request{Effect: targets.Effect(s.r.IntN(3) % 2)}}
	j.ask.Job = fmt.Sprint(s.left)
	for range s.r.IntN(3) {
		name := []string{"a", "b", "c", "d", "a/x", "a/y", "a/*", "*/x", "b/**", "."}[s.r.IntN(10)]
		j.ask.Targets = append(j.ask.Targets, targets.Parse(name, false))
	}
	if s.r.IntN(10) == 0 {
		j.ask.Group = []string{"g", "h"}[s.r.IntN(2)]
	}
	j.ask.Copy = s.r.IntN(10) == 0
	for range 1 + s.r.IntN(5) {
		j.steps = append(j.steps, []step{'w', 'c', 'd', 'p'}[s.r.IntN(4)])
	}
	if parent != nil {
		parent.children = append(parent.children, j)
		j.ask.Parent = parent.lease
	}
	j.lease = s.table.Ask(j.ask)
	s.asks[j.lease] = j.ask
	s.jobs = append(s.jobs, j)
}

// ready reports whether j can do something: it needs its lease and then a slot, and takes the lease first.
func (s *schedule) ready(j *job) bool {
	switch {
	case j.rests:
		return true
	case j.waiting:
		return len(j.children) == 0
	case !j.lease.Held():
		return false
	}
	return j.slot || s.slots > 0
}

// step lets j do its next step.
func (s *schedule) step(j *job) {
	switch {
	case j.rests || j.waiting:
		j.rests, j.waiting = false, false
		s.table.Resume(j.lease)
		return
	case !j.slot:
		s.slots--
		j.slot, j.began = true, true
		return
	case len(j.steps) == 0:
		s.end(j)
		return
	}
	next := j.steps[0]
	j.steps = j.steps[1:]
	if (next == 'c' || next == 'd') && s.left > 0 {
		if next == 'd' { // it delegates, and lends before the child asks
			s.lend(j)
		}
		s.start(j)
	}
	if next == 'p' {
		s.lend(j)
	}
}

func (s *schedule) lend(j *job) {
	j.waiting, j.slot = true, false
	s.slots++
	s.table.Lend(j.lease)
}

// end ends j, and cancels its children, which go at once.
func (s *schedule) end(j *job) {
	for len(j.children) > 0 {
		s.end(j.children[0])
	}
	if j.slot {
		s.slots++
	}
	s.table.End(j.lease)
	s.jobs = slices.DeleteFunc(s.jobs, func(o *job) bool { return o == j })
	if p := j.parent; p != nil {
		p.children = slices.DeleteFunc(p.children, func(o *job) bool { return o == j })
	}
}

// check compares the table with what it promises, by looking at all pairs.
func (s *schedule) check() {
	// line returns l below its ancestors, and where the copy begins that it works in.
	line := func(l *Lease, asks map[*Lease]Request) (all []*Lease, copied *Lease) {
		for ; l != nil; l = l.parent {
			all = append(all, l)
			if asks[l].Copy {
				copied = l
			}
		}
		slices.Reverse(all)
		return all, copied
	}
	conflict := func(a, b *Lease) bool {
		if !targets.Conflict(a.effect, b.effect) {
			return false
		}
		above, first := line(a, s.asks)
		other, second := line(b, s.asks)
		if first != nil && second != nil && first != second {
			return false
		}
		n := 0
		for n < len(above) && n < len(other) && above[n] == other[n] {
			n++
		}
		if n == len(above) || n == len(other) {
			return false
		}
		if group := s.asks[above[n]].Group; group != "" && group == s.asks[other[n]].Group {
			return false
		}
		for _, one := range a.scope {
			if slices.ContainsFunc(b.scope, func(other targets.Target) bool { return targets.Overlap(one, other) }) {
				return true
			}
		}
		return false
	}
	for _, j := range s.jobs {
		a, blocked := j.lease, false
		for _, o := range s.jobs {
			b := o.lease
			if a == b || !conflict(a, b) {
				continue
			}
			if a.state == held && b.state == held {
				s.t.Fatalf("both are held: %s %s", a.job, b.job)
			}
			blocked = blocked || b.state == held || b.state == waiting && b.asked < a.asked
		}
		if (a.state == waiting) != (a.On() != nil) || a.state == waiting && !blocked {
			s.t.Fatalf("%s waits for nobody", a.job)
		}
	}
}

// TestSchedules: in random trees of jobs, whatever is next, two leases that conflict are never held at once, nobody
// waits without need, and all jobs end: some job can always go on.
func TestSchedules(t *testing.T) {
	seeds := 2000
	if testing.Short() {
		seeds = 500
	}
	for seed := range seeds {
		s := &schedule{t: t, r: rand.New(rand.NewPCG(uint64(seed), 1)), asks: map[*Lease]Request{}}
		s.slots, s.left = 1+s.r.IntN(4), 3+s.r.IntN(20)
		for range 1 + s.r.IntN(5) {
			s.start(nil)
		}
		for len(s.jobs) > 0 {
			var ready []*job
			for _, j := range s.jobs {
				if s.ready(j) {
					ready = append(ready, j)
				}
			}
			require.NotEmpty(t, ready, "seed %d: nobody can go on", seed)
			switch j := s.jobs[s.r.IntN(len(s.jobs))]; {
			case s.r.IntN(40) == 0:
				s.end(j) // it is cancelled, whatever it does
			case !j.began && !j.rests && s.r.IntN(20) == 0:
				j.rests = true
				s.table.Lend(j.lease)
			default:
				s.step(ready[s.r.IntN(len(ready))])
			}
			s.check()
		}
		for _, sets := range [][2]set{s.table.held, s.table.waiting} {
			for _, one := range sets {
				require.Empty(t, slices.Concat(one.wild, one.narrow))
			}
		}
	}
}

// BenchmarkLease asks for a lease and gives back the oldest one, at 1,000 live jobs.
func BenchmarkLease(b *testing.B) {
	const live = 1000
	for _, row := range []struct {
		name    string
		request func(i int) Request
	}{
		{"apart", func(i int) Request {
			return Request{Targets: paths(fmt.Sprintf("src/d%d/f%d.go", i%100, i%5000))}
		}},
		{"ten on each of 100 files", func(i int) Request {
			return Request{Targets: paths(fmt.Sprintf("src/f%d.go", i%100), fmt.Sprintf("docs/f%d.md", i%100))}
		}},
		{"globs", func(i int) Request { return Request{Targets: paths(fmt.Sprintf("src/d%d/*.go", i%5000))} }},
		{"readers of everything", func(int) Request { return Request{Effect: targets.Reads} }},
		{"writers of everything", func(int) Request { return Request{} }},
		{"one in ten writes everything", func(i int) Request {
			if i%10 == 0 {
				return Request{}
			}
			return Request{Targets: paths(fmt.Sprintf("src/f%d.go", i%5000))}
		}},
		{"writers of one file", func(int) Request { return Request{Targets: paths("src/a.go")} }},
	} {
		requests := make([]Request, 10_000)
		for i := range requests {
			requests[i] = row.request(i)
		}
		b.Run(row.name, func(b *testing.B) {
			var table Table
			var all []*Lease
			for i := range live {
				all = append(all, table.Ask(requests[i]))
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				table.End(all[i%live])
				all[i%live] = table.Ask(requests[(i+live)%len(requests)])
			}
		})
	}
}
