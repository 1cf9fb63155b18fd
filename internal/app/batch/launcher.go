package batch

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

// NewLauncher returns a Launcher that launches with another one.
func NewLauncher(with supervisor.Stager) *Launcher { return &Launcher{with: with} }

// Launch implements supervisor.Launcher.
func (l *Launcher) Launch(ctx context.Context, job task.Job, p supervisor.Parent) task.Result {
	return l.slots.launch(ctx, l.with, job, p)
}

// Stage implements supervisor.Stager.
func (l *Launcher) Stage(job task.Job) supervisor.Staged {
	if job.Broken != "" {
		return nil
	}
	staged := l.with.Stage(job)
	if staged == nil || len(job.Slots) == 0 {
		return staged
	}
	return stagedTask{staged, &l.slots}
}

// stagedTask is a task with {%} that waits for its slot.
type stagedTask struct {
	supervisor.Staged
	slots *slots
}

// Launch implements supervisor.Launcher.
func (s stagedTask) Launch(ctx context.Context, job task.Job, p supervisor.Parent) task.Result {
	return s.slots.launch(ctx, s.Staged, job, p)
}

// slots are the numbers that running tasks have for {%}.
type slots struct {
	mu    sync.Mutex
	taken []bool // that of number n has index n-1
}

func (s *slots) launch(ctx context.Context, l supervisor.Launcher, job task.Job, p supervisor.Parent) task.Result {
	switch {
	case job.Broken != "":
		return job.Ended(task.Failed, job.Broken)
	case len(job.Slots) > 0:
		n := s.take()
		defer s.free(n)
		job.Text = fillSlots(job.Text, job.Slots, n)
		job.Slots = nil
	}
	return l.Launch(ctx, job, p)
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
