package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qq/pkg/supervisor/targets"
)

// seeds is how many random batches are planned and run.
const seeds = 10_000

var places = []string{
	"a", "a/x", "a/y", "a/x/1.go", "a/x/2.go", "a/y/1.go", "b", "b/1.go", "b/2.go", "b/*.go", "a/*", "a/**/1.go",
	"*/x", "b/[12].go", "c", "c/d/e", "c/*/e", "{a,c}/x", "a2", "a2/1.go",
}

// random returns tasks as people and models write them.
func random(r *rand.Rand) []Task {
	tasks := make([]Task, 1+r.IntN(14))
	if r.IntN(50) == 0 {
		tasks = make([]Task, 80)
	}
	rank := r.Perm(len(tasks)) // a task needs those of a lower rank only, so there is no cycle
	if r.IntN(3) > 0 {
		slices.Sort(rank) // the usual case: only earlier ones
	}
	few := places
	if r.IntN(3) == 0 {
		few = places[:3]
	}
	wild := 8
	if r.IntN(3) == 0 {
		wild = 2
	}
	for i := range tasks {
		t := Task{ID: fmt.Sprint("t", i), Effect: targets.Effect(r.IntN(3)), Priority: r.IntN(3)}
		if r.IntN(2) == 0 {
			t.Effect = targets.Writes
		}
		if r.IntN(2) == 0 {
			t.Role = Gathers
		}
		if r.IntN(wild) > 0 {
			for range 1 + r.IntN(3) {
				target := targets.Parse(few[r.IntN(len(few))], false)
				if r.IntN(3) == 0 {
					target = target.AsFile()
				}
				t.Targets = append(t.Targets, target)
			}
		}
		for k := range tasks {
			if rank[k] < rank[i] && r.IntN(2*len(tasks)) == 0 {
				t.Needs = append(t.Needs, fmt.Sprint("t", k))
			}
		}
		tasks[i] = t
	}
	return tasks
}

// checker says by comparing all pairs what a plan has to do.
type checker struct {
	tasks     []Task
	order     []int
	conflicts [][]bool // [i][k]: i must wait for k
	needs     [][]bool
	second    []bool
}

func newChecker(tasks []Task, o Options) *checker {
	n := len(tasks)
	c := &checker{tasks: tasks, second: make([]bool, n)}
	for range n {
		c.conflicts, c.needs = append(c.conflicts, make([]bool, n)), append(c.needs, make([]bool, n))
	}
	for i, t := range tasks {
		for k, other := range tasks {
			c.needs[i][k] = slices.Contains(t.Needs, other.ID)
		}
		c.second[i] = o.Phases && t.Role != Gathers
	}
	for range n { // what needs one of the second phase
		for i := range tasks {
			for k := range tasks {
				c.second[i] = c.second[i] || c.needs[i][k] && c.second[k]
			}
		}
	}
	placed := make([]bool, n)
	for range n {
		best := -1
		for i := range tasks {
			may := !placed[i]
			for k := range tasks {
				may = may && (!c.needs[i][k] || placed[k])
			}
			if may && (best < 0 || c.second[best] && !c.second[i]) {
				best = i
			}
		}
		for _, k := range c.order {
			c.conflicts[best][k] = !o.Together && c.touch(best, k)
		}
		c.order = append(c.order, best)
		placed[best] = true
	}
	return c
}

// touch reports whether two tasks must not run at once.
func (c *checker) touch(i, k int) bool {
	a, b := c.tasks[i], c.tasks[k]
	if a.Effect == targets.None || b.Effect == targets.None || a.Effect == targets.Reads && b.Effect == targets.Reads {
		return false
	}
	if len(a.Targets) == 0 || len(b.Targets) == 0 {
		return true
	}
	for _, x := range a.Targets {
		for _, y := range b.Targets {
			if targets.Overlap(x, y) {
				return true
			}
		}
	}
	return false
}

// mayStart reports whether i needs to wait for none of the tasks that have not ended.
func (c *checker) mayStart(i int, ended []bool) bool {
	for k := range c.tasks {
		if !ended[k] && (c.needs[i][k] || c.conflicts[i][k] || c.second[i] && !c.second[k]) {
			return false
		}
	}
	return true
}

// TestPlan runs random batches, with failures, tasks that are cancelled before they start, and servers that are not
// ready. At each moment the tasks that may start are those that the checker says, no one more and no one less. So no
// two that conflict run at once, each pair that conflicts runs in order, needs come before, and no wait is needless.
func TestPlan(t *testing.T) {
	const parts = 8
	for part := range uint64(parts) {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			for seed := part; seed < seeds; seed += parts {
				check(t, seed)
			}
		})
	}
}

// check plans and runs one random batch.
func check(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 13))
	o := Options{Phases: r.IntN(4) == 0, Together: r.IntN(10) == 0}
	tasks := random(r)
	p, err := New(tasks, o)
	require.NoError(t, err, "seed %d", seed)
	c := newChecker(tasks, o)
	require.Equal(t, c.order, p.Order(), "seed %d", seed)
	if !waitsFollow(p, c) {
		t.Fatalf("seed %d: waits of %+v", seed, tasks)
	}
	if problem := run(r, p.Queue(), c); problem != "" {
		t.Fatalf("seed %d: %s in %+v", seed, problem, tasks)
	}
}

// waitsFollow reports whether each wait of p is one of c, and each of c follows from those of p.
func waitsFollow(p *Plan, c *checker) bool {
	behind := make([][]bool, p.Len())
	for _, i := range p.Order() {
		behind[i] = make([]bool, p.Len())
		for _, w := range p.Waits(i) {
			if w.Reason == Phase {
				if !c.second[i] {
					return false
				}
				continue
			}
			behind[i][w.On] = true
			for k, is := range behind[w.On] {
				behind[i][k] = behind[i][k] || is
			}
			if w.Reason == Need && !c.needs[i][w.On] || w.Reason != Need && !c.conflicts[i][w.On] {
				return false
			}
		}
		for k := range c.tasks {
			if (c.needs[i][k] || c.conflicts[i][k]) && !behind[i][k] {
				return false
			}
		}
	}
	return true
}

// run runs a batch, and returns what is wrong.
func run(r *rand.Rand, q *Queue, c *checker) string {
	n := len(c.tasks)
	ended, started := make([]bool, n), make([]bool, n)
	slots := 1 + r.IntN(n)
	trouble := r.IntN(3) // how often something fails
	var running []int
	end := func(i int, completed bool) string {
		want := map[int]bool{}
		if !completed {
			want = c.skipped(i, ended)
		}
		ended[i] = true
		for _, s := range q.End(i, completed) {
			if !want[s.Index] {
				return fmt.Sprint(s.Index, " is skipped")
			}
			delete(want, s.Index)
			ended[s.Index] = true
		}
		if len(want) > 0 {
			return fmt.Sprint(want, " are not skipped")
		}
		return ""
	}
	for slices.Contains(ended, false) {
		var next []int
		for i, ok := q.Next(); ok; i, ok = q.Next() {
			next = append(next, i)
		}
		for i := range c.tasks {
			may := !ended[i] && !started[i] && c.mayStart(i, ended)
			if may != slices.Contains(next, i) {
				return fmt.Sprintf("%d may start: %v; %v are handed out, %v run", i, may, next, running)
			}
		}
		for _, i := range next {
			if len(running) < slots && r.IntN(10) > 0 {
				started[i] = true
				running = append(running, i)
			} else {
				q.Return(i)
			}
		}
		for range r.IntN(3) * trouble { // someone cancels a task, or its result is known from an earlier run
			if i := r.IntN(n); !started[i] && !ended[i] && r.IntN(4) == 0 {
				if problem := end(i, r.IntN(2) == 0); problem != "" {
					return problem
				}
			}
		}
		if len(running) > 0 {
			k := r.IntN(len(running))
			i := running[k]
			running = slices.Delete(running, k, k+1)
			if problem := end(i, r.IntN(8) >= trouble); problem != "" {
				return problem
			}
		} else if len(next) == 0 && slices.Contains(ended, false) && trouble == 0 {
			return "nothing runs, and nothing may start"
		}
	}
	if _, ok := q.Next(); ok || q.Left() != 0 {
		return fmt.Sprint(q.Left(), " are left")
	}
	return ""
}

// skipped returns who is skipped if i is not completed.
func (c *checker) skipped(i int, ended []bool) map[int]bool {
	skipped, todo := map[int]bool{}, []int{i}
	for ; len(todo) > 0; todo = todo[1:] {
		for k := range c.tasks {
			if c.needs[k][todo[0]] && !ended[k] && !skipped[k] && k != i {
				skipped[k] = true
				todo = append(todo, k)
			}
		}
	}
	return skipped
}
