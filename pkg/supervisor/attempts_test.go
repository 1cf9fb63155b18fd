package supervisor

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/supervisor/halt"
	"qq/pkg/supervisor/limits"
	"qq/pkg/supervisor/order"
	"qq/pkg/task"
)

// dying returns a part that dies in its first attempts as each of deaths says,
// after a second, and then completes. It notes the numbers of its attempts.
func dying(seen *[]int, deaths ...task.Result) func(context.Context, task.Job, Parent) task.Result {
	return func(ctx context.Context, job task.Job, _ Parent) task.Result {
		*seen = append(*seen, job.Attempt)
		sleep(ctx, time.Second)
		r := job.Ended(task.Completed, "")
		if n := job.Attempt - 1; n < len(deaths) {
			r = deaths[n]
			r.End(r.Status, "died")
		}
		return r
	}
}

// killed is how an attempt died.
func killed(effects bool) task.Result { return task.Result{Status: task.Killed, Effects: effects} }

func TestAttempts(t *testing.T) {
	const died = "died; it may have had side effects, so it was not repeated\n" +
		"hint: mark the task idempotent if doing it twice does no harm"
	const last = "died; it may have had side effects\nhint: look what it has done before you do it again"
	silent := task.Result{Status: task.NoResult}
	for name, c := range map[string]struct {
		retries    int
		idempotent bool
		deaths     []task.Result
		attempts   int
		want       task.Status
		text       string
	}{
		"lives":      {2, false, nil, 1, task.Completed, ""},
		"dies once":  {2, false, []task.Result{killed(false)}, 2, task.Completed, ""},
		"dies twice": {2, false, []task.Result{silent, killed(false)}, 3, task.Completed, ""},
		"dies three times": {
			2, false, []task.Result{killed(false), killed(false), silent}, 3, task.NoResult, "died",
		},
		"never again":          {0, false, []task.Result{killed(false)}, 1, task.Killed, "died"},
		"effects":              {2, false, []task.Result{killed(true)}, 1, task.UnknownOutcome, died},
		"effects later":        {2, false, []task.Result{killed(false), killed(true)}, 2, task.UnknownOutcome, died},
		"effects in the end":   {1, false, []task.Result{killed(false), killed(true)}, 2, task.UnknownOutcome, last},
		"effects, no repeats":  {0, false, []task.Result{killed(true)}, 1, task.UnknownOutcome, last},
		"no harm in the end":   {1, true, []task.Result{killed(true), killed(true)}, 2, task.Killed, "died"},
		"effects, but failed":  {0, false, []task.Result{{Status: task.Failed, Effects: true}}, 1, task.Failed, "died"},
		"effects do no harm":   {2, true, []task.Result{killed(true), killed(false)}, 3, task.Completed, ""},
		"fails":                {2, true, []task.Result{{Status: task.Failed}}, 1, task.Failed, "died"},
		"server not there":     {2, true, []task.Result{{Status: task.Unavailable}}, 1, task.Unavailable, "died"},
		"requests are counted": {2, true, []task.Result{{Status: task.Killed, Attempts: 4}}, 5, task.Completed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen []int
				sc := scripted(task.Limits{MaxParallel: 1, Retries: c.retries}, parts{"do": dying(&seen, c.deaths...)})
				r := sc.Delegate(t.Context(), []task.Task{{Text: "do", Idempotent: c.idempotent}})[0]
				assert.Equal(t, c.want, r.Status)
				assert.Equal(t, c.text, r.Err())
				assert.Equal(t, c.attempts, r.Attempts)
				for i, n := range seen {
					assert.Equal(t, i+1, n)
				}
			})
		})
	}
}

// TestUnavailable: a batch waits for its server, as long as there is any use in it.
func TestUnavailable(t *testing.T) {
	gone := task.Result{Status: task.Unavailable}
	for name, c := range map[string]struct {
		retries int
		deaths  []task.Result
		useless int // from which attempt on
		want    task.Status
		starts  int
	}{
		"it comes back":     {2, []task.Result{gone, gone}, 9, task.Completed, 3},
		"it does not":       {1, []task.Result{gone, gone, gone}, 9, task.Unavailable, 2},
		"it is given up":    {2, []task.Result{gone, gone}, 1, task.Unavailable, 1},
		"in the midst":      {2, []task.Result{{Status: task.Unavailable, Effects: true}}, 9, task.Unavailable, 1},
		"a failure is none": {2, []task.Result{{Status: task.Failed}}, 9, task.Failed, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			var seen []int
			sc := scripted(task.Limits{MaxParallel: 1, Retries: c.retries}, parts{"do": dying(&seen, c.deaths...)})
			sc.s.cfg.Gate = gate(func(task.Task) error {
				if len(seen) < c.useless {
					return nil
				}
				return errors.New("given up")
			})
			results, _ := collect(t, sc, Batch{}, "do")
			assert.Equal(t, c.want, results[0].Status, name)
			assert.Len(t, seen, c.starts, name)
			if c.want == task.Unavailable {
				assert.Equal(t, "died", results[0].Err(), "what happened to it")
			}
		})
	}
}

// TestHindered: a fault of the machine is waited out, and is no attempt. When it lasts, the batch ends:
// the tasks had no chance. It is no failure that halts the batch.
func TestHindered(t *testing.T) {
	for name, c := range map[string]struct {
		faults  int // how often the machine hinders each task
		wait    time.Duration
		want    []task.Status
		atMost  time.Duration
		atLeast time.Duration
	}{
		"it passes": {5, time.Minute, []task.Status{task.Completed, task.Completed, task.Completed},
			20 * time.Second, 3 * time.Second},
		"it lasts": {1000, time.Minute, []task.Status{task.Unavailable, task.Unavailable, task.Cancelled},
			61 * time.Second, time.Minute},
		"nobody waits": {1, 0, []task.Status{task.Unavailable, task.Unavailable, task.Cancelled}, time.Second, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			faults := map[string]int{}
			var mu sync.Mutex
			one := func(_ context.Context, job task.Job, _ Parent) task.Result {
				assert.Equal(t, 1, job.Attempt, name)
				time.Sleep(time.Millisecond) // both slots are taken before the first task ends
				mu.Lock()
				defer mu.Unlock()
				r := job.Ended(task.Completed, "")
				if faults[job.Text]++; faults[job.Text] <= c.faults {
					r = job.Ended(task.Failed, "too many open files")
					r.Hindered = true
				}
				r.Usage.InputTokens = 1
				return r
			}
			sc := scripted(task.Limits{MaxParallel: 2}, parts{"a": one, "b": one, "c": one})
			sc.s.machine = limits.NewMachine(sc.s.slots, c.wait, nil)
			start := time.Now()
			all := &order.Gathered{}
			err := sc.s.Batch(t.Context(), Batch{
				Tasks: Tasks(task.Task{Text: "a"}, task.Task{Text: "b"}, task.Task{Text: "c"}), Results: all,
				Halt: halt.New(halt.Policy{Now: true, Fail: 1}, 0),
			})
			took := time.Since(start)
			assert.LessOrEqual(t, took, c.atMost, name)
			assert.GreaterOrEqual(t, took, c.atLeast, name)
			var got []task.Status
			for _, r := range all.List {
				got = append(got, r.Status)
				if r.Status == task.Unavailable {
					assert.Equal(t, "too many open files", r.Err())
					assert.Zero(t, r.Attempts)
				}
			}
			assert.Equal(t, c.want, got, name)
			if c.want[0] == task.Completed {
				require.NoError(t, err, name)
				assert.Equal(t, 1, all.List[0].Attempts)
				assert.Equal(t, c.faults+1, all.List[0].Usage.InputTokens, name)
				return
			}
			require.ErrorContains(t, err, "too many open files", name)
			assert.True(t, task.MachineFault(err), name)
		})
	}
}

// TestHinderedChild: the agent that delegated the task gets the error.
func TestHinderedChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hindered := func(_ context.Context, job task.Job, _ Parent) task.Result {
			r := job.Ended(task.Failed, "too many open files")
			r.Hindered = true
			return r
		}
		sc := scripted(task.Limits{MaxParallel: 1}, parts{"do": hindered})
		sc.s.machine = limits.NewMachine(sc.s.slots, time.Minute, nil)
		start := time.Now()
		r := sc.Delegate(t.Context(), []task.Task{{Text: "do"}})[0]
		assert.Equal(t, task.Unavailable, r.Status)
		assert.Equal(t, "too many open files", r.Err())
		assert.Equal(t, time.Minute, time.Since(start))
	})
}

// All that the attempts used and changed is in the one result.
func TestAttemptsAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []int
		rec := &memRecord{}
		sc := scripted(task.Limits{MaxParallel: 1, Retries: 2}, parts{"do": dying(&seen,
			task.Result{Status: task.Killed, Effects: true, Usage: task.Usage{InputTokens: 10, OutputTokens: 1},
				ChangedFiles: []string{"b", "a"}},
			task.Result{Status: task.Killed, Usage: task.Usage{InputTokens: 5}, ChangedFiles: []string{"b", "c"}},
		)})
		sc.s.cfg.Record = rec
		r := sc.Delegate(t.Context(), []task.Task{{Text: "do", Idempotent: true}})[0]
		assert.True(t, r.Success)
		assert.True(t, r.Effects)
		assert.Equal(t, task.Usage{InputTokens: 15, OutputTokens: 1}, r.Usage)
		assert.Equal(t, []string{"a", "b", "c"}, r.ChangedFiles)
		assert.Equal(t, []string{"claim x1", "attempt 1 x1 killed 1s", "attempt 2 x1 killed 1s", "finish x1 completed"},
			rec.lines)
	})
}

// Between attempts others are at work, and the clock runs.
func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []int
		sc := scripted(task.Limits{MaxParallel: 1, Retries: 2, ChildTimeout: time.Minute},
			parts{"do": dying(&seen, killed(false), killed(false))})
		results, at := collect(t, sc, Batch{}, "do", "sleep 10s")
		assert.Equal(t, []task.Status{task.Completed, task.Completed}, statuses(results))
		assert.GreaterOrEqual(t, at[0], 12750*time.Millisecond,
			"1 s, then 10 s of the other, 1 s, three quarters of a second, 1 s")
		assert.LessOrEqual(t, at[0], 14250*time.Millisecond)
		assert.Equal(t, at[0], at[1])
	})
	synctest.Test(t, func(t *testing.T) {
		var seen []int
		sc := scripted(task.Limits{MaxParallel: 1, Retries: 1}, parts{"do": dying(&seen, killed(false))})
		spawn(t, sc, "do")
		<-time.After(1100 * time.Millisecond)
		spawn(t, sc, "sleep 10s")
		synctest.Wait()
		assert.Equal(t, []string{"do: waiting", "sleep 10s: running"}, listed(t, sc))
		sc.background.End(task.ErrAbandoned)
	})
}

// Each attempt may be silent for the whole time, and what waits for its end is no
// longer measured.
func TestIdleOfAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := scripted(task.Limits{MaxParallel: 2, Retries: 1, IdleTimeout: 10 * time.Second}, parts{
			"do": func(ctx context.Context, job task.Job, _ Parent) task.Result {
				r := after(ctx, job, 9*time.Second)
				if job.Attempt == 1 {
					r.End(task.Killed, "died")
				}
				return r
			},
			"lead": func(ctx context.Context, job task.Job, p Parent) task.Result {
				_, err := p.Spawn(ctx, task.Task{Text: "slow to end"})
				require.NoError(t, err)
				sleep(ctx, time.Second)
				return job.Ended(task.Failed, "as told")
			},
			"slow to end": func(_ context.Context, job task.Job, _ Parent) task.Result {
				<-time.After(time.Minute)
				return job.Ended(task.Completed, "")
			},
		})
		r, _ := one(t, sc, "do")
		assert.Equal(t, task.Completed, r.Status, r.Err())
		r, took := one(t, sc, "lead")
		assert.Equal(t, "as told", r.Err())
		assert.Equal(t, time.Minute, took)
	})
}

// One deadline holds for all attempts, and what it cuts off is not begun.
func TestAttemptsShareADeadline(t *testing.T) {
	for name, c := range map[string]struct {
		first time.Duration
		want  task.Status
		took  time.Duration
	}{
		"in the second": {5 * time.Second, task.Timeout, 110 * time.Second},
		"no second":     {9900 * time.Millisecond, task.Killed, 109900 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			sc := scripted(task.Limits{MaxParallel: 1, Retries: 2, ChildTimeout: 10 * time.Second}, parts{
				"do": func(ctx context.Context, job task.Job, p Parent) task.Result {
					if job.Attempt == 1 {
						p.(*handle).queue(func() { sleep(ctx, 100*time.Second) })
						sleep(ctx, c.first)
						return job.Ended(task.Killed, "")
					}
					assert.Equal(t, 10*time.Second, job.Allowed)
					assert.Equal(t, start.Add(110*time.Second), job.Deadline)
					return after(ctx, job, time.Hour)
				},
			})
			r, took := one(t, sc, "do")
			assert.Equal(t, c.want, r.Status, name)
			assert.Equal(t, c.took, took, name)
		})
	}
}

// How an attempt ended is on record before anybody waits for the next one, and
// the wait for a slot is not the task's own time.
func TestBackOffWaitsForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []int
		rec := &memRecord{}
		sc := scripted(task.Limits{MaxParallel: 1, Retries: 1, ChildTimeout: 10 * time.Second}, parts{
			"do": dying(&seen, killed(false)),
			"other": func(ctx context.Context, job task.Job, p Parent) task.Result {
				assert.Contains(t, rec.lines, "attempt 1 x1 killed 1s")
				p.(*handle).queue(func() { sleep(ctx, time.Hour) })
				return job.Ended(task.Completed, "")
			},
		})
		sc.s.cfg.Record = rec
		results, _ := collect(t, sc, Batch{}, "do", "other")
		assert.Equal(t, []task.Status{task.Completed, task.Completed}, statuses(results))
		assert.Equal(t, []int{1, 2}, seen)
	})
	synctest.Test(t, func(t *testing.T) { // nor that of those above it: they end after it
		var seen []int
		sc := scripted(task.Limits{MaxParallel: 1, MaxDepth: 5, Retries: 1, ChildTimeout: 20 * time.Second}, parts{
			"lead": func(ctx context.Context, job task.Job, p Parent) task.Result {
				r := p.Delegate(ctx, []task.Task{{Text: "do"}})[0]
				return job.Ended(r.Status, r.Err())
			},
			"do": dying(&seen, killed(false)),
		})
		var results []task.Result
		require.NoError(t, sc.batch(t.Context(), Batch{
			Tasks: func(yield func(task.Task, error) bool) {
				if yield(task.Task{Text: "lead"}, nil) {
					<-time.After(1100 * time.Millisecond) // then the child has died, and its slot is free
					yield(task.Task{Text: "sleep 30s", Timeout: 60}, nil)
				}
			},
			Results: sink{deliver: func(r task.Result) error { results = append(results, r); return nil }},
		}, false))
		assert.Equal(t, []task.Status{task.Completed, task.Completed}, statuses(results))
		assert.Equal(t, []int{1, 2}, seen)
	})
}

// A pause between attempts ends with the task.
func TestBackOffIsCancellable(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(s *Supervisor, cancel context.CancelCauseFunc)
		want task.Status
	}{
		"one": {func(s *Supervisor, _ context.CancelCauseFunc) { s.Cancel("x1") }, task.Cancelled},
		"tree": {
			func(_ *Supervisor, cancel context.CancelCauseFunc) { cancel(errors.New("Ctrl-C")) }, task.Interrupted,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			var seen []int
			rec := &memRecord{}
			sc := scripted(task.Limits{MaxParallel: 1, Retries: 2}, parts{"do": dying(&seen, killed(false))})
			sc.s.cfg.Record = rec
			ctx, cancel := context.WithCancelCause(t.Context())
			start := time.Now()
			time.AfterFunc(1200*time.Millisecond, func() { c.end(sc.s, cancel) })
			r := sc.Delegate(ctx, []task.Task{{Text: "do"}})[0]
			assert.Equal(t, c.want, r.Status, name)
			assert.Equal(t, 1200*time.Millisecond, time.Since(start), name)
			assert.Equal(t, 1, r.Attempts, name)
			assert.Equal(t, []string{"claim x1", "attempt 1 x1 killed 1s", "finish x1 " + string(c.want)}, rec.lines)
			assert.Equal(t, 1, free(sc.s))
		})
	}
}

// What children did, whoever waited for them, their parent did.
func TestEffectsOfChildren(t *testing.T) {
	type run = func(context.Context, task.Job, Parent) task.Result
	part := func(do func(ctx context.Context, job task.Job, p Parent)) run {
		return func(ctx context.Context, job task.Job, p Parent) task.Result {
			do(ctx, job, p)
			return job.Ended(task.Killed, "died")
		}
	}
	writes := func(_ context.Context, job task.Job, _ Parent) task.Result {
		r := job.Ended(task.Completed, "")
		r.Effects = true
		return r
	}
	for name, do := range map[string]func(ctx context.Context, job task.Job, p Parent){
		"delegated": func(ctx context.Context, job task.Job, p Parent) {
			p.Delegate(ctx, []task.Task{{Text: "sleep 1s"}, {Text: "writes"}})
		},
		"in the background": func(ctx context.Context, job task.Job, p Parent) {
			_, err := p.Spawn(ctx, task.Task{Text: "writes"})
			require.NoError(t, err)
			sleep(ctx, time.Second)
		},
		"further below": func(ctx context.Context, job task.Job, p Parent) {
			p.Delegate(ctx, []task.Task{{Text: "fan writes", Idempotent: true}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sc := scripted(
					task.Limits{MaxParallel: 2, MaxDepth: 5, Retries: 3},
					parts{"lead": part(do), "writes": writes},
				)
				r, _ := one(t, sc, "lead")
				assert.Equal(t, task.UnknownOutcome, r.Status)
				assert.True(t, r.Effects)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		sc := scripted(task.Limits{MaxParallel: 2, Retries: 1},
			parts{"lead": part(func(ctx context.Context, job task.Job, p Parent) {
				p.Delegate(ctx, []task.Task{{Text: "sleep 1s"}})
			})})
		r, _ := one(t, sc, "lead")
		assert.Equal(t, task.Killed, r.Status)
		assert.Equal(t, 2, r.Attempts, "its child had read only")
	})
}

// Only the first attempt is launched with what was made ready for it.
func TestStagedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, plain := newTest(task.Limits{MaxParallel: 1, Retries: 1})
		f := &stagingFake{fake: plain}
		s.cfg.Launcher = f
		results, _ := collect(t, root(s, time.Time{}), Batch{}, "sleep 1s", "die once")
		assert.Equal(t, []task.Status{task.Completed, task.Completed}, statuses(results))
		assert.Equal(t, 2, results[1].Attempts)
		assert.Equal(t, 1, f.used)
	})
}

func TestSpawnRate(t *testing.T) {
	b := limits.NewBudget(task.Limits{MaxChildren: 6, SpawnRate: 2})
	at := time.Now()
	for _, c := range []struct {
		after time.Duration
		want  string
	}{
		{0, ""}, {30 * time.Second, ""},
		{0, "Maximum 2 sub-agents a minute exceeded"},
		{30*time.Second - 1, "Maximum 2 sub-agents a minute exceeded"},
		{1, ""}, // the first one is a minute ago
		{0, "Maximum 2 sub-agents a minute exceeded"},
		{30 * time.Second, ""},
		{time.Hour, ""}, {0, ""},
		{0, "Maximum 6 sub-agents exceeded"},
	} {
		at = at.Add(c.after)
		assert.Equal(t, c.want, b.Take(at), at)
	}

	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(task.Limits{MaxParallel: 1, SpawnRate: 1})
		sc := root(s, time.Time{})
		collect(t, sc, Batch{}, "sleep 1s", "sleep 1s")
		results := sc.Delegate(t.Context(), tasksOf("sleep 1s, sleep 1s"))
		assert.Equal(t, []task.Status{task.Completed, task.Limit}, statuses(results), "a batch is not counted")
		assert.Equal(t, 5, results[1].ExitCode)
		<-time.After(time.Minute)
		assert.True(t, sc.Delegate(t.Context(), tasksOf("sleep 1s"))[0].Success)
	})
}
