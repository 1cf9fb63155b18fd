package supervisor

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/task"
)

// script is a Launcher that carries out what the texts of tasks stand for. A task
// without one sleeps as the fake does.
type script struct {
	*fake
	parts map[string]func(context.Context, task.Job, Parent) task.Result
}

func (s script) Launch(ctx context.Context, job task.Job, p Parent) task.Result {
	if do := s.parts[job.Text]; do != nil {
		return do(ctx, job, p)
	}
	return s.fake.Launch(ctx, job, p)
}

type parts = map[string]func(context.Context, task.Job, Parent) task.Result

// scripted returns the root of a supervisor whose tasks do as parts say.
func scripted(l task.Limits, p parts) *handle {
	s, f := newTest(l)
	s.cfg.Launcher = script{f, p}
	return root(s, time.Time{})
}

// sleep is time in which nothing happens; false says that it was cut short.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// after is a result for a job that slept, or was to be ended.
func after(ctx context.Context, job task.Job, d time.Duration) task.Result {
	if !sleep(ctx, d) {
		return job.Ended(task.Killed, "told to end")
	}
	return job.Ended(task.Completed, "")
}

// one runs one task and returns its result and how long that took.
func one(t *testing.T, sc *handle, text string) (task.Result, time.Duration) {
	t.Helper()
	results, at := collect(t, sc, Batch{}, text)
	require.Len(t, results, 1)
	return results[0], at[0]
}

func TestIdle(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		do   func(ctx context.Context, job task.Job, p Parent) task.Result
		took time.Duration
		want task.Status
	}{
		"silent": {func(ctx context.Context, job task.Job, _ Parent) task.Result {
			return after(ctx, job, 1000*s)
		}, 305 * s, task.Idle},
		"active": {func(ctx context.Context, job task.Job, p Parent) task.Result {
			for range 3 {
				sleep(ctx, 299*s)
				p.Active()
			}
			return after(ctx, job, 299*s)
		}, 1196 * s, task.Completed},
		"paused": {func(ctx context.Context, job task.Job, p Parent) task.Result {
			sleep(ctx, 100*s)
			p.(*handle).pause(ctx, func() { sleep(ctx, 1000*s) })
			return after(ctx, job, 1000*s)
		}, 1305 * s, task.Idle},
		"queued": {func(ctx context.Context, job task.Job, p Parent) task.Result {
			sleep(ctx, 100*s)
			p.(*handle).queue(func() { sleep(ctx, 1000*s) })
			return after(ctx, job, 1000*s)
		}, 1305 * s, task.Idle},
		"delegates": {func(ctx context.Context, job task.Job, p Parent) task.Result {
			sleep(ctx, 100*s)
			p.Delegate(ctx, []task.Task{{Text: "sleep 250s"}, {Text: "sleep 250s"}, {Text: "sleep 250s"}})
			return after(ctx, job, 1000*s)
		}, 1055 * s, task.Idle},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sc := scripted(task.Limits{MaxParallel: 1, IdleTimeout: 300 * s}, parts{"do": c.do})
				r, took := one(t, sc, "do")
				assert.Equal(t, c.want, r.Status)
				assert.Equal(t, c.took, took)
				if c.want == task.Idle {
					assert.Equal(t, "Sub-agent inactive for 300 seconds", r.Err())
					assert.Equal(t, 124, r.ExitCode)
				}
			})
		})
	}
}

// Who waits for a slot to go on is not idle.
func TestNotIdleInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := scripted(task.Limits{MaxParallel: 1, IdleTimeout: 10 * time.Second}, parts{
			"lead": func(ctx context.Context, job task.Job, p Parent) task.Result {
				p.(*handle).pause(ctx, func() { sleep(ctx, time.Second) })
				return after(ctx, job, 9*time.Second)
			},
			"other": func(ctx context.Context, job task.Job, p Parent) task.Result {
				for range 100 {
					sleep(ctx, time.Second)
					p.Active()
				}
				return job.Ended(task.Completed, "")
			},
		})
		results, at := collect(t, sc, Batch{}, "lead", "other")
		assert.Equal(t, []task.Status{task.Completed, task.Completed}, statuses(results))
		assert.Equal(t, 109*time.Second, at[0])
	})
}

// The agent may say how long it can be silent. What a child does is a sign of
// life of its parent, and the silence of a parent is not that of its child.
func TestIdleOfAnAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var left task.Result
		sc := scripted(task.Limits{MaxParallel: 3}, parts{
			"lead": func(ctx context.Context, job task.Job, p Parent) task.Result {
				c, err := p.Spawn(ctx, task.Task{Text: "lively", Agent: "other"})
				require.NoError(t, err)
				r := after(ctx, job, time.Hour)
				results, err := p.Wait(context.WithoutCancel(ctx), []string{c.ID}, 0)
				require.NoError(t, err)
				left = results[0]
				return r
			},
			"lively": func(ctx context.Context, job task.Job, p Parent) task.Result {
				for range 10 {
					sleep(ctx, 10*time.Second)
					p.Active()
				}
				return after(ctx, job, time.Hour)
			},
		})
		sc.s.agents.Registry = anybody{task.DefaultAgent: {IdleTimeout: 20 * time.Second}}
		r, took := one(t, sc, "lead")
		assert.Equal(t, "Sub-agent inactive for 20 seconds", r.Err())
		assert.Equal(t, 121*time.Second, took)
		assert.Equal(t, task.Cancelled, left.Status)
		assert.Equal(t, "ended with its parent: Sub-agent inactive for 20 seconds", left.Err())
	})
}

// The status is that of the clock that ran out, and of no other.
func TestWhichClock(t *testing.T) {
	ends := map[time.Duration]task.Status{50 * time.Second: task.Idle, 150 * time.Second: task.Timeout}
	for idle, want := range ends {
		synctest.Test(t, func(t *testing.T) {
			s, _ := newTest(task.Limits{MaxParallel: 1, IdleTimeout: idle, ChildTimeout: 100 * time.Second})
			r, _ := one(t, root(s, time.Time{}), "sleep 1000s")
			assert.Equal(t, want, r.Status)
			assert.Equal(t, "partial", r.Output)
		})
	}
}

// Time in the queue for a model is nobody's run time, up to the root.
func TestQueueIsNotRunTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var child task.Result
		sc := scripted(task.Limits{MaxParallel: 2, ChildTimeout: 100 * time.Second}, parts{
			"lead": func(ctx context.Context, job task.Job, p Parent) task.Result {
				assert.Equal(t, 100*time.Second, job.Allowed)
				sleep(ctx, 20*time.Second)
				child = p.Delegate(ctx, []task.Task{{Text: "child"}})[0]
				return after(ctx, job, time.Hour)
			},
			"child": func(ctx context.Context, job task.Job, p Parent) task.Result {
				assert.Equal(t, 75*time.Second, job.Allowed, "80 s are left, of which the parent keeps 5")
				sleep(ctx, 10*time.Second)
				p.(*handle).queue(func() { sleep(ctx, time.Hour) })
				return after(ctx, job, 70*time.Second)
			},
		})
		r, took := one(t, sc, "lead")
		assert.Equal(t, "Child process timed out after 75s", child.Err())
		assert.Equal(t, "Child process timed out after 100s", r.Err())
		assert.Equal(t, time.Hour+100*time.Second, took)
	})
}

// What turns out to have been a wait is given back, but no more than has passed.
func TestGiveBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := scripted(task.Limits{MaxParallel: 2, ChildTimeout: 100 * time.Second}, parts{
			"lead": func(ctx context.Context, job task.Job, p Parent) task.Result {
				sleep(ctx, 20*time.Second)
				p.Delegate(ctx, []task.Task{{Text: "child"}})
				return after(ctx, job, time.Hour)
			},
			"child": func(ctx context.Context, job task.Job, p Parent) task.Result {
				sleep(ctx, 30*time.Second)
				p.(*handle).exec.time.GiveBack(time.Hour)
				return job.Ended(task.Completed, "")
			},
		})
		r, took := one(t, sc, "lead")
		assert.Equal(t, task.Timeout, r.Status)
		assert.Equal(t, 130*time.Second, took, "30 s were given back, not the 20 s before them")
	})
}

// Who goes on beside a child that waited has used that time, and so have those above
// it, although they wait.
func TestOnlyWhoWaitsIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var middle task.Result
		var took time.Duration
		sc := scripted(task.Limits{MaxParallel: 3, MaxDepth: 9, ChildTimeout: 100 * time.Second}, parts{
			"lead": func(ctx context.Context, job task.Job, p Parent) task.Result {
				start := time.Now()
				middle = p.Delegate(ctx, []task.Task{{Text: "middle"}})[0]
				took = time.Since(start)
				return after(ctx, job, time.Hour)
			},
			"middle": func(ctx context.Context, job task.Job, p Parent) task.Result {
				_, err := p.Spawn(ctx, task.Task{Text: "child"})
				assert.NoError(t, err)
				return after(ctx, job, time.Hour)
			},
			"child": func(ctx context.Context, job task.Job, p Parent) task.Result {
				sleep(ctx, 40*time.Second)
				p.(*handle).exec.time.GiveBack(40 * time.Second)
				return job.Ended(task.Completed, "")
			},
		})
		_, all := one(t, sc, "lead")
		assert.Equal(t, task.Timeout, middle.Status)
		assert.Equal(t, 95*time.Second, took)
		assert.Equal(t, 100*time.Second, all)
	})
}

// Five who wait for the same server at the same time give those above them that
// time once.
func TestGivenBackOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := scripted(task.Limits{MaxParallel: 8, MaxDepth: 9, ChildTimeout: 100 * time.Second}, parts{
			"lead": func(ctx context.Context, job task.Job, p Parent) task.Result {
				sleep(ctx, 20*time.Second)
				p.Delegate(ctx, slices.Repeat([]task.Task{{Text: "middle"}}, 2))
				return after(ctx, job, time.Hour)
			},
			"middle": func(ctx context.Context, job task.Job, p Parent) task.Result {
				sleep(ctx, 2*time.Second)
				p.Delegate(ctx, slices.Repeat([]task.Task{{Text: "child"}}, 3))
				return job.Ended(task.Completed, "")
			},
			"child": func(ctx context.Context, job task.Job, p Parent) task.Result {
				for range 2 {
					sleep(ctx, 10*time.Second)
					p.(*handle).exec.time.GiveBack(6 * time.Second)
				}
				return job.Ended(task.Completed, "")
			},
		})
		_, took := one(t, sc, "lead")
		assert.Equal(t, 112*time.Second, took)
	})
}

// The deadline of the root waits for nobody: its children end before it although
// their clocks stand.
func TestDeadlineOfTheRoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := scripted(task.Limits{MaxParallel: 1},
			parts{"do": func(ctx context.Context, job task.Job, p Parent) task.Result {
				assert.Equal(t, time.Now().Add(95*time.Second), job.Deadline)
				p.(*handle).queue(func() { sleep(ctx, time.Hour) })
				return after(ctx, job, time.Hour)
			}})
		sc = root(sc.s, time.Now().Add(100*time.Second))
		r, took := one(t, sc, "do")
		assert.Equal(t, "Child process timed out after 95s", r.Err())
		assert.Equal(t, 95*time.Second, took)
	})
}

// A batch whose context has a deadline gets the results of its tasks before that.
func TestDeadlineOfTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(task.Limits{MaxParallel: 1})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
		defer cancel()
		var texts []string
		err := s.Batch(ctx, Batch{
			Tasks: func(yield func(task.Task, error) bool) { yield(task.Task{Text: "sleep 500s"}, nil) },
			Results: sink{deliver: func(r task.Result) error {
				texts = append(texts, r.Err())
				return ctx.Err()
			}},
		})
		require.NoError(t, err)
		assert.Equal(t, []string{"Child process timed out after 95s"}, texts)
	})
}

// A child says whether it waits.
func TestChildrenWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := scripted(task.Limits{MaxParallel: 4}, parts{
			"ask": func(ctx context.Context, job task.Job, p Parent) task.Result {
				p.(*handle).pause(ctx, func() { sleep(ctx, time.Second) })
				return after(ctx, job, time.Second)
			},
			"queue": func(ctx context.Context, job task.Job, p Parent) task.Result {
				p.(*handle).queue(func() { sleep(ctx, time.Second) })
				return after(ctx, job, time.Second)
			},
		})
		spawn(t, sc, "ask", "queue", "fan sleep 1s", "sleep 2s")
		synctest.Wait()
		assert.Equal(t, []string{"ask: waiting", "queue: waiting", "fan sleep 1s: waiting", "sleep 2s: running"},
			listed(t, sc))
		<-time.After(1500 * time.Millisecond)
		assert.Equal(t, []string{"ask: running", "queue: running", "fan sleep 1s: completed", "sleep 2s: running"},
			listed(t, sc))
		<-time.After(time.Second)
		sc.background.End(task.ErrAbandoned)
	})
}

// Who goes on beside a child that queues uses time as any other; only who waits
// for it does not, and those above only while that is so.
func TestOnlyWhoWaitsIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := scripted(task.Limits{MaxParallel: 3, ChildTimeout: 100 * time.Second}, parts{
			"lead": func(ctx context.Context, job task.Job, p Parent) task.Result {
				_, err := p.Spawn(ctx, task.Task{Text: "child"})
				assert.NoError(t, err)
				sleep(ctx, 30*time.Second)
				_, err = p.Wait(ctx, nil, 500*time.Second) // held: the child does nothing but queue
				assert.NoError(t, err)
				return after(ctx, job, time.Hour)
			},
			"child": func(ctx context.Context, job task.Job, p Parent) task.Result {
				p.(*handle).queue(func() { sleep(ctx, 2*time.Hour) })
				return after(ctx, job, time.Second)
			},
		})
		r, took := one(t, sc, "lead")
		assert.Equal(t, "Child process timed out after 100s", r.Err())
		assert.Equal(t, 600*time.Second, took)
	})
}

// free is how many slots nobody holds.
func free(s *Supervisor) int {
	n, _ := s.slots.Free()
	return n
}
