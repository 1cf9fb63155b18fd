package supervisor

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qq/pkg/task"
)

func TestClock(t *testing.T) {
	type step = func(*clock)
	const s = time.Second
	pass := func(d time.Duration) step { return func(*clock) { <-time.After(d) } }
	spare := func(d time.Duration) step { return func(c *clock) { c.spare(d) } }
	stand, goOn, anew, end := (*clock).stand, (*clock).goOn, (*clock).anew, (*clock).end
	for name, c := range map[string]struct {
		steps []step
		want  time.Duration // 0 is never
	}{
		"goes":                 {nil, 10 * s},
		"stands":               {[]step{pass(4 * s), stand, pass(100 * s), goOn}, 110 * s},
		"stands for ever":      {[]step{pass(4 * s), stand}, 0},
		"stands twice":         {[]step{stand, stand, pass(60 * s), goOn, pass(60 * s), goOn}, 130 * s},
		"stands in time":       {[]step{pass(10*s - 1), stand, pass(60 * s), goOn}, 70 * s},
		"anew":                 {[]step{pass(9 * s), anew, pass(9 * s), anew}, 28 * s},
		"anew while it stands": {[]step{pass(9 * s), stand, anew, pass(s), goOn}, 20 * s},
		"ends":                 {[]step{pass(s), end}, 0},
		"ends while it stands": {[]step{stand, end, goOn}, 0},
		"spares":               {[]step{pass(9 * s), spare(3 * s)}, 13 * s},
		"spares too much":      {[]step{pass(9 * s), spare(time.Hour)}, 19 * s},
		"spares less than 0":   {[]step{pass(9 * s), spare(-time.Hour)}, 10 * s},
		"spares as it stands":  {[]step{pass(9 * s), stand, pass(s), spare(5 * s), goOn}, 15 * s}, // 4 s of these 5 it went
		"stood meanwhile":      {[]step{pass(4 * s), stand, pass(2 * s), goOn, pass(3 * s), spare(6 * s)}, 16 * s},
		"spares twice":         {[]step{pass(9 * s), spare(3 * s), spare(3 * s)}, 13 * s},
		"spares more of it":    {[]step{pass(9 * s), spare(3 * s), spare(5 * s)}, 15 * s},
		"spares some again":    {[]step{pass(6 * s), spare(3 * s), pass(2 * s), spare(4 * s)}, 15 * s},
		"spares two stretches": {[]step{pass(6 * s), spare(2 * s), pass(s), spare(s), pass(s), spare(8 * s)}, 18 * s},
	} {
		synctest.Test(t, func(t *testing.T) {
			start, after := time.Now(), time.Duration(0)
			clock := newClock(10*s, func() { after += time.Since(start) })
			clock.goOn()
			for _, step := range c.steps {
				step(clock)
			}
			<-time.After(time.Hour)
			synctest.Wait()
			assert.Equal(t, c.want, after, name)
		})
	}
}

// However it goes, stands and is spared, each second counts once or not at all.
func TestClockBySeconds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(-6, 6), 1, 60).Draw(rt, "steps")
		synctest.Test(t, func(t *testing.T) {
			c := newClock(0, nil)
			c.goOn()
			var counts []bool // each second since the beginning
			for _, n := range steps {
				switch {
				case n > 0: // n seconds pass
					<-time.After(time.Duration(n) * time.Second)
					counts = append(counts, slices.Repeat([]bool{!c.stands()}, n)...)
				case n == 0 && c.stands():
					c.goOn()
				case n == 0:
					c.stand()
				default: // the last -2n seconds are given back
					spared := min(-2*n, len(counts))
					assert.Equal(rt, time.Duration(spared)*time.Second, c.spare(time.Duration(-2*n)*time.Second))
					clear(counts[len(counts)-spared:])
				}
				used := 0
				for _, yes := range counts {
					if yes {
						used++
					}
				}
				left, _ := c.left()
				assert.Equal(rt, -time.Duration(used)*time.Second, left)
			}
		})
	})
}

func TestClockWithoutBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock(0, func() { assert.Fail(t, "it has no end") })
		assert.True(t, c.stands())
		c.goOn()
		<-time.After(time.Hour)
		assert.False(t, c.stands())
		assert.Equal(t, time.Minute, c.spare(time.Minute))
		c.stand()
		c.goOn()
		left, bounded := c.left()
		assert.False(t, bounded)
		assert.Equal(t, -59*time.Minute, left)
	})
}

// script is a Launcher that carries out what the texts of tasks stand for. A task
// without one sleeps as the fake does.
type script struct {
	*fake
	parts map[string]func(context.Context, task.Job) task.Result
}

func (s script) Launch(ctx context.Context, job task.Job) task.Result {
	if do := s.parts[job.Text]; do != nil {
		return do(ctx, job)
	}
	return s.fake.Launch(ctx, job)
}

type parts = map[string]func(context.Context, task.Job) task.Result

// scripted returns the root of a supervisor whose tasks do as parts say.
func scripted(l task.Limits, p parts) *Scope {
	s, f := newTest(l)
	s.cfg.Launcher = script{f, p}
	return s.Root("", 0, time.Time{})
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
func one(t *testing.T, sc *Scope, text string) (task.Result, time.Duration) {
	t.Helper()
	results, at := collect(t, sc, Batch{}, text)
	require.Len(t, results, 1)
	return results[0], at[0]
}

func TestIdle(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		do   func(ctx context.Context, job task.Job) task.Result
		took time.Duration
		want task.Status
	}{
		"silent": {func(ctx context.Context, job task.Job) task.Result {
			return after(ctx, job, 1000*s)
		}, 305 * s, task.Idle},
		"active": {func(ctx context.Context, job task.Job) task.Result {
			for range 3 {
				sleep(ctx, 299*s)
				job.Active()
			}
			return after(ctx, job, 299*s)
		}, 1196 * s, task.Completed},
		"paused": {func(ctx context.Context, job task.Job) task.Result {
			sleep(ctx, 100*s)
			job.Pause(ctx, func() { sleep(ctx, 1000*s) })
			return after(ctx, job, 1000*s)
		}, 1305 * s, task.Idle},
		"queued": {func(ctx context.Context, job task.Job) task.Result {
			sleep(ctx, 100*s)
			job.Queue(func() { sleep(ctx, 1000*s) })
			return after(ctx, job, 1000*s)
		}, 1305 * s, task.Idle},
		"delegates": {func(ctx context.Context, job task.Job) task.Result {
			sleep(ctx, 100*s)
			job.Delegate(ctx, []task.Task{{Text: "sleep 250s"}, {Text: "sleep 250s"}, {Text: "sleep 250s"}})
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
			"lead": func(ctx context.Context, job task.Job) task.Result {
				job.Pause(ctx, func() { sleep(ctx, time.Second) })
				return after(ctx, job, 9*time.Second)
			},
			"other": func(ctx context.Context, job task.Job) task.Result {
				for range 100 {
					sleep(ctx, time.Second)
					job.Active()
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
			"lead": func(ctx context.Context, job task.Job) task.Result {
				c, err := job.Family.Spawn(ctx, task.Task{Text: "lively"})
				require.NoError(t, err)
				r := after(ctx, job, time.Hour)
				results, err := job.Family.Wait(context.WithoutCancel(ctx), []string{c.ID}, 0)
				require.NoError(t, err)
				left = results[0]
				return r
			},
			"lively": func(ctx context.Context, job task.Job) task.Result {
				for range 10 {
					sleep(ctx, 10*time.Second)
					job.Active()
				}
				return after(ctx, job, time.Hour)
			},
		})
		sc.s.cfg.Idle = func(job task.Job) time.Duration {
			return map[string]time.Duration{"lead": 20 * time.Second}[job.Text]
		}
		r, took := one(t, sc, "lead")
		assert.Equal(t, "Sub-agent inactive for 20 seconds", r.Err())
		assert.Equal(t, 121*time.Second, took)
		assert.Equal(t, task.Cancelled, left.Status)
		assert.Equal(t, "ended with its parent: Sub-agent inactive for 20 seconds", left.Err())
	})
}

// The status is that of the clock that ran out, and of no other.
func TestWhichClock(t *testing.T) {
	for idle, want := range map[time.Duration]task.Status{50 * time.Second: task.Idle, 150 * time.Second: task.Timeout} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := newTest(task.Limits{MaxParallel: 1, IdleTimeout: idle, ChildTimeout: 100 * time.Second})
			r, _ := one(t, s.Root("", 0, time.Time{}), "sleep 1000s")
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
			"lead": func(ctx context.Context, job task.Job) task.Result {
				assert.Equal(t, 100*time.Second, job.Allowed)
				sleep(ctx, 20*time.Second)
				child = job.Delegate(ctx, []task.Task{{Text: "child"}})[0]
				return after(ctx, job, time.Hour)
			},
			"child": func(ctx context.Context, job task.Job) task.Result {
				assert.Equal(t, 75*time.Second, job.Allowed, "80 s are left, of which the parent keeps 5")
				sleep(ctx, 10*time.Second)
				job.Queue(func() { sleep(ctx, time.Hour) })
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
func TestSpare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := scripted(task.Limits{MaxParallel: 2, ChildTimeout: 100 * time.Second}, parts{
			"lead": func(ctx context.Context, job task.Job) task.Result {
				sleep(ctx, 20*time.Second)
				job.Delegate(ctx, []task.Task{{Text: "child"}})
				return after(ctx, job, time.Hour)
			},
			"child": func(ctx context.Context, job task.Job) task.Result {
				sleep(ctx, 30*time.Second)
				job.Spare(time.Hour)
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
func TestOnlyWhoWaitsIsSpared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var middle task.Result
		var took time.Duration
		sc := scripted(task.Limits{MaxParallel: 3, MaxDepth: 9, ChildTimeout: 100 * time.Second}, parts{
			"lead": func(ctx context.Context, job task.Job) task.Result {
				start := time.Now()
				middle = job.Delegate(ctx, []task.Task{{Text: "middle"}})[0]
				took = time.Since(start)
				return after(ctx, job, time.Hour)
			},
			"middle": func(ctx context.Context, job task.Job) task.Result {
				_, err := job.Family.Spawn(ctx, task.Task{Text: "child"})
				assert.NoError(t, err)
				return after(ctx, job, time.Hour)
			},
			"child": func(ctx context.Context, job task.Job) task.Result {
				sleep(ctx, 40*time.Second)
				job.Spare(40 * time.Second)
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
func TestSparedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := scripted(task.Limits{MaxParallel: 8, MaxDepth: 9, ChildTimeout: 100 * time.Second}, parts{
			"lead": func(ctx context.Context, job task.Job) task.Result {
				sleep(ctx, 20*time.Second)
				job.Delegate(ctx, slices.Repeat([]task.Task{{Text: "middle"}}, 2))
				return after(ctx, job, time.Hour)
			},
			"middle": func(ctx context.Context, job task.Job) task.Result {
				sleep(ctx, 2*time.Second)
				job.Delegate(ctx, slices.Repeat([]task.Task{{Text: "child"}}, 3))
				return job.Ended(task.Completed, "")
			},
			"child": func(ctx context.Context, job task.Job) task.Result {
				for range 2 {
					sleep(ctx, 10*time.Second)
					job.Spare(6 * time.Second)
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
		sc := scripted(task.Limits{MaxParallel: 1}, parts{"do": func(ctx context.Context, job task.Job) task.Result {
			assert.Equal(t, time.Now().Add(95*time.Second), job.Deadline)
			job.Queue(func() { sleep(ctx, time.Hour) })
			return after(ctx, job, time.Hour)
		}})
		sc = sc.s.Root("", 0, time.Now().Add(100*time.Second))
		r, took := one(t, sc, "do")
		assert.Equal(t, "Child process timed out after 95s", r.Err())
		assert.Equal(t, 95*time.Second, took)
	})
}

// A child says whether it waits.
func TestChildrenWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := scripted(task.Limits{MaxParallel: 4}, parts{
			"ask": func(ctx context.Context, job task.Job) task.Result {
				job.Pause(ctx, func() { sleep(ctx, time.Second) })
				return after(ctx, job, time.Second)
			},
			"queue": func(ctx context.Context, job task.Job) task.Result {
				job.Queue(func() { sleep(ctx, time.Second) })
				return after(ctx, job, time.Second)
			},
		})
		spawn(t, sc, "ask", "queue", "fan sleep 1s", "sleep 2s")
		synctest.Wait()
		assert.Equal(t, []string{"ask: waiting", "queue: waiting", "fan sleep 1s: waiting", "sleep 2s: running"}, kin(t, sc))
		<-time.After(1500 * time.Millisecond)
		assert.Equal(t, []string{"ask: running", "queue: running", "fan sleep 1s: completed", "sleep 2s: running"}, kin(t, sc))
		<-time.After(time.Second)
		sc.End()
	})
}

// Who goes on beside a child that queues uses time as any other; only who waits
// for it does not, and those above only while that is so.
func TestOnlyWhoWaitsIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := scripted(task.Limits{MaxParallel: 3, ChildTimeout: 100 * time.Second}, parts{
			"lead": func(ctx context.Context, job task.Job) task.Result {
				_, err := job.Family.Spawn(ctx, task.Task{Text: "child"})
				assert.NoError(t, err)
				sleep(ctx, 30*time.Second)
				_, err = job.Family.Wait(ctx, nil, 500*time.Second) // held: the child does nothing but queue
				assert.NoError(t, err)
				return after(ctx, job, time.Hour)
			},
			"child": func(ctx context.Context, job task.Job) task.Result {
				job.Queue(func() { sleep(ctx, 2*time.Hour) })
				return after(ctx, job, time.Second)
			},
		})
		r, took := one(t, sc, "lead")
		assert.Equal(t, "Child process timed out after 100s", r.Err())
		assert.Equal(t, 600*time.Second, took)
	})
}
