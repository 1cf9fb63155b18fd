// Package plan says in which order the tasks of one batch run, and which of them may run at once.
//
// A task waits for an earlier one if it needs its result, or if both can touch one path and one of them
// writes. It waits for no other: there are no barriers between groups of tasks. Input order decides who
// waits; a task that needs a later one moves behind it.
//
// [New] checks the tasks and finds the waits. A [Queue] hands the tasks out while they start and end.
// The package reads no file and no clock, and starts no goroutine.
package plan

import (
	"context"
	"slices"

	"qq/pkg/supervisor/targets"
)

// Task is what the plan has to know of a task.
type Task struct {
	ID       string // may be empty
	Agent    string
	Role     string // see [Gathers]
	Effect   targets.Effect
	Targets  []targets.Target // none means that it may touch anything
	Needs    []string         // ids of tasks of the same batch
	Priority int              // of the tasks that could start, higher ones first
}

// Gathers is the role of a task that changes nothing. Any other role is of one that does.
const Gathers = "information-gathering"

// Options say how the tasks are ordered.
type Options struct {
	// Phases lets all tasks that gather information end before one starts that changes something.
	// A task that needs one of the second phase is itself in the second phase.
	Phases bool
	// Together lets tasks run at once that may touch the same paths. Only needs and phases count then.
	Together bool
	// Context ends the planning early. nil means that nothing does.
	Context context.Context
}

// Plan is the order of the tasks of a batch. It does not change.
type Plan struct {
	tasks     []Task
	needs     [][]int32 // of each task, without doubles
	conflicts [][]int32 // the earlier tasks that each one must not meet; those that it waits for anyway are left out
	order     []int32   // all tasks, each behind those that it waits for
	position  []int32   // of each task in order
	second    []bool    // is the task in the second phase; nil without phases
	together  bool      // see [Options]
	numeric   bool      // an id is a number
}

// New plans the tasks. The error names a cycle of needs, an unknown id, or an id that is given twice.
func New(tasks []Task, o Options) (*Plan, error) {
	p := &Plan{tasks: tasks, together: o.Together}
	if err := p.resolve(); err != nil {
		return nil, err
	}
	if err := p.sort(o.Phases); err != nil {
		return nil, err
	}
	p.conflicts = make([][]int32, len(tasks))
	if p.together {
		return p, nil
	}
	l := newLinker(tasks)
	l.marks = make([]int32, len(tasks))
	for _, i := range p.order {
		if o.Context != nil && o.Context.Err() != nil {
			return nil, context.Cause(o.Context)
		}
		p.conflicts[i] = p.reduce(l.link(i), i, l.marks)
	}
	return p, nil
}

// Together reports whether tasks run at once that may touch the same paths: see [Options].
func (p *Plan) Together() bool { return p.together }

// Len returns the number of tasks.
func (p *Plan) Len() int { return len(p.tasks) }

// Task returns the task at index i.
func (p *Plan) Task(i int) Task { return p.tasks[i] }

// Order returns the indexes of all tasks, each behind those that it waits for. It is input order, but for tasks
// that need later ones, and for phases.
func (p *Plan) Order() []int {
	order := make([]int, len(p.order))
	for k, i := range p.order {
		order[k] = int(i)
	}
	return order
}

// reduce returns found, tasks that i conflicts with, without those that i waits for anyway: it needs them, or
// another task of found or of its needs waits for them.
func (p *Plan) reduce(found []int32, i int32, marks []int32) []int32 {
	if len(found)+len(p.needs[i]) < 2 {
		return slices.Clone(found)
	}
	mark := i + 1
	work := maxWork * len(found)
	drop := func(all []int32) {
		if work -= len(all); work > 0 {
			for _, on := range all {
				marks[on] = mark
			}
		}
	}
	for _, on := range p.needs[i] {
		marks[on] = mark
	}
	for _, direct := range [...][]int32{found, p.needs[i]} {
		for _, on := range direct {
			drop(p.needs[on])
			drop(p.conflicts[on])
		}
	}
	return slices.Clip(slices.DeleteFunc(slices.Clone(found), func(on int32) bool { return marks[on] == mark }))
}

// maxWork bounds, for each task that was found, how many others reduce looks at. It may keep a wait that follows from
// others.
const maxWork = 32

// Reason says why a task waits for another.
type Reason string

// Reasons.
const (
	Need       Reason = "needs"        // it needs the result
	BothWrite  Reason = "both-write"   // both write what they have in common
	ReadsAfter Reason = "reads-after"  // it reads what the other writes
	WriteAfter Reason = "writes-after" // it writes what the other reads
	Phase      Reason = "phase"        // all that gather information come first
	Undecided  Reason = "undecided"    // there are too many globs to compare them all, so they may touch one path
)

// Wait is one task that another waits for.
type Wait struct {
	On     int // index of the task; -1 for [Phase]: all of the first phase
	Reason Reason
	// Paths are what both touch, 100 at most. None means that it may be anything.
	Paths []string
}

// MaxPaths is how many paths of a wait are named.
const MaxPaths = 100

// Waits returns what the task at index i waits for. What follows from other waits is left out: of many
// writers of one file each waits for the one before it.
func (p *Plan) Waits(i int) []Wait { return p.waits(i, targets.NewBudget(allSteps/10)) }

func (p *Plan) waits(i int, budget *targets.Budget) []Wait {
	var waits []Wait
	for _, on := range p.needs[i] {
		waits = append(waits, Wait{On: int(on), Reason: Need})
	}
	for _, on := range p.conflicts[i] {
		w := Wait{On: int(on), Reason: BothWrite}
		switch {
		case p.tasks[i].Effect == targets.Reads:
			w.Reason = ReadsAfter
		case p.tasks[on].Effect == targets.Reads:
			w.Reason = WriteAfter
		}
		decided := true
		if w.Paths, decided = shared(p.tasks[i], p.tasks[on], budget); !decided {
			w.Reason = Undecided
		}
		waits = append(waits, w)
	}
	slices.SortFunc(waits, func(a, b Wait) int { return int(p.position[a.On]) - int(p.position[b.On]) })
	if p.second != nil && p.second[i] {
		waits = append(waits, Wait{On: -1, Reason: Phase})
	}
	return waits
}

// shared returns what two tasks that are held apart have in common, without the path that is every path. decided
// says that it found something.
func shared(a, b Task, budget *targets.Budget) (paths []string, decided bool) {
	var others targets.Index[struct{}]
	for _, other := range scope(b) {
		others.Add(other, struct{}{})
	}
	var near []targets.Ref
	for _, own := range scope(a) {
		near = others.Near(0, own, near[:0])
		slices.Sort(near)
		for _, ref := range near {
			other, _ := others.At(ref)
			if !budget.Overlap(own, other) || budget.Spent() {
				continue
			}
			decided = true
			if paths = appendShared(paths, own, other, budget); len(paths) >= MaxPaths {
				return paths[:MaxPaths], true
			}
		}
	}
	return paths, decided
}

// appendShared appends to paths what a and b, which overlap, have in common, if that is not every path.
func appendShared(paths []string, a, b targets.Target, budget *targets.Budget) []string {
	shared := []string{a.String(), b.String()}
	switch {
	case budget.Contains(a, b):
		shared = shared[1:]
	case budget.Contains(b, a):
		shared = shared[:1]
	}
	for _, path := range shared {
		if !slices.Contains(paths, path) && path != everything.String() {
			paths = append(paths, path)
		}
	}
	return paths
}

var everything targets.Target

// scope returns what a task may touch.
func scope(t Task) []targets.Target {
	if len(t.Targets) == 0 {
		return []targets.Target{everything}
	}
	return t.Targets
}
