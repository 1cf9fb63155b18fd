package supervisor

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"qq/pkg/agents"
	"qq/pkg/supervisor/limits"
	"qq/pkg/task"
)

// stager is a launcher that gets ready ahead of time. What it got ready and was
// neither launched nor discarded stays in open.
type stager struct {
	*launcher
	staged []string
	open   atomic.Int64
	broken bool // it cannot get ready
}

type ready struct{ s *stager }

func (s *stager) Stage(job task.Job) Staged {
	if s.broken {
		return nil
	}
	s.staged = append(s.staged, job.Text)
	s.open.Add(1)
	return ready{s}
}

func (r ready) Launch(ctx context.Context, job task.Job, p Parent) task.Result {
	r.s.open.Add(-1)
	return r.s.launcher.Launch(ctx, job, p)
}

func (r ready) Discard() { r.s.open.Add(-1) }

// newStaging is a harness with one slot whose launcher gets ready.
func newStaging() (*harness, *stager) {
	s := &stager{}
	h := newHarness(func(c *Config) {
		c.Limits.MaxParallel = 1
		s.launcher = c.Launcher.(*launcher)
		c.Launcher = s
	})
	s.does["slow"] = func(_ context.Context, job task.Job, _ Parent) task.Result {
		time.Sleep(time.Second)
		return job.Ended(task.Completed, "")
	}
	return h, s
}

// A job that was staged is under the same rules as any other.
func TestStagedIsChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newStaging()
		s.does["lead"] = delegating(task.Task{Text: "a", Agent: "explorer"}, task.Task{Text: "b", Agent: "coder"})
		results := h.batch(t, task.Task{Text: "slow"}, task.Task{Text: "lead", Agent: "RESEARCHER"})
		assert.Equal(t, []string{"default completed",
			"researcher completed explorer completed did a; " +
				"coder usage researcher may not delegate to coder (allowed: Explorer, summarizer)"}, brief(results))
		assert.True(t, slices.Contains(s.staged, "lead"))
		assert.Zero(t, s.open.Load())
	})
}

// Nothing is got ready for an agent that there is not, for nobody would make use
// of it.
func TestStageUnknownAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newStaging()
		results := h.batch(t, task.Task{Text: "slow"}, task.Task{Text: "x", Agent: "nobody"})
		assert.Equal(t, task.Misused, results[1].Status)
		assert.Empty(t, s.staged)
	})
}

func TestStageDiscarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newStaging()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, cancel)
		h.Delegate(ctx, agents.Agent{Name: "coder"}, []task.Task{{Text: "slow"}, {Text: "slow"}})
		assert.Equal(t, []string{"slow"}, s.staged)
		assert.Zero(t, s.open.Load())
	})
}

func TestStageCannot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newStaging()
		s.broken = true
		assert.Equal(t, []string{"default completed", "default completed did x"},
			brief(h.batch(t, task.Task{Text: "slow"}, task.Task{Text: "x"})))
		assert.Equal(t, []string{"slow", "x"}, s.texts())
	})
}

// As many are got ready as there are slots, and a batch that is cancelled discards
// them all.
func TestStageForEachSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newStaging()
		h.slots, h.lead = limits.NewSlots(2), 2
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, func() {
			assert.EqualValues(t, 2, s.open.Load())
			cancel()
		})
		slow := task.Task{Text: "slow"}
		h.Delegate(ctx, agents.Agent{Name: "coder"}, []task.Task{slow, slow, slow, slow, slow})
		assert.Len(t, s.staged, 2)
		assert.Zero(t, s.open.Load())
		assert.Zero(t, h.staging.Load())
	})
}
