package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"qq/pkg/agents"
	"qq/pkg/llm"
	"qq/pkg/supervisor/halt"
	"qq/pkg/supervisor/pace"
	"qq/pkg/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake plays the children: what a task does stands in its text, for example
// "sleep 2s" or "sleep 1s; fan sleep 3s, sleep 4s" or "fail".
type fake struct {
	mu       sync.Mutex
	live     int // launched and not ended, those that wait included
	atWork   int
	maxLive  int
	maxWork  int
	launches []string
}

func (f *fake) count(live, work int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.live += live
	f.atWork += work
	f.maxLive, f.maxWork = max(f.maxLive, f.live), max(f.maxWork, f.atWork)
}

func (f *fake) Launch(ctx context.Context, job task.Job, p Parent) task.Result {
	f.mu.Lock()
	f.launches = append(f.launches, job.Text)
	f.mu.Unlock()
	f.count(1, 1)
	defer f.count(-1, -1)
	for step := range strings.SplitSeq(job.Text, "; ") {
		verb, rest, _ := strings.Cut(step, " ")
		switch verb {
		case "sleep":
			d, err := time.ParseDuration(rest)
			if err != nil {
				panic(err)
			}
			select {
			case <-time.After(d):
			case <-ctx.Done():
				r := job.Ended(task.Interrupted, "cut short")
				r.Output = "partial"
				return r
			}
		case "fan":
			f.count(0, -1)
			results := p.Delegate(ctx, tasksOf(rest))
			f.count(0, 1)
			for _, r := range results {
				if !r.Success {
					return job.Ended(task.Failed, "child: "+r.Err())
				}
			}
		case "fail":
			return job.Ended(task.Failed, "as told")
		case "die": // once
			if job.Attempt == 1 {
				return job.Ended(task.Killed, "as told")
			}
		case "panic":
			panic("as told")
		}
	}
	r := job.Ended(task.Completed, "")
	r.Output = job.Text
	return r
}

func tasksOf(list string) (tasks []task.Task) {
	for text := range strings.SplitSeq(list, ", ") {
		// A nested fan is written with "/" and "+" in place of "; " and ", ".
		text = strings.NewReplacer("/", "; ", "+", ", ").Replace(text)
		tasks = append(tasks, task.Task{Text: text})
	}
	return tasks
}

func newTest(l task.Limits) (*Supervisor, *fake) {
	if l.MaxDepth == 0 {
		l.MaxDepth = 3
	}
	if l.MaxChildren == 0 {
		l.MaxChildren = 200
	}
	f, n := &fake{}, 0
	var mu sync.Mutex
	return New(Config{Limits: Limits{Limits: l}, Launcher: f, Agents: anybody{}, NewID: func() string {
		mu.Lock()
		defer mu.Unlock()
		n++
		return fmt.Sprint("x", n)
	}}), f
}

// anybody is a Registry that knows every name: those that it has, and others that may
// do everything.
type anybody map[string]agents.Agent

func (a anybody) Lookup(name string) (agents.Agent, error) {
	known := a[name]
	known.Name = name
	return known, nil
}

// root is a handle above all jobs, of an agent that may do everything.
func root(s *Supervisor, deadline time.Time) *handle {
	return &handle{s: s, agent: agents.Agent{Name: "root"}, latest: deadline}
}

// sink is Results made of functions.
type sink struct {
	deliver func(task.Result) error
	done    func(task.Result) // nil is not told
}

func (s sink) Deliver(r task.Result) error { return s.deliver(r) }

func (s sink) Done(r task.Result) {
	if s.done != nil {
		s.done(r)
	}
}

// past is a Past made of a function.
type past func(index int, t task.Task) (task.Result, bool)

func (p past) Known(_ context.Context, index int, t task.Task) (task.Result, bool) {
	return p(index, t)
}

// gate is a Gate that lets every request pass, and says of a task what the function says.
type gate func(task.Task) error

func (g gate) Enter(context.Context, string, bool, Waiter) (llm.Permit, error) { return nil, nil }
func (g gate) First(task.Task, Waiter) llm.Permit                              { return nil }
func (gate) Ready(task.Task) time.Duration                                     { return 0 }
func (g gate) Refusal(t task.Task) error                                       { return g(t) }

// collect runs a batch and returns the results with the time of each delivery.
func collect(t *testing.T, sc *handle, b Batch, texts ...string) ([]task.Result, []time.Duration) {
	t.Helper()
	start := time.Now()
	var results []task.Result
	var at []time.Duration
	b.Tasks = func(yield func(task.Task, error) bool) {
		for _, text := range texts {
			if !yield(task.Task{Text: text}, nil) {
				return
			}
		}
	}
	b.Results = sink{deliver: func(r task.Result) error {
		results, at = append(results, r), append(at, time.Since(start))
		return nil
	}}
	require.NoError(t, sc.batch(t.Context(), b, false))
	for i, r := range results {
		assert.Equal(t, i, r.Index)
	}
	return results, at
}

func statuses(results []task.Result) (s []task.Status) {
	for _, r := range results {
		s = append(s, r.Status)
	}
	return s
}

// A free slot takes the next task at once, and a result is delivered as soon as
// all before it are there.
func TestPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newTest(task.Limits{MaxParallel: 2})
		start := time.Now()
		_, at := collect(t, root(s, time.Time{}), Batch{}, "sleep 5s", "sleep 1s", "sleep 1s", "sleep 3s", "sleep 1s")
		assert.Equal(
			t,
			[]time.Duration{5 * time.Second, 5 * time.Second, 5 * time.Second, 5 * time.Second, 6 * time.Second},
			at,
		)
		assert.Equal(t, 6*time.Second, time.Since(start))
		assert.Equal(t, 2, f.maxWork)
	})
}

func TestDeliveredBeforeTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(task.Limits{MaxParallel: 2})
		_, at := collect(t, root(s, time.Time{}), Batch{}, "sleep 1s", "sleep 9s", "sleep 2s")
		assert.Equal(t, []time.Duration{time.Second, 9 * time.Second, 9 * time.Second}, at)
	})
}

// A cap of 1 with three levels of nesting finishes, because a child that waits
// lends its slot.
func TestCapOfOneNested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newTest(task.Limits{MaxParallel: 1, MaxDepth: 4})
		results, _ := collect(t, root(s, time.Time{}), Batch{},
			"sleep 1s; fan sleep 1s/fan sleep 1s+sleep 1s, sleep 1s; sleep 1s", "sleep 1s")
		assert.Equal(t, []task.Status{task.Completed, task.Completed}, statuses(results))
		assert.Equal(t, 1, f.maxWork)
	})
}

// However long the batch is, what has begun is finished first: the number of
// live processes stays near the cap.
func TestLeadsDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newTest(task.Limits{MaxParallel: 3})
		texts := slices.Repeat([]string{"sleep 1s; fan sleep 1s, sleep 2s, sleep 1s; sleep 1s"}, 40)
		results, _ := collect(t, root(s, time.Time{}), Batch{}, texts...)
		assert.Len(t, results, 40)
		assert.Equal(t, 3, f.maxWork)
		assert.LessOrEqual(t, f.maxLive, 9)
	})
}

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(task.Limits{MaxParallel: 1, ChildTimeout: 300 * time.Second})
		results, at := collect(t, root(s, time.Time{}), Batch{}, "sleep 1000s", "sleep 299s")
		assert.Equal(t, []task.Status{task.Timeout, task.Completed}, statuses(results))
		assert.Equal(t, "Child process timed out after 300s", results[0].Err())
		assert.Equal(t, "partial", results[0].Output)
		assert.Equal(t, 124, task.Timeout.ExitCode())
		// The second waited for its slot 300 s and still had all its own time.
		assert.Equal(t, []time.Duration{300 * time.Second, 599 * time.Second}, at)
		assert.EqualValues(t, 300_000, results[1].QueuedMS)
	})
}

// A child ends before its parent, so that the parent can use what it got.
func TestDeadlineShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(task.Limits{MaxParallel: 2, ChildTimeout: 100 * time.Second})
		results, at := collect(t, root(s, time.Time{}), Batch{}, "sleep 20s; fan sleep 500s")
		assert.Equal(t, "child: Child process timed out after 75s", results[0].Err())
		assert.Equal(t, task.Failed, results[0].Status)
		assert.Equal(t, []time.Duration{95 * time.Second}, at)
	})
}

func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(task.Limits{MaxParallel: 2, MaxDepth: 2, MaxChildren: 3})
		results, _ := collect(t, root(s, time.Time{}), Batch{}, "fan sleep 1s", "sleep 1s")
		assert.Equal(t, "child: Error: Maximum recursion depth (2) exceeded", results[0].Err())
		assert.True(t, results[1].Success)

		results = root(
			s,
			time.Time{},
		).Delegate(t.Context(), tasksOf("sleep 1s, sleep 1s, sleep 1s, sleep 1s, sleep 1s"))
		assert.Equal(t, []task.Status{task.Completed, task.Completed, task.Completed, task.Limit, task.Limit},
			statuses(results))
		assert.Equal(t, "Maximum 3 sub-agents exceeded", results[4].Err())
		assert.Equal(t, 5, results[4].ExitCode)
	})
}

// Tasks of a batch are not counted against the children that agents may start.
func TestBatchIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(task.Limits{MaxParallel: 4, MaxChildren: 1})
		results, _ := collect(t, root(s, time.Time{}), Batch{}, slices.Repeat([]string{"sleep 1s"}, 20)...)
		assert.NotContains(t, statuses(results), task.Limit)
	})
}

func TestCancelOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newTest(task.Limits{MaxParallel: 3})
		go func() {
			<-time.After(2 * time.Second)
			assert.True(t, s.Cancel("x2"))
			assert.False(t, s.Cancel("nobody"))
		}()
		results, _ := collect(t, root(s, time.Time{}), Batch{}, "sleep 5s", "sleep 50s; fan sleep 5s", "sleep 4s")
		assert.ElementsMatch(t, []task.Status{task.Completed, task.Cancelled, task.Completed}, statuses(results))
		i := slices.IndexFunc(results, func(r task.Result) bool { return r.Status == task.Cancelled })
		assert.Equal(t, "Sub-agent cancelled by user.", results[i].Err())
		assert.Zero(t, f.live)
	})
}

// Each task has its result, also when the tree is cancelled.
func TestCancelTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newTest(task.Limits{MaxParallel: 2})
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(3*time.Second, func() { cancel(errors.New("Ctrl-C")) })
		var results []task.Result
		err := root(s, time.Time{}).batch(ctx, Batch{
			Tasks: func(yield func(task.Task, error) bool) {
				for range 6 {
					if !yield(task.Task{Text: "sleep 2s"}, nil) {
						return
					}
				}
			},
			Results: sink{deliver: func(r task.Result) error { results = append(results, r); return nil }},
		}, false)
		require.NoError(t, err)
		assert.Equal(
			t,
			[]task.Status{task.Completed, task.Completed, task.Interrupted, task.Interrupted, task.Cancelled,
				task.Cancelled},
			statuses(results),
		)
		assert.Equal(t, "not started: Ctrl-C", results[5].Err())
		assert.Zero(t, f.live)
	})
}

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(task.Limits{MaxParallel: 1})
		stop := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(stop) })
		results, at := collect(t, root(s, time.Time{}), Batch{Stop: stop}, "sleep 3s", "sleep 3s")
		assert.Equal(t, []task.Status{task.Completed, task.Cancelled}, statuses(results))
		assert.Equal(t, 3*time.Second, at[1])
	})
}

func TestHalt(t *testing.T) {
	for name, c := range map[string]struct {
		halt halt.Policy
		want []task.Status
		took time.Duration
	}{
		"never": {
			halt.Policy{},
			[]task.Status{task.Failed, task.Completed, task.Failed, task.Completed}, 9 * time.Second,
		},
		"soon": {
			halt.Policy{Fail: 1},
			[]task.Status{task.Failed, task.Completed, task.Cancelled, task.Cancelled}, 4 * time.Second,
		},
		"now": {
			halt.Policy{Fail: 1, Now: true},
			[]task.Status{task.Failed, task.Cancelled, task.Cancelled, task.Cancelled}, time.Second,
		},
		"soon, success": {
			halt.Policy{Success: halt.Amount{Tasks: 1}},
			[]task.Status{task.Failed, task.Completed, task.Failed, task.Completed}, 9 * time.Second,
		},
		"now, success": {
			halt.Policy{Now: true, Success: halt.Amount{Tasks: 1}},
			[]task.Status{task.Failed, task.Completed, task.Failed, task.Cancelled}, 4 * time.Second,
		},
		"soon, done": {
			halt.Policy{Done: halt.Amount{Percent: 50}},
			[]task.Status{task.Failed, task.Completed, task.Failed, task.Cancelled}, 4 * time.Second,
		},
		"now, done": {
			halt.Policy{Now: true, Done: halt.Amount{Percent: 50}},
			[]task.Status{task.Failed, task.Cancelled, task.Failed, task.Cancelled}, 2 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := newTest(task.Limits{MaxParallel: 2})
				start := time.Now()
				results, _ := collect(
					t,
					root(s, time.Time{}),
					Batch{Halt: halt.New(c.halt, 4)},
					"sleep 1s; fail",
					"sleep 4s",
					"sleep 1s; fail",
					"sleep 7s",
				)
				assert.Equal(t, c.want, statuses(results))
				assert.Equal(t, c.took, time.Since(start))
			})
		})
	}
}

// TestPace: tasks start at the pace of the batch, and the slot of one that waits for its turn is free for others.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(task.Limits{MaxParallel: 2})
		sc := root(s, time.Time{})
		var other task.Result
		time.AfterFunc(time.Second, func() { other = sc.Delegate(t.Context(), tasksOf("sleep 1s"))[0] })
		start := time.Now()
		results, at := collect(t, sc, Batch{Pace: &pace.Pace{Delay: 4 * time.Second}},
			"sleep 10s", "sleep 1s", "sleep 1s")
		assert.Equal(t, []time.Duration{10 * time.Second, 10 * time.Second, 10 * time.Second}, at)
		synctest.Wait() // for other
		assert.EqualValues(t, 4000, results[1].QueuedMS)
		assert.EqualValues(t, 4000, results[2].QueuedMS, "it was read when the second had started")
		assert.True(t, other.Success)
		assert.Zero(t, other.QueuedMS)
		assert.Equal(t, 10*time.Second, time.Since(start))
	})
}

// TestPaceEnds: a batch that is stopped or halted does not wait until its next task may start.
func TestPaceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(task.Limits{MaxParallel: 2})
		results, at := collect(t, root(s, time.Time{}),
			Batch{Pace: &pace.Pace{Delay: time.Hour}, Halt: halt.New(halt.Policy{Fail: 1}, 0)},
			"sleep 1s; fail", "x", "x")
		assert.Equal(t, []task.Status{task.Failed, task.Cancelled, task.Cancelled}, statuses(results))
		assert.Equal(t, time.Second, at[2])
	})
}

func TestHaltPercent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newTest(task.Limits{MaxParallel: 1})
		texts := slices.Repeat([]string{"sleep 1s; fail", "sleep 1s"}, 20)
		collect(t, root(s, time.Time{}), Batch{Halt: halt.New(halt.Policy{Percent: 40}, 0)}, texts...)
		assert.Len(t, f.launches, 10)
	})
}

func TestPanicIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(task.Limits{MaxParallel: 1})
		results, _ := collect(t, root(s, time.Time{}), Batch{}, "panic", "sleep 1s")
		assert.Equal(t, []task.Status{task.Failed, task.Completed}, statuses(results))
		assert.True(t, results[0].Effects, "nobody knows what it did")
	})
}

// When nobody takes the results any more, the batch ends at once.
func TestDeliverFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newTest(task.Limits{MaxParallel: 2})
		start := time.Now()
		closed := errors.New("broken pipe")
		pulled := 0
		err := root(s, time.Time{}).batch(t.Context(), Batch{
			Tasks: func(yield func(task.Task, error) bool) {
				for ; pulled < 1000 && yield(task.Task{Text: "sleep 2s"}, nil); pulled++ {
				}
			},
			Results: sink{deliver: func(task.Result) error { return closed }},
		}, false)
		require.ErrorIs(t, err, closed)
		assert.Equal(t, 2*time.Second, time.Since(start))
		assert.Less(t, pulled, 5)
		assert.Zero(t, f.live)
	})
}

// A stream of tasks that breaks ends the batch with its error; what runs is
// finished and delivered.
func TestTasksBreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(task.Limits{MaxParallel: 2})
		n := 0
		err := root(s, time.Time{}).batch(t.Context(), Batch{
			Tasks: func(yield func(task.Task, error) bool) {
				_ = yield(task.Task{Text: "sleep 2s"}, nil) && yield(task.Task{}, errors.New("disk"))
			},
			Results: sink{deliver: func(task.Result) error { n++; return nil }},
		}, false)
		require.EqualError(t, err, "disk")
		assert.Equal(t, 1, n)
	})
}

// stagingFake is a fake that can get ready ahead of time.
type stagingFake struct {
	*fake
	staged, discarded, used int
}

type stagedFake struct {
	f    *stagingFake
	text string
}

func (f *stagingFake) Stage(job task.Job) Staged {
	f.staged++
	return &stagedFake{f, job.Text}
}

func (s *stagedFake) Launch(ctx context.Context, job task.Job, p Parent) task.Result {
	if job.Text != s.text {
		panic("launched with another job than it was staged for")
	}
	s.f.mu.Lock()
	s.f.used++
	s.f.mu.Unlock()
	return s.f.Launch(ctx, job, p)
}

func (s *stagedFake) Discard() { s.f.discarded++ }

// While a task waits for its slot, one process of the tree is made ready for it;
// when it does not come to that, it is discarded.
func TestStaging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, plain := newTest(task.Limits{MaxParallel: 2})
		f := &stagingFake{fake: plain}
		s.cfg.Launcher = f
		results, _ := collect(t, root(s, time.Time{}), Batch{}, "sleep 3s", "sleep 1s", "sleep 1s", "sleep 1s",
			"sleep 1s; fan sleep 1s, sleep 1s, sleep 1s")
		assert.NotContains(t, statuses(results), task.Failed)
		assert.Equal(t, 2, f.maxWork)
		assert.Equal(t, f.staged, f.used)
		assert.GreaterOrEqual(t, f.staged, 3)

		stop := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(stop) })
		collect(t, root(s, time.Time{}), Batch{Stop: stop}, "sleep 2s", "sleep 2s", "sleep 2s")
		assert.Equal(t, 1, f.discarded)
		assert.Zero(t, f.live)
	})
}
