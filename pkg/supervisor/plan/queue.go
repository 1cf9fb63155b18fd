package plan

import (
	"cmp"
	"container/heap"
	"slices"

	"qq/pkg/supervisor/targets"
)

// ageing is after how many starts of others a priority with tasks that could start counts one more.
const ageing = 10

// Queue hands out the tasks of a [Plan] while others start and end. Only one goroutine may use it at a time.
type Queue struct {
	plan   *Plan
	before [][]int32 // what each task waits for; behind the tasks there is the end of the first phase
	after  [][]int32 // who waits for it
	needed [][]int32 // who needs its result
	state  []state
	open   []int32       // how many tasks that it waits for have not ended
	levels []level       // highest priority first
	left   int           // tasks that have not ended
	passed map[int32]int // of the tasks that were taken, how often their priority had been passed
	gone   []int32       // ended before what they waited for: those that wait for them may have to wait for that
}

type state uint8

const (
	waiting state = iota // for others
	ready
	taken
	ended
)

// level has the tasks of one priority that could start.
type level struct {
	priority int
	ready    least // positions; some may have ended
	passed   int   // starts of others since it had one
}

// Skip is a task that is not run, because one that it needs was not completed.
type Skip struct {
	Index int
	// Chain are the names of the tasks between: the first was not completed, the second needs the first, and so on.
	// The skipped task needs the last. A long chain is shortened in the middle.
	Chain []string
}

// Queue returns the tasks, to be handed out.
func (p *Plan) Queue() *Queue {
	n := len(p.tasks)
	q := &Queue{
		plan: p, before: make([][]int32, n+1), needed: reversed(p.needs), state: make([]state, n+1),
		open: make([]int32, n+1), left: n, passed: map[int32]int{},
	}
	for i := range p.tasks {
		q.before[i] = slices.Concat(p.needs[i], p.conflicts[i])
		if p.second == nil {
			continue
		}
		if p.second[i] {
			q.before[i] = append(q.before[i], int32(n))
		} else {
			q.before[n] = append(q.before[n], int32(i))
		}
	}
	q.after = reversed(q.before)
	var priorities []int
	for i := range p.tasks {
		if at, ok := slices.BinarySearch(priorities, -p.tasks[i].Priority); !ok {
			priorities = slices.Insert(priorities, at, -p.tasks[i].Priority)
		}
	}
	for _, priority := range priorities {
		q.levels = append(q.levels, level{priority: -priority})
	}
	for i := range int32(n + 1) {
		q.open[i] = int32(len(q.before[i]))
	}
	for i := range int32(n + 1) {
		if len(q.before[i]) == 0 {
			q.free(i)
		}
	}
	return q
}

// Left returns how many tasks have not ended.
func (q *Queue) Left() int { return q.left }

// Next takes the task that comes next of those that need not wait: by priority, then in the order of the plan.
// A priority that others keep passing counts one more with every 10 starts, until it has its turn. ok is false if
// all tasks wait or are taken.
func (q *Queue) Next() (i int, ok bool) {
	q.repair()
	best, most := -1, 0
	for k := range q.levels {
		l := &q.levels[k]
		for len(l.ready) > 0 && q.state[q.plan.order[l.ready[0]]] == ended {
			heap.Pop(&l.ready)
		}
		if len(l.ready) == 0 {
			continue
		}
		l.passed++
		if counts := l.priority + l.passed/ageing; best < 0 || counts > most {
			best, most = k, counts
		}
	}
	if best < 0 {
		return 0, false
	}
	l := &q.levels[best]
	at := q.plan.order[heap.Pop(&l.ready).(int)]
	q.state[at] = taken
	q.passed[at], l.passed = l.passed-1, 0
	return int(at), true
}

// Return puts back the task at index i, which [Queue.Next] took and which did not start. No priority has been passed.
// Of several tasks, the one that was taken last comes first.
func (q *Queue) Return(i int) {
	if q.state[i] != taken {
		return
	}
	for k := range q.levels {
		switch l := &q.levels[k]; {
		case l.priority == q.plan.tasks[i].Priority:
			l.passed = q.passed[int32(i)]
		case len(l.ready) > 0 && l.passed > 0:
			l.passed--
		}
	}
	q.push(int32(i))
}

// push lets the task i be taken.
func (q *Queue) push(i int32) {
	q.state[i] = ready
	k, _ := slices.BinarySearchFunc(q.levels, q.plan.tasks[i].Priority, func(l level, priority int) int {
		return cmp.Compare(priority, l.priority)
	})
	heap.Push(&q.levels[k].ready, int(q.plan.position[i]))
}

// End says that the task at index i has ended, and all that it started is gone, or that it will not start. Then
// those that waited for it may start. If it was not completed, those that need its result are skipped, with
// those that need theirs: they have ended, too.
func (q *Queue) End(i int, completed bool) []Skip {
	if q.state[i] == ended {
		return nil
	}
	q.end(int32(i))
	if completed {
		return nil
	}
	var skips []Skip
	cause := map[int32]int32{}
	for todo := []int32{int32(i)}; len(todo) > 0; todo = todo[1:] {
		for _, next := range q.needed[todo[0]] {
			if q.state[next] == ended {
				continue
			}
			cause[next] = todo[0]
			q.end(next)
			todo = append(todo, next)
			skips = append(skips, Skip{Index: int(next), Chain: q.chain(cause, int32(i), todo[0])})
		}
	}
	slices.SortFunc(skips, func(a, b Skip) int { return a.Index - b.Index })
	return skips
}

// chain returns the names of the tasks from first to last, each of which needs the one before it.
func (q *Queue) chain(cause map[int32]int32, first, last int32) []string {
	var names []string
	for ; last != first && len(names) < maxNames-2; last = cause[last] {
		names = append(names, q.plan.name(int(last)))
	}
	if last != first && cause[last] != first {
		names = append(names, "…")
	} else if last != first {
		names = append(names, q.plan.name(int(last)))
	}
	names = append(names, q.plan.name(int(first)))
	slices.Reverse(names)
	return names
}

// end says that the task i has ended.
func (q *Queue) end(i int32) {
	delete(q.passed, i)
	q.state[i] = ended
	q.left--
	if q.open[i] > 0 {
		q.gone = append(q.gone, i)
		return
	}
	q.release(i)
}

// release says to those that wait for i that they need not any more.
func (q *Queue) release(i int32) {
	for _, next := range q.after[i] {
		if q.open[next]--; q.open[next] == 0 {
			q.free(next)
		}
	}
}

// free lets i start, which waits for nothing any more. The end of the first phase has nothing to start.
func (q *Queue) free(i int32) {
	switch {
	case q.state[i] == ended:
	case int(i) == q.plan.Len():
		q.state[i] = ended
		q.release(i)
	default:
		q.push(i)
	}
}

// repair takes the tasks that are gone out of the waits. A task that waited for one of them has to wait for those
// before it that it conflicts with itself, and for no other.
func (q *Queue) repair() {
	if len(q.gone) == 0 {
		return
	}
	var hard []int32
	if !q.plan.together {
		for _, i := range q.gone {
			if b := (bridge{Queue: q, left: maxWork * (8 + len(q.before[i]) + len(q.after[i]))}); !b.over(i) {
				hard = append(hard, i)
			}
		}
	}
	q.relink(hard)
	for _, i := range q.gone {
		q.release(i)
		q.open[i] = 0 // nothing leads over it any more
	}
	q.gone = q.gone[:0]
}

// bridge lets those after a task that is gone wait for those before it that they conflict with.
type bridge struct {
	*Queue
	left int // how much it may still look at
	seen map[[2]int32]bool
}

// over goes from each of those that wait for i to each that i waits for. It returns false if that is too much to look
// at; what it has added by then are no needless waits.
func (b *bridge) over(i int32) bool {
	for _, late := range b.after[i] {
		for _, early := range b.before[i] {
			if !b.link(late, early) {
				return false
			}
		}
	}
	return true
}

// link lets late wait for early if they conflict. If they do not, it goes on from both: those after late may conflict
// with early, and late with those before early.
func (b *bridge) link(late, early int32) bool {
	n := int32(b.plan.Len())
	if late == n || early == n || b.done(late) || b.done(early) || b.seen[[2]int32{late, early}] {
		return true // the end of a phase: each task of the phases waits for it, or it for them
	}
	own, other := b.plan.tasks[late], b.plan.tasks[early]
	b.left -= 1 + len(own.Targets)*len(other.Targets)
	if b.left < 0 {
		return false
	}
	if b.state[late] != ended && b.state[early] != ended && conflict(own, other) {
		b.wait(late, early)
		return true
	}
	if b.seen == nil {
		b.seen = map[[2]int32]bool{}
	}
	b.seen[[2]int32{late, early}] = true
	for _, next := range b.after[late] {
		if !b.link(next, early) {
			return false
		}
	}
	for _, before := range b.before[early] {
		if !b.link(late, before) {
			return false
		}
	}
	return true
}

// done reports whether nothing leads over the task i: it has ended after all that it waited for.
func (b *bridge) done(i int32) bool { return b.state[i] == ended && b.open[i] <= 0 }

// conflict reports whether two tasks must not run at once.
func conflict(a, b Task) bool {
	if !targets.Conflict(a.Effect, b.Effect) {
		return false
	}
	for _, own := range scope(a) {
		for _, other := range scope(b) {
			if targets.Overlap(own, other) {
				return true
			}
		}
	}
	return false
}

// wait lets the task i wait for on.
func (q *Queue) wait(i, on int32) {
	q.before[i], q.after[on] = append(q.before[i], on), append(q.after[on], i)
	q.open[i]++
}

// relink does the same as a bridge for many tasks that are gone: it looks at all that lie before or after them.
func (q *Queue) relink(gone []int32) {
	above, below := q.reach(gone, q.before), q.reach(gone, q.after)
	if len(above) == 0 || len(below) == 0 {
		return
	}
	near := slices.Concat(above, below)
	slices.SortFunc(near, func(a, b int32) int { return int(q.plan.position[a] - q.plan.position[b]) })
	near = slices.Compact(near)
	isAbove, isBelow := members(above), members(below)
	tasks := make([]Task, len(near))
	for k, i := range near {
		tasks[k] = q.plan.tasks[i]
	}
	l := newLinker(tasks)
	for k, i := range near {
		for _, on := range l.link(int32(k)) {
			if isBelow[i] && isAbove[near[on]] {
				q.wait(i, near[on])
			}
		}
	}
}

// reach returns the tasks that have not ended and lie before or after those that are gone.
func (q *Queue) reach(gone []int32, next [][]int32) []int32 {
	var found []int32
	seen := map[int32]bool{}
	todo := slices.Clone(gone)
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, k := range next[i] {
			if seen[k] || q.state[k] == ended && q.open[k] <= 0 {
				continue
			}
			seen[k] = true
			todo = append(todo, k)
			if q.state[k] != ended && int(k) < q.plan.Len() {
				found = append(found, k)
			}
		}
	}
	return found
}

func members(list []int32) map[int32]bool {
	m := map[int32]bool{}
	for _, i := range list {
		m[i] = true
	}
	return m
}
