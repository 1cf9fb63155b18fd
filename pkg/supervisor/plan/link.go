package plan

import (
	"slices"

	"qq/pkg/supervisor/targets"
)

// linker finds for each task the tasks before it that it conflicts with. It leaves out those that a writer between
// waits for, so the number of pairs stays small.
type linker struct {
	tasks   []Task
	readers targets.Index[int32]
	writers targets.Index[writes]
	marks   []int32 // scratch of [Plan.reduce]
	refs    []targets.Ref
	found   []int32
}

// writes is a target of a writer.
type writes struct {
	task    int32
	readers targets.Mark // those that were added before have met it
}

// grow makes room for all tasks.
func (l *linker) grow() {
	var room [2]int
	for _, t := range l.tasks {
		if t.Effect != targets.None {
			room[t.Effect] += max(len(t.Targets), 1)
		}
	}
	l.writers.Grow(room[targets.Writes])
	l.readers.Grow(room[targets.Reads])
}

// link adds the task i, and returns those that were added before and conflict with it. The result is valid until the
// next call.
func (l *linker) link(i int32) []int32 {
	l.found = l.found[:0]
	t := l.tasks[i]
	if t.Effect == targets.None {
		return nil
	}
	for _, target := range scope(t) {
		if t.Effect == targets.Reads {
			l.afterWriters(target)
		} else {
			l.afterAll(target)
		}
	}
	for _, target := range scope(t) {
		if t.Effect == targets.Reads {
			l.readers.Add(target, i)
		} else {
			l.writers.Add(target, writes{i, l.readers.Now()})
		}
	}
	slices.Sort(l.found)
	l.found = slices.Compact(l.found)
	return l.found
}

// afterWriters adds to found the writers of what a reader reads.
func (l *linker) afterWriters(target targets.Target) {
	l.refs = l.writers.Overlapping(target, l.refs[:0])
	for _, ref := range l.refs {
		_, w := l.writers.At(ref)
		l.found = append(l.found, w.task)
	}
}

// afterAll adds to found the readers and writers of what a writer writes. It forgets those of which all is in the
// target of the writer: who conflicts with one of them, conflicts with the writer as well.
func (l *linker) afterAll(target targets.Target) {
	var met targets.Mark // readers that a writer of all of the target has waited for
	l.refs = l.writers.Overlapping(target, l.refs[:0])
	for _, ref := range l.refs {
		other, w := l.writers.At(ref)
		l.found = append(l.found, w.task)
		if targets.Contains(other, target) {
			met = max(met, w.readers)
		}
		if targets.Contains(target, other) {
			l.writers.Remove(ref)
		}
	}
	l.refs = l.readers.Since(met, target, l.refs[:0])
	for _, ref := range l.refs {
		other, task := l.readers.At(ref)
		l.found = append(l.found, task)
		if targets.Contains(target, other) {
			l.readers.Remove(ref)
		}
	}
}
