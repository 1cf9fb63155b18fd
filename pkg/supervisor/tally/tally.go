// Package tally counts the tasks that one agent hands on: how many are to run at once, and how many
// of them have ended. It is for those who watch the agent; nothing is decided by it. It also writes the log of children
// that people read.
package tally

import "sync"

// Tally counts the tasks of one agent. The zero value has counted none. Several goroutines may call
// its methods at once.
type Tally struct {
	mu    sync.Mutex
	parts bool // the tasks are parts of a document
	open  int
	done  int
	total int

	announced bool     // by the agent
	tasks     []string // that it has announced: the first ones
	said      bool     // Parallel has returned them
	logging   sync.Mutex
}

// Logger is a log of agents that run tasks in parallel.
type Logger interface {
	// Dispatched says that the agent id runs n tasks in parallel. tasks has a line for each of the first.
	Dispatched(id string, n int, tasks []string)
}

// Log writes to l what Parallel returns for the tasks in lines. No task of several that were announced
// together goes on before that is written.
func (t *Tally) Log(l Logger, id string, lines []string) {
	t.logging.Lock()
	defer t.logging.Unlock()
	if n, tasks, ok := t.Parallel(lines); ok {
		l.Dispatched(id, n, tasks)
	}
}

// Announce says that the agent is about to hand on total tasks, parts of a document or others, or
// that it does something else: then total is 0. tasks has a line for each of the first. What was
// counted before does not count any more.
func (t *Tally) Announce(parts bool, total int, tasks []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.parts, t.done, t.total = parts, 0, total
	t.announced, t.tasks, t.said = total > 0 && !parts, tasks, false
}

// Begin says that n tasks begin. They are among those that were announced, if any were.
func (t *Tally) Begin(parts bool, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.parts != parts || t.open == 0 && t.done >= t.total {
		t.parts, t.done, t.total = parts, 0, 0
	}
	t.open += n
	t.total = max(t.total, t.done+t.open)
}

// End says that a task has ended. It returns how many have.
func (t *Tally) End() (parts bool, done, total int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open--
	t.done++
	t.total = max(t.total, t.done)
	return t.parts, t.done, t.total
}

// Parallel returns how many tasks run in parallel when those in lines begin, with a line for each of
// the first. Of tasks that the agent has announced together, only the first call returns true. It
// returns false too if a task runs alone.
func (t *Tally) Parallel(lines []string) (n int, tasks []string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.announced {
		return len(lines), lines, len(lines) > 1
	}
	if tasks = t.tasks; len(tasks) == 0 {
		tasks = lines
	}
	ok = !t.said && t.total > 1
	t.said = true
	return t.total, tasks, ok
}
