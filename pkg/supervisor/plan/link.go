package plan

import (
	"slices"

	"qq/pkg/supervisor/targets"
)

// linker finds for each task the tasks before it that it conflicts with. It leaves out many that another one between
// waits for, so the number of pairs stays small.
//
// Tasks are in it by their targets. Those that may touch anything are in lists: all readers of anything, and all
// writers, for them.
type linker struct {
	tasks   []Task
	readers targets.Index[int32]
	writers targets.Index[writes]
	wild    []int32 // readers of anything, in order
	changes []int32 // writers, in order
	met     []met   // of each task
	now     int32   // counts the tasks
	marks   []int32 // scratch of [Plan.reduce]
	refs    []targets.Ref
	found   []int32
	touched []int32 // of each task: the place of the last one that it was found to conflict with
	budget  *targets.Budget
}

// The comparisons of globs of a plan may take so many steps: in all, and more for each target. That is less than a
// second, and about 4,000 globs that begin alike. Then globs that begin alike count as touching the same paths.
const allSteps, moreSteps = 20_000_000, 500

// writes is a target of a writer.
type writes struct {
	task    int32
	readers targets.Mark // those that were added before have met it
}

// met says which tasks another one waits for, directly or not.
type met struct {
	at      int32 // its own place, from 1
	wild    int32 // all readers of anything up to this place
	changes int32 // all writers up to this place
	live    int32 // how many of its targets no later writer covers
}

func newLinker(tasks []Task) *linker {
	l := &linker{tasks: tasks, met: make([]met, len(tasks)), touched: make([]int32, len(tasks))}
	var room [2]int
	for _, t := range tasks {
		if t.Effect != targets.None {
			room[t.Effect] += max(len(t.Targets), 1)
		}
	}
	l.budget = targets.NewBudget(allSteps + moreSteps*(room[targets.Reads]+room[targets.Writes]))
	l.writers.Grow(room[targets.Writes])
	l.readers.Grow(room[targets.Reads])
	return l
}

// link adds the task i, and returns those that were added before and conflict with it. The result is valid until the
// next call.
func (l *linker) link(i int32) []int32 {
	l.found = l.found[:0]
	t := l.tasks[i]
	if t.Effect == targets.None {
		return nil
	}
	l.now++
	own := met{at: l.now}
	anything := slices.ContainsFunc(scope(t), targets.Target.Anything)
	switch {
	case t.Effect == targets.Writes:
		for _, target := range scope(t) {
			l.afterAll(target)
		}
		own.meet(l)
		l.wild = l.after(l.wild, &own, &own.wild)
		own.wild = l.now
		if anything {
			own.changes = l.now
			l.wild = l.wild[:0]
		}
		l.changes = append(l.changes, i)
		for _, target := range scope(t) {
			l.writers.Add(target, writes{i, l.readers.Now()})
			own.live++
		}
	case anything:
		l.changes = l.after(l.changes, &own, &own.changes)
		own.changes = l.now
		l.wild = append(l.wild, i)
		own.live = 1
	default:
		for _, target := range scope(t) {
			l.afterWriters(target)
		}
		own.meet(l)
		for _, target := range scope(t) {
			l.readers.Add(target, i)
		}
	}
	l.met[i] = own
	slices.Sort(l.found)
	l.found = slices.Compact(l.found)
	return l.found
}

// meet takes into account whom those that were found have met.
func (m *met) meet(l *linker) {
	for _, on := range l.found {
		m.wild, m.changes = max(m.wild, l.met[on].wild), max(m.changes, l.met[on].changes)
	}
}

// after adds those of list to found that come after the place until. own is about the task that waits for them, and
// until is a part of it: it grows while they are found. after returns the list without those that are covered.
func (l *linker) after(list []int32, own *met, until *int32) []int32 {
	covered := false
	for k := len(list) - 1; k >= 0 && l.met[list[k]].at > *until; k-- {
		on := list[k]
		if l.met[on].live == 0 {
			covered = true
			continue
		}
		l.found = append(l.found, on)
		own.wild, own.changes = max(own.wild, l.met[on].wild), max(own.changes, l.met[on].changes)
	}
	if covered {
		list = slices.DeleteFunc(list, func(on int32) bool { return l.met[on].live == 0 })
	}
	return list
}

// touches reports whether the task on, of which other is a target, conflicts with the one that is being added, of which
// target is one. It adds on to found once, and compares no more of its targets then.
func (l *linker) touches(on int32, other, target targets.Target) bool {
	if l.touched[on] == l.now {
		return true
	}
	if !l.budget.Overlap(other, target) {
		return false
	}
	l.touched[on] = l.now
	l.found = append(l.found, on)
	return true
}

// afterWriters adds to found the writers of what a reader reads.
func (l *linker) afterWriters(target targets.Target) {
	l.refs = l.writers.Near(0, target, l.refs[:0])
	for _, ref := range l.refs {
		other, w := l.writers.At(ref)
		l.touches(w.task, other, target)
	}
}

// afterAll adds to found the readers and writers of what a writer writes. It forgets those of which all is in the
// target of the writer: who conflicts with one of them, conflicts with the writer as well.
func (l *linker) afterAll(target targets.Target) {
	var seen targets.Mark // readers that a writer of all of the target has waited for
	l.refs = l.writers.Near(0, target, l.refs[:0])
	for _, ref := range l.refs {
		other, w := l.writers.At(ref)
		if !l.touches(w.task, other, target) {
			continue
		}
		if l.budget.Contains(other, target) {
			seen = max(seen, w.readers)
		}
		if l.budget.Contains(target, other) {
			l.writers.Remove(ref)
			l.met[w.task].live--
		}
	}
	l.refs = l.readers.Near(seen, target, l.refs[:0])
	for _, ref := range l.refs {
		other, task := l.readers.At(ref)
		if l.touches(task, other, target) && l.budget.Contains(target, other) {
			l.readers.Remove(ref)
		}
	}
}
