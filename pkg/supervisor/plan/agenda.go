package plan

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"qq/pkg/task"
)

// Tasks are the tasks of a batch that have not started: an [Agenda] those of a planned batch, a [Stream] those of any
// other one.
type Tasks interface {
	// Next takes the task that comes next. ok is false if none can start now.
	Next() (i int, ok bool)
	// Return puts it back. It did not start.
	Return(i int)
	// Task returns a task that Next takes for the first time.
	Task(i int) task.Task
	// Left reports whether there may be tasks for Next, now or later.
	Left() bool
	// Release lets Next take all tasks that are left. None of them will start.
	Release()
	// Err returns why not all tasks could be read.
	Err() error
	// Needed returns the results that a task needs.
	Needed(i int) []task.Result
	// End says that a task has ended, or is not started. It returns the results of tasks that are skipped because of
	// that.
	End(i int, r task.Result) []task.Result
}

// Open returns the tasks of a batch, to be started as p says, or as they come if p is nil. The caller must call stop
// at last.
func Open(p *Plan, tasks iter.Seq2[task.Task, error]) (open Tasks, stop func(), err error) {
	if p == nil {
		open, stop = Read(tasks)
		return open, stop, nil
	}
	open, err = p.Agenda(tasks)
	return open, func() {}, err
}

// Agenda is a planned batch at work: its tasks that have not started, and the results that they need. Several
// goroutines may use it at once.
type Agenda struct {
	mu      sync.Mutex
	tasks   []item
	queue   *Queue
	gone    []bool              // it ended, or waits no more: see Release
	left    int                 // tasks that are not gone
	first   int                 // after Release: those before it are gone
	open    []int               // how many tasks that are not gone need its result
	results map[int]task.Result // that are still needed
	all     bool                // nobody waits any more
}

// item is a task that has not started, or the name of one that may have.
type item struct {
	task             *task.Task // nil if it was taken
	id, agent, brief string     // of one that was
}

// named returns what names the task in a result.
func (t item) named() task.Task {
	if t.task != nil {
		return *t.task
	}
	return task.Task{ID: t.id, Agent: t.agent, Text: t.brief}
}

// Agenda reads all tasks, to be started as the plan says. They are those that were planned.
func (p *Plan) Agenda(tasks iter.Seq2[task.Task, error]) (*Agenda, error) {
	n := p.Len()
	a := &Agenda{
		queue: p.Queue(), gone: make([]bool, n), left: n, open: make([]int, n), results: map[int]task.Result{},
	}
	for t, err := range tasks {
		if err != nil {
			return nil, err
		}
		a.tasks = append(a.tasks, item{task: &t})
	}
	if len(a.tasks) != n {
		return nil, fmt.Errorf("%d tasks were planned, and %d are there", n, len(a.tasks))
	}
	for _, needs := range p.needs {
		for _, on := range needs {
			a.open[on]++
		}
	}
	return a, nil
}

// Next takes the task that comes next. ok is false if none can start now.
func (a *Agenda) Next() (i int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.all {
		i, ok = a.queue.Next()
	} else {
		for a.first < len(a.gone) && a.gone[a.first] {
			a.first++
		}
		i, ok = a.first, a.first < len(a.gone)
	}
	if ok {
		a.gone[i] = true
		a.left--
	}
	return i, ok
}

// Task returns the task at index i, once: what it has is forgotten, but for its name.
func (a *Agenda) Task(i int) task.Task {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := *a.tasks[i].task
	a.tasks[i] = item{id: t.ID, agent: t.Agent, brief: strings.Clone(t.Brief())}
	return t
}

// Return puts back a task that Next took and that did not start.
func (a *Agenda) Return(i int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gone[i] = false
	a.left++
	a.first = min(a.first, i)
	a.queue.Return(i)
}

// Left reports whether there are tasks for Next, now or later.
func (a *Agenda) Left() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.left > 0
}

// Release ends all waits: from now on Next takes any task, because none will start.
func (a *Agenda) Release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = true
}

// Err returns nil: the tasks have all been read.
func (a *Agenda) Err() error { return nil }

// Needed returns the results that the task at index i needs, in the order in which it names them. After Release some
// may not be there.
func (a *Agenda) Needed(i int) (results []task.Result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, on := range a.queue.plan.needs[i] {
		if r, ok := a.results[int(on)]; ok {
			results = append(results, r)
		}
	}
	return results
}

// End says that the task at index i has ended with r, and all that it started is gone, or that it is not started. It
// returns the results of those that are skipped because of that; after Release there are none. Only the first call for
// a task counts.
func (a *Agenda) End(i int, r task.Result) (skipped []task.Result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.queue.state[i] == ended {
		return nil
	}
	if a.open[i] > 0 {
		id := a.queue.plan.tasks[i].ID
		a.results[i] = task.Result{ID: id, Status: r.Status, Output: r.Output, Structured: r.Structured}
	}
	for _, s := range a.queue.End(i, r.Status == task.Completed) {
		if !a.gone[s.Index] && !a.all {
			a.gone[s.Index] = true
			a.left--
			skip := a.tasks[s.Index].named().Ended(task.Skipped, s.because(r.Status))
			skip.Index = s.Index
			skipped = append(skipped, skip)
		}
		a.collected(s.Index)
	}
	a.collected(i)
	return skipped
}

// collected says that the task at index i needs no results any more.
func (a *Agenda) collected(i int) {
	for _, on := range a.queue.plan.needs[i] {
		if a.open[on]--; a.open[on] == 0 {
			delete(a.results, int(on))
		}
	}
}

// because returns why the task is skipped: the first of the chain ended with that status.
func (s Skip) because(status task.Status) string {
	names := slices.Clone(s.Chain)
	slices.Reverse(names)
	how := "failed"
	switch status {
	case task.Failed:
	case task.Cancelled:
		how = "was cancelled"
	default:
		how = fmt.Sprintf("failed (%s)", status)
	}
	return "needs " + strings.Join(names, ", which needs ") + ", which " + how
}

// Stream is a batch that is not planned: its tasks start in the order in which they are read, and none waits for
// another. Only one goroutine may use it at a time.
type Stream struct {
	next     func() (task.Task, error, bool)
	read     int       // tasks that were read
	last     task.Task // that was read
	returned []int     // tasks that were read and have not started, in order
	err      error
	done     bool
}

// Read returns the tasks of a stream. The caller must call stop at last.
func Read(tasks iter.Seq2[task.Task, error]) (s *Stream, stop func()) {
	s = &Stream{}
	s.next, stop = iter.Pull2(tasks)
	return s, stop
}

// Next takes the task that comes next. ok is false at the end.
func (s *Stream) Next() (i int, ok bool) {
	if len(s.returned) > 0 {
		i = s.returned[0]
		s.returned = s.returned[1:]
		return i, true
	}
	if s.done {
		return 0, false
	}
	t, err, ok := s.next()
	if err != nil || !ok {
		s.done, s.err = true, err
		return 0, false
	}
	s.last = t
	s.read++
	return s.read - 1, true
}

// Return puts back a task that Next took and that did not start.
func (s *Stream) Return(i int) {
	at, _ := slices.BinarySearch(s.returned, i)
	s.returned = slices.Insert(s.returned, at, i)
}

// Task returns the task at index i, if Next has just read it.
func (s *Stream) Task(int) task.Task { return s.last }

// Left reports whether there may be tasks for Next.
func (s *Stream) Left() bool { return len(s.returned) > 0 || !s.done }

// Err returns why the stream has ended early.
func (s *Stream) Err() error { return s.err }

// Release does nothing: no task waits.
func (s *Stream) Release() {}

// Needed returns nil: what a task needs has to be planned.
func (s *Stream) Needed(int) []task.Result { return nil }

// End does nothing: no task waits.
func (s *Stream) End(int, task.Result) []task.Result { return nil }
