package supervisor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/llm"
	"qq/pkg/task"
)

// awayGate is a gate of servers of which one keeps its requests waiting until back. Its tasks have the word away.
type awayGate struct {
	gate
	back time.Time
}

func newAwayGate(d time.Duration) awayGate {
	return awayGate{func(task.Task) error { return nil }, time.Now().Add(d)}
}

func (g awayGate) Ready(t task.Task) time.Duration {
	if !strings.Contains(t.Text, "away") {
		return 0
	}
	return max(time.Until(g.back), 0)
}

func (g awayGate) Enter(ctx context.Context, model string, _ bool, _ Waiter) (llm.Permit, error) {
	if model == "away" && !sleep(ctx, time.Until(g.back)) {
		return nil, context.Cause(ctx)
	}
	return &permit{Permit: freePermit{}}, nil
}

// serverTasks is a launcher whose tasks ask the model that they name and then take a second. It notes when they began.
type serverTasks struct {
	*launcher
	began map[string]time.Duration
	start time.Time
}

func newServerTasks() *serverTasks {
	return &serverTasks{launcher: &launcher{}, began: map[string]time.Duration{}, start: time.Now()}
}

func (l *serverTasks) Launch(ctx context.Context, job task.Job, p Parent) task.Result {
	l.mu.Lock()
	l.began[job.Text] = time.Since(l.start)
	l.mu.Unlock()
	if _, err := p.Enter(ctx, strings.Fields(job.Text)[0], false); err != nil {
		return job.Fail(err)
	}
	if !sleep(ctx, time.Second) {
		return job.Fail(context.Cause(ctx))
	}
	return job.Ended(task.Completed, "")
}

// TestTasksOfOtherServersGoOn: while a server keeps its requests waiting, its tasks are not started and those of others
// are, as fast as without it.
func TestTasksOfOtherServersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newServerTasks()
		h := newHarness(func(c *Config) { c.Gate, c.Launcher = newAwayGate(time.Minute), l })
		var tasks []task.Task
		for i := range 6 {
			tasks = append(tasks, task.Task{Text: fmt.Sprint("away ", i)}, task.Task{Text: fmt.Sprint("here ", i)})
		}
		results := h.batch(t, tasks...)
		for i, r := range results {
			assert.Equal(t, i, r.Index)
			assert.True(t, r.Success)
			if i%2 == 1 {
				assert.Equal(t, time.Duration(i/4)*time.Second, l.began[tasks[i].Text], "two at a time")
			} else {
				assert.Equal(t, time.Minute+time.Duration(i/4)*time.Second, l.began[tasks[i].Text])
			}
		}
	})
}

// TestPassedOverTasksAreCancelled: a task that was passed over is ended like one that waits for its slot.
func TestPassedOverTasksAreCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newServerTasks()
		h := newHarness(func(c *Config) { c.Gate, c.Launcher = newAwayGate(time.Hour), l })
		stop := make(chan struct{})
		time.AfterFunc(5*time.Second, func() {
			queued := h.Jobs()
			require.Len(t, queued, 2)
			assert.True(t, h.Cancel(queued[1].ExecutionID), "by a person")
		})
		time.AfterFunc(10*time.Second, func() { close(stop) })
		var results []task.Result
		start := time.Now()
		require.NoError(t, h.Batch(t.Context(), Batch{
			Tasks: Tasks(task.Task{Text: "away 1"}, task.Task{Text: "away 2"}, task.Task{Text: "here"}), Stop: stop,
			Results: sink{deliver: func(r task.Result) error { results = append(results, r); return nil }},
		}))
		assert.Equal(t, 10*time.Second, time.Since(start))
		assert.Equal(t, []string{"default cancelled not started: stopped",
			"default cancelled Sub-agent cancelled by user.", "default completed"}, brief(results))
	})
}

// TestManyPassedOver: only so many tasks are passed over, and no more are read.
func TestManyPassedOver(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector itself crashes with so many goroutines of a bubble: https://go.dev/issue/78156")
	}
	synctest.Test(t, func(t *testing.T) {
		l := newServerTasks()
		h := newHarness(func(c *Config) {
			c.Gate, c.Launcher, c.Limits.MaxParallel = newAwayGate(time.Minute), l, maxPassed
		})
		var tasks []task.Task
		for i := range maxPassed {
			tasks = append(tasks, task.Task{Text: fmt.Sprint("away ", i)})
		}
		tasks = append(tasks, task.Task{Text: "here"})
		h.batch(t, tasks...)
		assert.Equal(t, time.Minute, l.began["away 999"])
		assert.GreaterOrEqual(t, l.began["here"], time.Minute)
	})
}

// TestSlotIsLentWhileServerIsAway: a job that waits for its server lends its slot to those of others, and has it again
// at once.
func TestSlotIsLentWhileServerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newServerTasks()
		g := newAwayGate(10 * time.Second)
		h := newHarness(func(c *Config) { c.Launcher, c.Limits.MaxParallel = l, 1 })
		h.cfg.Gate = lateGate{g, time.Now().Add(time.Second)}
		start := time.Now()
		results := h.batch(t, task.Task{Text: "away"}, task.Task{Text: "here 1"}, task.Task{Text: "here 2"})
		assert.Equal(t, []string{"default completed", "default completed", "default completed"}, brief(results))
		assert.Equal(t, 11*time.Second, time.Since(start))
		assert.Less(t, l.began["here 1"], 2*time.Second)
		assert.Less(t, l.began["here 2"], 3*time.Second)
	})
}

// lateGate is an awayGate of which it is not known before the time late that the server is away.
type lateGate struct {
	awayGate
	late time.Time
}

func (g lateGate) Ready(t task.Task) time.Duration {
	if time.Now().Before(g.late) {
		return 0
	}
	return g.awayGate.Ready(t)
}

// TestTasksAreNotBurned: a quota that is used up ends no task for good. Those that were not started say so, and one
// that ended because of it counts as cancelled.
func TestTasksAreNotBurned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := error(&llm.Error{Kind: llm.Quota, Problem: "no more"})
		var used atomic.Pointer[error]
		h := newHarness(func(c *Config) {
			c.Limits.MaxParallel, c.Limits.Retries = 1, 5
			c.Gate = gate(func(task.Task) error {
				if err := used.Load(); err != nil {
					return *err
				}
				return nil
			})
		})
		h.launcher.does["first"] = func(_ context.Context, job task.Job, _ Parent) task.Result {
			used.Store(&over)
			return job.Fail(over)
		}
		h.launcher.does["broken"] = func(_ context.Context, job task.Job, _ Parent) task.Result {
			return job.Fail(errors.New("by itself"))
		}
		results := h.batch(t, task.Task{Text: "broken"}, task.Task{Text: "first"}, task.Task{Text: "second"})
		assert.Equal(t, []string{"default failed by itself", "default cancelled no more",
			"default cancelled not started: no more"}, brief(results))
		assert.Equal(t, []int{1, 1, 0}, []int{results[0].Attempts, results[1].Attempts, results[2].Attempts})
	})
}

// TestSlotIsLentWhileServerIsSilent: a job whose request is under way lends its slot while its server hangs.
func TestSlotIsLentWhileServerIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, first := range []bool{false, true} {
			l := newServerTasks()
			g := newAwayGate(time.Minute)
			h := newHarness(func(c *Config) { c.Launcher, c.Limits.MaxParallel = l, 1 })
			h.cfg.Gate = passing{lateGate{g, time.Now().Add(time.Second)}}
			silent := func(ctx context.Context, job task.Job, p Parent) task.Result {
				permit := p.(*handle).First()
				if !first {
					permit.Leave(llm.Report{})
					var err error
					permit, err = p.Enter(ctx, "here", false)
					require.NoError(t, err)
				}
				sleep(ctx, 30*time.Second)
				assert.False(t, p.(*handle).exec.loan.Held())
				permit.Active()
				assert.True(t, p.(*handle).exec.loan.Held())
				sleep(ctx, 10*time.Second)
				permit.Leave(llm.Report{})
				return job.Ended(task.Completed, "")
			}
			h.launcher.does["away"] = silent
			h.cfg.Launcher = either{h.launcher, l}
			start := time.Now()
			results := h.batch(t, task.Task{Text: "away"}, task.Task{Text: "here 1"}, task.Task{Text: "here 2"})
			assert.Equal(t, []string{"default completed", "default completed", "default completed"}, brief(results))
			assert.Equal(t, 40*time.Second, time.Since(start))
			assert.Less(t, l.began["here 2"], 4*time.Second)
		}
	})
}

// passing is a lateGate that lets the first request of each task pass.
type passing struct{ lateGate }

func (passing) First(task.Task, Waiter) llm.Permit { return &permit{Permit: freePermit{}} }

// either launches with a if it knows the task, else with b.
type either struct {
	a *launcher
	b Launcher
}

func (e either) Launch(ctx context.Context, job task.Job, p Parent) task.Result {
	if e.a.does[job.Text] != nil {
		return e.a.Launch(ctx, job, p)
	}
	return e.b.Launch(ctx, job, p)
}
