// Package launcher launches the tasks of a batch: those with a {%} get their number, and those that cannot be run end
// without a process.
package launcher

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// Launcher launches tasks. It fills in each {%} of a task of a batch, and ends a task that cannot be run
// ([task.Task.Broken]) without a process.
type Launcher struct {
	with  supervisor.Stager
	slots slots
}

// reader is a supervisor.Parent that shows people the text of a task.
type reader interface {
	// Given says which text the agent works on, before it starts.
	Given(text string)
}

// New returns a Launcher that launches with another one.
func New(with supervisor.Stager) *Launcher { return &Launcher{with: with} }

// Launch implements supervisor.Launcher.
func (l *Launcher) Launch(ctx context.Context, job task.Job, p supervisor.Parent) task.Result {
	switch {
	case job.Broken != "":
		return job.Ended(task.Failed, job.Broken)
	case len(job.Slots) > 0:
		n := l.slots.take()
		defer l.slots.free(n)
		job.Text = fillSlots(job.Text, job.Slots, n)
		if r, ok := p.(reader); ok {
			r.Given(job.Text)
		}
	}
	return l.with.Launch(ctx, job, p)
}

// Stage implements supervisor.Stager. A process that is staged has its text already, so a task whose text depends on
// its slot is not staged.
func (l *Launcher) Stage(job task.Job) supervisor.Staged {
	if job.Broken != "" || len(job.Slots) > 0 {
		return nil
	}
	return l.with.Stage(job)
}

// slots are the numbers that running tasks have for {%}.
type slots struct {
	mu    sync.Mutex
	taken []bool // that of number n has index n-1
}

// take returns the lowest number that no other running task has. The numbers count from 1.
func (s *slots) take() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.taken, false)
	if i < 0 {
		i = len(s.taken)
		s.taken = append(s.taken, true)
	}
	s.taken[i] = true
	return i + 1
}

func (s *slots) free(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[n-1] = false
}

// fillSlots replaces the {%} at each of the offsets by the number n.
func fillSlots(text string, offsets []int, n int) string {
	const mark = "{%}"
	var b strings.Builder
	last := 0
	for _, at := range offsets {
		b.WriteString(text[last:at] + strconv.Itoa(n))
		last = at + len(mark)
	}
	return b.String() + text[last:]
}
