package supervisor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/agents"
	"qq/pkg/supervisor/access"
	"qq/pkg/supervisor/halt"
	"qq/pkg/supervisor/order"
	"qq/pkg/supervisor/pace"
	"qq/pkg/supervisor/targets"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// spelled takes paths as they are spelled.
type spelled struct{}

func (spelled) Targets(dir string, texts []string) (all []targets.Target) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		panic(err)
	}
	for _, text := range texts {
		all = append(all, targets.Parse(path.Join(abs, text), false))
	}
	return all
}

// site plays jobs that touch files. It notes when each began and ended, and who was at work at once though their
// targets do not allow it.
type site struct {
	*harness
	start time.Time

	mu      sync.Mutex
	busy    map[string]task.Job // at work, by execution id
	parents map[string]string
	scopes  map[string][]targets.Target // what each may touch; none is anything
	began   map[string]time.Duration
	ended   map[string]time.Duration
	order   []string
	wrong   []string
	peak    int
	does    map[string]func(ctx context.Context, job task.Job, p Parent) task.Result
	// unplanned says that what different tasks of the batch do may meet.
	unplanned bool
}

func newSite(change func(*Config)) *site {
	s := &site{
		start: time.Now(), busy: map[string]task.Job{}, parents: map[string]string{},
		scopes: map[string][]targets.Target{}, began: map[string]time.Duration{},
		ended: map[string]time.Duration{},
		does:  map[string]func(context.Context, task.Job, Parent) task.Result{},
	}
	s.harness = newHarness(func(cfg *Config) {
		cfg.Limits.MaxParallel, cfg.Limits.MaxDepth, cfg.Limits.MaxChildren = 10, 6, 1000
		cfg.Paths, cfg.Launcher = spelled{}, s
		if change != nil {
			change(cfg)
		}
	})
	return s
}

// enter says that job works, and leave that it does not: it waits, or has ended.
func (s *site) enter(job task.Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.Planned(job.Task)
	own := one.Targets
	if len(own) == 0 {
		own = s.scopes[job.Parent]
	}
	s.scopes[job.ExecutionID] = own
	for _, o := range s.busy {
		other := s.Planned(o.Task)
		theirs := s.scopes[o.ExecutionID]
		if targets.Conflict(one.Effect, other.Effect) && meet(own, theirs) && !s.related(job, o) {
			s.wrong = append(s.wrong, job.Text+" and "+o.Text)
		}
	}
	s.busy[job.ExecutionID] = job
	s.peak = max(s.peak, len(s.busy))
}

func (s *site) leave(job task.Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, job.ExecutionID)
}

func meet(a, b []targets.Target) bool {
	if len(a) == 0 || len(b) == 0 {
		return true
	}
	return slices.ContainsFunc(a, func(one targets.Target) bool {
		return slices.ContainsFunc(b, func(other targets.Target) bool { return targets.Overlap(one, other) })
	})
}

// related reports whether one of the jobs is above the other, or both may meet because they belong to different tasks.
func (s *site) related(a, b task.Job) bool {
	above := func(id, top string) bool {
		for id != "" && id != top {
			id = s.parents[id]
		}
		return id == top
	}
	top := func(id string) string {
		for s.parents[id] != "" {
			id = s.parents[id]
		}
		return id
	}
	return above(a.ExecutionID, b.ExecutionID) || above(b.ExecutionID, a.ExecutionID) ||
		s.unplanned && top(a.ExecutionID) != top(b.ExecutionID)
}

func (s *site) Launch(ctx context.Context, job task.Job, p Parent) task.Result {
	s.mu.Lock()
	s.began[job.Text], s.parents[job.ExecutionID] = time.Since(s.start), job.Parent
	s.order = append(s.order, job.Text)
	do := s.does[strings.Fields(job.Text)[0]]
	s.mu.Unlock()
	s.enter(job)
	defer func() {
		s.leave(job)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended[job.Text] = time.Since(s.start)
	}()
	if do != nil {
		return do(ctx, job, p)
	}
	return after(ctx, job, time.Second)
}

// delegates waits for tasks, and works a second before and after that.
func (s *site) delegates(tasks ...task.Task) func(context.Context, task.Job, Parent) task.Result {
	return func(ctx context.Context, job task.Job, p Parent) task.Result {
		if !sleep(ctx, time.Second) {
			return job.Ended(task.Killed, "")
		}
		s.leave(job)
		results := p.Delegate(ctx, tasks)
		s.enter(job)
		for _, r := range results {
			if !r.Success {
				return job.Ended(task.Failed, r.Err())
			}
		}
		return after(ctx, job, time.Second)
	}
}

// planned runs a batch with a plan of its tasks.
func (s *site) planned(ctx context.Context, t *testing.T, b Batch, tasks ...task.Task) []task.Result {
	t.Helper()
	all := &order.Gathered{}
	b.Results, b.Tasks = all, Tasks(tasks...)
	var err error
	b.Plan, err = s.top(ctx).plan(tasks)
	require.NoError(t, err)
	require.NoError(t, s.Batch(ctx, b))
	require.Len(t, all.List, len(tasks), "each task has one result")
	for i, r := range all.List {
		assert.Equal(t, i, r.Index)
		assert.Equal(t, tasks[i].ID, r.ID)
	}
	return all.List
}

func writer(text string, on ...string) task.Task {
	return task.Task{Text: text, Agent: "coder", Targets: on}
}

func reader(text string, on ...string) task.Task { return task.Task{Text: text, Targets: on} }

// Ten writers on five files with a cap of ten: five at once, in the time of the longest chain.
func TestTenWritersOnFiveFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(nil)
		var tasks []task.Task
		for i := range 10 {
			tasks = append(tasks, writer(fmt.Sprint("w", i), fmt.Sprint("f", i%5)))
		}
		s.planned(t.Context(), t, Batch{}, tasks...)
		assert.Empty(t, s.wrong)
		assert.Equal(t, 5, s.peak)
		assert.Equal(t, 2*time.Second, time.Since(s.start))
	})
}

// A slow task keeps nobody from starting but those that touch its file: the time is that of the ideal schedule, with
// the slow task and its successor in one slot, and the fast ones in the two others. That holds for a batch that is
// planned, for one of which only the leases know what it touches, and for what an agent delegates.
func TestSlowTaskBesideFastOnes(t *testing.T) {
	for successor := 1; successor < 10; successor++ {
		var tasks []task.Task
		for i := range 8 {
			tasks = append(tasks, writer(fmt.Sprint("fast", i), fmt.Sprint("f", i)))
		}
		tasks = slices.Insert(tasks, 0, writer("slow", "a"))
		tasks = slices.Insert(tasks, successor, writer("next", "a"))
		for how, run := range map[string]func(*testing.T, *site) []task.Result{
			"planned": func(t *testing.T, s *site) []task.Result {
				return s.planned(t.Context(), t, Batch{}, tasks...)
			},
			"stream": func(t *testing.T, s *site) []task.Result {
				all := &order.Gathered{}
				assert.NoError(t, s.Batch(t.Context(), Batch{Tasks: Tasks(tasks...), Results: all}))
				return all.List
			},
			"delegated": func(t *testing.T, s *site) []task.Result {
				return s.Delegate(t.Context(), agents.Agent{}, tasks)
			},
		} {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(func(cfg *Config) { cfg.Limits.MaxParallel, cfg.Plan = 3, access.Strict })
				s.does["slow"] = func(ctx context.Context, job task.Job, _ Parent) task.Result {
					return after(ctx, job, 4*time.Second)
				}
				for _, r := range run(t, s) {
					assert.True(t, r.Success, r.Err())
				}
				assert.Empty(t, s.wrong)
				assert.Equal(t, 5*time.Second, time.Since(s.start), "%s, %d", how, successor)
				assert.Equal(t, 4*time.Second, s.began["next"], "%s, %d", how, successor)
				for i := range 8 {
					at := time.Duration(i/2) * time.Second
					assert.Equal(t, at, s.began[fmt.Sprint("fast", i)], "%s, %d", how, successor)
				}
			})
		}
	}
}

// Tasks that a person lists without targets run at once. With strict, writers run alone and readers do not.
func TestUnplanned(t *testing.T) {
	for mode, want := range map[access.Mode]time.Duration{
		"": time.Second, access.Auto: time.Second, access.Off: time.Second, access.Strict: 6 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(func(cfg *Config) { cfg.Plan = mode })
			var tasks []task.Task
			for i := range 5 {
				tasks = append(tasks, writer(fmt.Sprint("w", i)))
			}
			for i := range 5 {
				tasks = append(tasks, reader(fmt.Sprint("r", i)))
			}
			all := &order.Gathered{}
			require.NoError(t, s.Batch(t.Context(), Batch{Tasks: Tasks(tasks...), Results: all}))
			assert.Len(t, all.List, 10)
			assert.Equal(t, want, time.Since(s.start), mode)
		})
	}
}

// What tasks delegate that a person lists without targets runs as the tasks do: at once, but for what one of them
// delegates. With strict, it runs alone.
func TestBelowUnplanned(t *testing.T) {
	for mode, want := range map[access.Mode]time.Duration{
		access.Auto: 4 * time.Second, access.Off: 3 * time.Second, access.Strict: 20 * time.Second,
	} {
		for name, lead := range map[string]func(string, ...string) task.Task{"writers": writer, "readers": reader} {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(func(cfg *Config) { cfg.Plan, cfg.Limits.MaxParallel = mode, 20 })
				var tasks []task.Task
				for i := range 5 {
					tasks = append(tasks, lead(fmt.Sprint("lead", i)))
					s.does[fmt.Sprint("lead", i)] = s.delegates(writer(fmt.Sprint("one", i)),
						writer(fmt.Sprint("two", i)))
				}
				s.unplanned = mode == access.Auto
				all := &order.Gathered{}
				require.NoError(t, s.Batch(t.Context(), Batch{ID: "b", Tasks: Tasks(tasks...), Results: all}))
				if mode != access.Strict {
					assert.Equal(t, want, time.Since(s.start), "%s %s", mode, name)
				} else {
					assert.GreaterOrEqual(t, time.Since(s.start), 10*time.Second, name)
				}
				if mode != access.Off {
					assert.Empty(t, s.wrong)
				}
			})
		}
	}
}

// What agents delegate without targets runs alone if it can write, and at once if it cannot.
func TestDelegatedWithoutTargets(t *testing.T) {
	for _, row := range []struct {
		tasks []task.Task
		want  time.Duration
	}{
		{[]task.Task{writer("a"), writer("b"), writer("c")}, 3 * time.Second},
		{[]task.Task{reader("a"), reader("b"), reader("c")}, time.Second},
		{[]task.Task{reader("a"), writer("b"), reader("c"), reader("d")}, 3 * time.Second},
		{[]task.Task{writer("a", "x"), writer("b", "y"), reader("c", "z")}, time.Second},
		{[]task.Task{writer("a", "x"), writer("b"), reader("c", "z")}, 3 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(nil)
			results := s.Delegate(t.Context(), agents.Agent{}, row.tasks)
			assert.Len(t, results, len(row.tasks))
			assert.Equal(t, row.want, time.Since(s.start), "%v", row.tasks)
			assert.Empty(t, s.wrong)
		})
	}
}

// Writers that work in copies of their own are not held apart, but what one of them starts in its copy is.
func TestDelegatedCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(func(cfg *Config) { cfg.Copies = true })
		s.Delegate(t.Context(), agents.Agent{}, []task.Task{writer("a"), writer("b"), writer("c")})
		assert.Equal(t, time.Second, time.Since(s.start))
	})
	synctest.Test(t, func(t *testing.T) {
		s := newSite(func(cfg *Config) { cfg.Copies = true })
		s.does["a"] = s.delegates(writer("one"), writer("two"))
		s.Delegate(t.Context(), agents.Agent{}, []task.Task{writer("a")})
		assert.Equal(t, time.Second, s.began["two"]-s.began["one"])
	})
	synctest.Test(t, func(t *testing.T) {
		s := newSite(func(cfg *Config) { cfg.Copies = true })
		s.does["a"], s.does["b"] = s.delegates(writer("one")), s.delegates(writer("two"))
		s.Delegate(t.Context(), agents.Agent{}, []task.Task{writer("a"), writer("b")})
		assert.Equal(t, 3*time.Second, time.Since(s.start))
	})
	synctest.Test(t, func(t *testing.T) { // a task of a batch, and what another one delegates
		s := newSite(func(cfg *Config) { cfg.Copies = true })
		s.does["lead"] = s.delegates(writer("below"))
		all := &order.Gathered{}
		tasks := Tasks(writer("a"), reader("lead"))
		require.NoError(t, s.Batch(t.Context(), Batch{ID: "b", Tasks: tasks, Results: all}))
		assert.Equal(t, 3*time.Second, time.Since(s.start))
	})
}

// A reader in a list after a writer of the same file reads the new text, one before it starts at once.
func TestOrderOfOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(nil)
		s.Delegate(t.Context(), agents.Agent{}, []task.Task{
			reader("before", "a"), writer("write", "a"), reader("after", "a"), writer("other", "b"),
		})
		assert.Equal(t, map[string]time.Duration{
			"before": 0, "write": time.Second, "after": 2 * time.Second, "other": 0,
		}, s.began)
	})
}

// A grandchild of one job and a child in the background of another are held apart, and the writers above them are in
// nobody's way while they wait.
func TestTwoLevelsDeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(nil)
		s.does["a"] = s.delegates(reader("middle"))
		s.does["middle"] = s.delegates(writer("grandchild", "x"))
		s.does["b"] = func(ctx context.Context, job task.Job, p Parent) task.Result {
			child, err := p.Spawn(ctx, writer("background", "x"))
			require.NoError(t, err)
			sleep(ctx, 500*time.Millisecond)
			s.leave(job)
			_, err = p.Wait(ctx, []string{child.ID}, 0)
			require.NoError(t, err)
			s.enter(job)
			return job.Ended(task.Completed, "")
		}
		results := s.planned(t.Context(), t, Batch{}, reader("a", "docs"), reader("b", "docs"))
		assert.Equal(t, []task.Status{task.Completed, task.Completed}, statuses(results))
		assert.Empty(t, s.wrong)
		assert.Equal(t, time.Duration(0), s.began["background"])
		assert.Equal(t, 2*time.Second, s.began["grandchild"])
		s = newSite(nil)
		s.does["middle"] = s.delegates(writer("grandchild", "x"))
		s.does["b"] = s.delegates(writer("own", "x"))
		s.planned(t.Context(), t, Batch{}, reader("middle", "docs"), reader("b", "docs"))
		assert.Empty(t, s.wrong)
		assert.Equal(t, time.Second, (s.began["grandchild"] - s.began["own"]).Abs(), "one after the other")
	})
}

// Two readers of everything whose writers would wait for each other, also with one slot.
func TestReadersLend(t *testing.T) {
	for slots := range 3 {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(func(cfg *Config) { cfg.Plan, cfg.Limits.MaxParallel = access.Strict, slots+1 })
			s.does["one"], s.does["two"] = s.delegates(writer("w1")), s.delegates(writer("w2"))
			results := s.planned(t.Context(), t, Batch{}, reader("one"), reader("two"))
			assert.Equal(t, []task.Status{task.Completed, task.Completed}, statuses(results))
			assert.Empty(t, s.wrong)
		})
	}
}

// A writer whose time is up keeps its lease until its process is gone.
func TestDyingWriterKeepsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(nil)
		s.does["slow"] = func(ctx context.Context, job task.Job, _ Parent) task.Result {
			<-ctx.Done()
			time.Sleep(3 * time.Second) // it does not obey at once
			return job.Ended(task.Killed, "")
		}
		slow := writer("slow", "x")
		slow.Timeout = 2
		results := s.planned(t.Context(), t, Batch{}, slow, writer("next", "x"))
		assert.Equal(t, []task.Status{task.Timeout, task.Completed}, statuses(results))
		assert.Equal(t, 5*time.Second, s.began["next"])
		assert.Empty(t, s.wrong)
	})
}

// The time in which a job waits for its lease is queue time: no clock runs, neither its own nor that of its parent.
func TestWaitingForALeaseIsQueueTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(func(cfg *Config) {
			cfg.Limits.ChildTimeout, cfg.Limits.IdleTimeout = 5*time.Second, 4*time.Second
		})
		long := func(ctx context.Context, job task.Job, p Parent) task.Result {
			for range 10 {
				p.Active()
				if !sleep(ctx, 2*time.Second) {
					return job.Ended(task.Killed, "")
				}
			}
			return job.Ended(task.Completed, "")
		}
		s.does["long"] = long
		s.does["lead"] = s.delegates(writer("child", "x")) // its child has to wait
		s.does["back"] = s.delegates(reader("quick", "y")) // it has to wait until it has its own lease again
		longer := writer("long", "x", "z")
		longer.Timeout = 60
		var results []task.Result
		var wg sync.WaitGroup
		wg.Go(func() { results = s.planned(t.Context(), t, Batch{ID: "b"}, longer, reader("lead", "docs")) })
		wg.Wait()
		assert.Equal(t, []task.Status{task.Completed, task.Completed}, statuses(results))
		assert.Equal(t, 20*time.Second, s.began["child"])
		assert.Empty(t, s.wrong)

		s = newSite(func(cfg *Config) {
			cfg.Limits.ChildTimeout, cfg.Limits.IdleTimeout = 5*time.Second, 4*time.Second
		})
		s.does["back"] = s.delegates(reader("quick", "y"))
		s.does["taker"] = long
		taker := writer("taker", "x")
		taker.Timeout = 60
		started := make(chan struct{})
		s.does["quick"] = func(ctx context.Context, job task.Job, _ Parent) task.Result {
			close(started) // while back has lent its lease, taker takes it
			return after(ctx, job, time.Second)
		}
		wg.Go(func() { results = s.planned(t.Context(), t, Batch{ID: "1"}, writer("back", "x")) })
		wg.Go(func() {
			<-started
			s.planned(t.Context(), t, Batch{ID: "2"}, taker)
		})
		wg.Wait()
		assert.Equal(t, []task.Status{task.Completed}, statuses(results), results[0].Err())
		assert.Equal(t, 22*time.Second, s.ended["back"], "a second, then it waits for taker, then a second")
		assert.Empty(t, s.wrong)
	})
}

// A job that waits for its lease can be cancelled, and the deadline of its parent counts.
func TestCancelledWhileItWaitsForALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(nil)
		s.does["holder"] = func(ctx context.Context, job task.Job, _ Parent) task.Result {
			return after(ctx, job, time.Minute)
		}
		s.does["holder"] = func(ctx context.Context, job task.Job, p Parent) task.Result {
			_, err := p.Spawn(ctx, writer("sleeper", "z"))
			assert.NoError(t, err)
			return after(ctx, job, time.Minute)
		}
		s.does["sleeper"] = func(ctx context.Context, job task.Job, _ Parent) task.Result {
			return after(ctx, job, 50*time.Second)
		}
		s.does["lead"] = func(ctx context.Context, job task.Job, p Parent) task.Result {
			sleep(ctx, time.Second)
			r := p.Delegate(ctx, []task.Task{writer("waits", "z")})
			assert.Equal(t, task.Cancelled, r[0].Status)
			return job.Ended(task.Completed, "")
		}
		go func() {
			time.Sleep(3 * time.Second)
			for _, j := range s.Jobs() {
				if j.Task == "waits" {
					assert.Equal(t, task.Queued, j.State)
					assert.True(t, s.Cancel(j.ExecutionID))
				}
			}
		}()
		s.planned(t.Context(), t, Batch{}, reader("holder", "docs"), reader("lead", "docs"))
		assert.Equal(t, 3*time.Second, s.ended["lead"])
		assert.NotContains(t, s.began, "waits")
	})
}

// What an agent has handed on and waits for others is listed, can be cancelled, and the wait is time in a queue. So it
// is for the tasks of a person.
func TestWaitingTasksAreListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(nil)
		var results []task.Result
		s.does["lead"] = func(ctx context.Context, job task.Job, p Parent) task.Result {
			results = p.Delegate(ctx, []task.Task{writer("x", "f"), writer("y", "f"),
				{ID: "z", Text: "z", Agent: "coder", Targets: []string{"g"}, Needs: []string{"w"}},
				{ID: "w", Text: "w", Agent: "coder", Targets: []string{"f"}}, writer("v", "f")})
			return job.Ended(task.Completed, "")
		}
		queued := func() (texts []string) {
			for _, j := range s.Jobs() {
				if j.State == task.Queued {
					texts = append(texts, j.Task)
				}
			}
			return texts
		}
		go func() {
			time.Sleep(500 * time.Millisecond)
			assert.Equal(t, []string{"y", "z", "w", "v"}, queued())
			for _, j := range s.Jobs() {
				if j.Task == "w" {
					assert.True(t, s.Cancel(j.ExecutionID))
				}
			}
			time.Sleep(2 * time.Second)
			assert.Empty(t, queued(), "z was skipped")
		}()
		s.planned(t.Context(), t, Batch{}, task.Task{Text: "lead"})
		assert.Equal(t, []task.Status{task.Completed, task.Completed, task.Skipped, task.Cancelled, task.Completed},
			statuses(results))
		assert.EqualValues(t, 1000, results[1].QueuedMS)
		assert.EqualValues(t, 2000, results[4].QueuedMS)
		assert.NotContains(t, s.began, "w")
		assert.Empty(t, s.Jobs())
		own := s.planned(t.Context(), t, Batch{}, writer("1", "f"), writer("2", "f"))
		assert.EqualValues(t, 1000, own[1].QueuedMS)
	})
}

// An abort in the middle: each task has one result, and those that waited for others or for a lease say why they did
// not start.
func TestAbortOfAPlan(t *testing.T) {
	for name, now := range map[string]bool{"cancelled": true, "stopped": false} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(nil)
			ctx, cancel := context.WithCancelCause(t.Context())
			stop := make(chan struct{})
			time.AfterFunc(1500*time.Millisecond, func() {
				if close(stop); now {
					cancel(errors.New("as told"))
				}
			})
			results := s.planned(ctx, t, Batch{Stop: stop},
				reader("a", "y"), writer("1", "x"), writer("2", "x"), writer("3", "x"),
				task.Task{ID: "b", Text: "b", Agent: "coder", Targets: []string{"x"}},
				task.Task{Text: "c", Needs: []string{"b"}}, task.Task{Text: "{{b.output}}", Needs: []string{"b"}})
			second := task.Completed
			if now {
				second = task.Interrupted
			}
			rest := task.Cancelled
			assert.Equal(t, []task.Status{task.Completed, task.Completed, second, rest, rest, rest, rest},
				statuses(results), name)
			for _, r := range results[3:] {
				assert.Contains(t, r.Err(), "not started: ", name)
			}
		})
	}
}

// Needs: a diamond, in the order of its needs, with what they gave.
func TestDiamond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(nil)
		var got task.Job
		s.does["top"] = func(ctx context.Context, job task.Job, _ Parent) task.Result {
			r := after(ctx, job, time.Second)
			r.Output = "the top says {{left.output}}"
			return r
		}
		s.does["join"] = func(ctx context.Context, job task.Job, _ Parent) task.Result {
			got = job
			r := after(ctx, job, time.Second)
			r.Structured = []byte(`{"a":{"b":[1,"two"]}}`)
			return r
		}
		var last task.Job
		s.does["last"] = func(ctx context.Context, job task.Job, _ Parent) task.Result {
			last = job
			return after(ctx, job, time.Second)
		}
		results := s.planned(t.Context(), t, Batch{},
			task.Task{ID: "last", Text: "last {{join.structured.a.b.1}} of {{join.structured.a}}",
				Needs: []string{"join"}},
			task.Task{ID: "join", Text: "join {{left.output}} and {{top.output}}, {{top.output}}", Context: "my own",
				Needs: []string{"left", "right", "top"}, Schema: []byte(`{}`)},
			task.Task{ID: "left", Text: "left", Needs: []string{"top"}},
			task.Task{ID: "right", Text: "right", Needs: []string{"top"}},
			task.Task{ID: "top", Text: "top"})
		for _, r := range results {
			assert.True(t, r.Success, r.Err())
		}
		assert.Equal(t, 4*time.Second, time.Since(s.start))
		assert.Equal(t, "join [output of left] and [output of top], [output of top]", got.Text)
		assert.Equal(t, "my own\n\n[output of left]:\n\n\n[output of top]:\nthe top says {{left.output}}", got.Context,
			"an output is not expanded again")
		assert.Equal(t, "last [a.b.1 of join] of [a of join]", last.Text)
		assert.Equal(t, "[a.b.1 of join]:\ntwo\n\n[a of join]:\n{\"b\":[1,\"two\"]}", last.Context)
		assert.NotEmpty(t, last.Needed)
	})
}

// A failed need makes those that need it skipped, with the chain. The others run. Only those that ran can halt a
// batch.
func TestFailingNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(nil)
		s.does["bad"] = failing
		s.does["unsure"] = func(_ context.Context, job task.Job, _ Parent) task.Result {
			return job.Ended(task.UnknownOutcome, "as told")
		}
		results := s.planned(t.Context(), t, Batch{Halt: halt.New(halt.Policy{Fail: 3}, 6)},
			task.Task{ID: "b", Text: "bad"}, task.Task{ID: "c", Text: "c", Needs: []string{"b"}},
			task.Task{ID: "d", Text: "d", Needs: []string{"c"}}, task.Task{ID: "e", Text: "e"},
			task.Task{ID: "u", Text: "unsure"}, task.Task{ID: "v", Text: "v", Needs: []string{"u", "e"}})
		assert.Equal(t, []task.Status{task.Failed, task.Skipped, task.Skipped, task.Completed, task.UnknownOutcome,
			task.Skipped}, statuses(results))
		assert.Equal(t, "needs b, which failed", results[1].Err())
		assert.Equal(t, "needs c, which needs b, which failed", results[2].Err())
		assert.Equal(t, "needs u, which failed (unknown_outcome)", results[5].Err())
		assert.Zero(t, results[1].Attempts)
	})
}

// A batch that halts because a task has failed says of those that need it that they are skipped, and of the rest that
// they were not started.
func TestHaltWithNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(func(cfg *Config) { cfg.Limits.MaxParallel = 1 })
		s.does["bad"] = failing
		results := s.planned(t.Context(), t, Batch{Halt: halt.New(halt.Policy{Fail: 1}, 3)},
			task.Task{ID: "b", Text: "bad"}, task.Task{Text: "c", Needs: []string{"b"}}, task.Task{Text: "d"})
		assert.Equal(t, []task.Status{task.Failed, task.Skipped, task.Cancelled}, statuses(results))
		assert.Equal(t, "not started: a task failed", results[2].Err())
	})
}

// Halts at any moment: what waited for the task that halts never starts.
func TestHaltAtAnyMoment(t *testing.T) {
	for range 300 {
		s := newSite(func(cfg *Config) { cfg.Limits.MaxParallel = 4 })
		s.does["bad"] = failing
		s.does["quick"] = func(_ context.Context, job task.Job, _ Parent) task.Result {
			return job.Ended(task.Completed, "")
		}
		tasks := []task.Task{writer("bad", "x"), writer("next", "x")}
		for range 10 {
			tasks = append(tasks, reader("quick", "y"))
		}
		s.planned(t.Context(), t, Batch{Halt: halt.New(halt.Policy{Fail: 1}, 2)}, tasks...)
		assert.NotContains(t, s.order, "next")
	}
}

// Of the tasks that could start, those with a higher priority come first, and then those that stand first.
func TestPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(func(cfg *Config) { cfg.Limits.MaxParallel = 1 })
		s.planned(t.Context(), t, Batch{}, task.Task{ID: "a", Text: "a"}, task.Task{Text: "b"},
			task.Task{Text: "high", Priority: 5}, task.Task{Text: "c"},
			task.Task{Text: "free", Priority: 9, Needs: []string{"a"}})
		assert.Equal(t, []string{"high", "a", "free", "b", "c"}, s.order)
	})
}

// A task that others keep passing has its turn after some starts of others, however often the feeder looks ahead.
func TestAgeing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(func(cfg *Config) { cfg.Limits.MaxParallel = 1 })
		tasks := []task.Task{{Text: "low"}}
		for i := range 60 {
			tasks = append(tasks, task.Task{Text: fmt.Sprint("high", i), Priority: 3})
		}
		s.planned(t.Context(), t, Batch{}, tasks...)
		at := slices.Index(s.order, "low")
		assert.Greater(t, at, 25)
		assert.Less(t, at, 45)
	})
}

// A resume from the record counts as what it says, and the key of a task has the results that it needs.
func TestPlanFromTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(nil)
		var asked sync.Map
		known := past(func(i int, of task.Task) (task.Result, bool) {
			asked.Store(i, of.Needed)
			r := of.Ended(task.Completed, "")
			if i == 1 {
				r = of.Ended(task.Failed, "then")
			}
			r.Output = "known"
			return r, i < 2
		})
		results := s.planned(t.Context(), t, Batch{Past: known}, task.Task{ID: "good", Text: "good"},
			task.Task{ID: "bad", Text: "bad"}, task.Task{ID: "x", Text: "x {{good.output}}", Needs: []string{"good"}},
			task.Task{ID: "y", Text: "y", Needs: []string{"bad"}}, task.Task{ID: "z", Text: "z", Needs: []string{"x"}})
		assert.Equal(t, []task.Status{task.Completed, task.Failed, task.Completed, task.Skipped, task.Completed},
			statuses(results))
		assert.Equal(t, []string{"x [output of good]", "z"}, s.order)
		_, skipped := asked.Load(3)
		assert.False(t, skipped)
		for i, want := range []bool{false, false, true, false, true} {
			digest, _ := asked.Load(i)
			assert.Equal(t, want, digest != nil && digest != "", i)
		}
	})
}

// Also when no task starts any more, a result is known whose needs are known.
func TestStoppedPlanFromTheRecord(t *testing.T) {
	s := newSite(nil)
	known := past(func(i int, of task.Task) (task.Result, bool) {
		return of.Ended(task.Completed, ""), i < 2 && (i == 0 || of.Needed != "")
	})
	stop := make(chan struct{})
	close(stop)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	results := s.planned(ctx, t, Batch{Past: known, Stop: stop}, task.Task{ID: "a", Text: "a"},
		task.Task{ID: "b", Text: "b {{a.output}}", Needs: []string{"a"}},
		task.Task{ID: "c", Text: "c", Needs: []string{"b"}}, task.Task{ID: "d", Text: "d", Needs: []string{"c"}})
	assert.Equal(t, []task.Status{task.Completed, task.Completed, task.Cancelled, task.Cancelled}, statuses(results))
	assert.Empty(t, s.order)
}

// What is wrong with the needs of delegated tasks is said before any of them starts.
func TestWrongNeeds(t *testing.T) {
	for want, tasks := range map[string][]task.Task{
		"needs: a -> b -> a":  {{ID: "a", Text: "a", Needs: []string{"b"}}, {ID: "b", Text: "b", Needs: []string{"a"}}},
		"no task has that id": {{ID: "a", Text: "a", Needs: []string{"b"}}},
		"given twice":         {{ID: "a", Text: "a"}, {ID: "a", Text: "b", Priority: 1}},
		"not in its needs": {{ID: "a", Text: "a"}, {ID: "b", Text: "b"},
			{Text: "{{b.output}}", Needs: []string{"a"}}},
		`uses the result of "a"`: {{ID: "a", Text: "a"}, {Text: "{{a.output}}"}},
		`uses the field "x" of "a", which has no schema`: {{ID: "a", Text: "a"},
			{Text: "{{a.structured.x}}", Needs: []string{"a"}}},
	} {
		asks := &approver{asks: tool.High, says: tool.Decision{Allowed: true}}
		s := newSite(func(cfg *Config) { cfg.Approve = asks })
		for i := range tasks {
			tasks[i].Agent = "coder"
		}
		results := s.Delegate(t.Context(), agents.Agent{}, tasks)
		require.Len(t, results, len(tasks))
		for _, r := range results {
			assert.Equal(t, task.Misused, r.Status)
			assert.Contains(t, r.Err(), want)
		}
		assert.Empty(t, s.order)
		assert.Empty(t, asks.asked, "nobody is asked about tasks that cannot run")
	}
	s := newSite(nil)
	_, _ = s.zero(t.Context(), agents.Agent{}, func(ctx context.Context, p Parent) {
		_, err := p.Spawn(ctx, task.Task{Text: "x", Needs: []string{"a"}})
		assert.ErrorContains(t, err, "cannot need other tasks")
	})
	// The schema of an agent is one of its tasks.
	s.agents.Registry.(registry)["analyst"] = agents.Agent{Name: "analyst", Schema: []byte(`{}`)}
	for agent, want := range map[string]task.Status{"analyst": task.Completed, "coder": task.Misused} {
		first := s.Delegate(t.Context(), agents.Agent{}, []task.Task{{ID: "a", Text: "a", Agent: agent},
			{Text: "{{a.structured.x}}", Needs: []string{"a"}}})[0]
		assert.Equal(t, want, first.Status, "%s: %s", agent, first.Err())
	}
	// A need that is refused is one that failed.
	results := s.Delegate(t.Context(), agents.Agent{}, []task.Task{{ID: "c", Text: "c", Needs: []string{"b"}},
		{ID: "b", Text: "b", Needs: []string{"a"}}, {ID: "a", Text: "a", Agent: "nobody"}, {Text: "d"}})
	assert.Equal(t, []task.Status{task.Skipped, task.Skipped, task.Misused, task.Completed}, statuses(results))
	assert.Equal(t, "needs b, which is not run", results[0].Err())
	// A batch without a plan knows no needs.
	all := &order.Gathered{}
	require.NoError(t, s.Batch(t.Context(), Batch{Results: all,
		Tasks: Tasks(task.Task{Text: "x", Needs: []string{"a"}})}))
	assert.Equal(t, task.Misused, all.List[0].Status)
}

// pick returns some of the names.
func pick(r *rand.Rand, most int, names ...string) (some []string) {
	for range r.IntN(most + 1) {
		if name := names[r.IntN(len(names))]; !slices.Contains(some, name) {
			some = append(some, name)
		}
	}
	return some
}

// TestRandomBatches: of 1,000 tasks with random targets and needs, no two that may not meet are at work at once, each
// starts after what it needs, and each has one result.
func TestRandomBatches(t *testing.T) {
	seeds, n := 200, 1000
	if testing.Short() {
		seeds, n = 3, 200
	}
	const parts = 4
	for part := range parts {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			for seed := part; seed < seeds; seed += parts {
				randomBatch(t, seed, n)
			}
		})
	}
}

// randomBatch runs a random batch of n tasks.
func randomBatch(t *testing.T, seed, n int) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(uint64(seed), 13))
		s := newSite(func(cfg *Config) { cfg.Limits.MaxParallel = 1 + r.IntN(20) })
		var tasks []task.Task
		folders := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
		for i := range n {
			one := task.Task{ID: fmt.Sprint(i), Text: fmt.Sprint("t", i), Priority: r.IntN(3)}
			if r.IntN(2) == 0 {
				one.Agent = "coder"
			}
			for _, name := range pick(r, 3, folders...) {
				one.Targets = append(one.Targets, name+[]string{"", "/x", "/y", "/*", "/x/z"}[r.IntN(5)])
			}
			if len(one.Targets) == 0 && r.IntN(20) > 0 {
				one.Targets = []string{fmt.Sprint("own/", i)}
			}
			if i > 0 && r.IntN(4) == 0 {
				one.Needs = []string{fmt.Sprint(r.IntN(i))}
			}
			s.does[one.Text] = func(ctx context.Context, job task.Job, _ Parent) task.Result {
				if i%97 == 13 {
					return failing(ctx, job, nil)
				}
				return after(ctx, job, time.Duration(1+i*7919%10)*time.Second)
			}
			tasks = append(tasks, one)
		}
		results := s.planned(t.Context(), t, Batch{}, tasks...)
		assert.Empty(t, s.wrong)
		for i, one := range tasks {
			for _, id := range one.Needs {
				var on int
				_, _ = fmt.Sscan(id, &on)
				if !results[on].Success {
					assert.Equal(t, task.Skipped, results[i].Status)
				} else if results[i].Attempts > 0 {
					assert.GreaterOrEqual(t, s.began[one.Text], s.ended[tasks[on].Text])
				}
			}
		}
	})
}

// TestRandomTrees: whatever agents delegate, at any depth, in the foreground and in the background, no two that may
// not meet are at work at once, and all come to an end.
func TestRandomTrees(t *testing.T) {
	seeds := 200
	if testing.Short() {
		seeds = 30
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(seed), 14))
			s := newSite(func(cfg *Config) {
				cfg.Limits.MaxParallel = 1 + r.IntN(6)
				cfg.Plan = []access.Mode{access.Auto, access.Strict}[r.IntN(2)]
			})
			n := 0
			var grow func(depth int) task.Task
			grow = func(depth int) task.Task {
				n++
				one := task.Task{Text: fmt.Sprint("t", n), Targets: pick(r, 2, "a", "b", "a/x", "b/*", "c")}
				if r.IntN(2) == 0 {
					one.Agent = "coder"
				}
				var waits, background []task.Task
				for range r.IntN(4) {
					if depth > 2 {
						break
					}
					if child := grow(depth + 1); r.IntN(3) > 0 {
						waits = append(waits, child)
					} else {
						background = append(background, child)
					}
				}
				pause, collect := time.Duration(r.IntN(3))*time.Second, r.IntN(3) > 0
				s.does[one.Text] = func(ctx context.Context, job task.Job, p Parent) task.Result {
					sleep(ctx, pause)
					for _, child := range background {
						_, err := p.Spawn(ctx, child)
						assert.NoError(t, err)
					}
					sleep(ctx, pause)
					s.leave(job)
					p.Delegate(ctx, waits)
					if collect {
						_, _ = p.Wait(ctx, nil, 0)
					}
					if ctx.Err() != nil { // it is being ended, and has no lease
						return job.Ended(task.Killed, "")
					}
					s.enter(job)
					return after(ctx, job, time.Second)
				}
				return one
			}
			tasks := []task.Task{writer("first", "a")}
			for range 1 + r.IntN(4) {
				tasks = append(tasks, grow(0))
			}
			if r.IntN(3) == 0 { // a batch without a plan
				s.unplanned = s.cfg.Plan == access.Auto
				all := &order.Gathered{}
				assert.NoError(t, s.Batch(t.Context(), Batch{ID: "b", Results: all, Tasks: Tasks(tasks...)}))
				for _, res := range all.List {
					assert.True(t, res.Success, res.Err())
				}
				assert.Empty(t, s.wrong)
				return
			}
			for _, res := range s.planned(t.Context(), t, Batch{}, tasks...) {
				assert.True(t, res.Success, res.Err())
			}
			assert.Empty(t, s.wrong)
		})
	}
}

// counted is a pace that counts how often it is asked.
type counted struct {
	pace.Pace
	asked int
}

func (c *counted) Next() time.Duration {
	c.asked++
	return c.Pace.Next()
}

// While a batch waits for its pace, its tasks that wait for their leases keep their places among those who asked, and
// those that could start are in nobody's way.
func TestPaceKeepsThePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(nil)
		s.does["holder"] = func(ctx context.Context, job task.Job, _ Parent) task.Result {
			return after(ctx, job, 10500*time.Millisecond)
		}
		s.does["lead"] = func(ctx context.Context, job task.Job, p Parent) task.Result {
			sleep(ctx, 4*time.Second)
			p.Delegate(ctx, []task.Task{writer("later", "x")})
			return job.Ended(task.Completed, "")
		}
		var wg sync.WaitGroup
		wg.Go(func() { s.planned(t.Context(), t, Batch{ID: "1"}, writer("holder", "x"), reader("lead", "docs")) })
		time.Sleep(time.Second)
		slow := &counted{Pace: pace.Pace{Delay: 2 * time.Second}}
		s.planned(t.Context(), t, Batch{ID: "2", Pace: slow},
			writer("waits", "x"), reader("r1", "y"), reader("r2", "y"), reader("r3", "y"))
		wg.Wait()
		assert.Equal(t, 10500*time.Millisecond, s.began["waits"])
		assert.Equal(t, 11500*time.Millisecond, s.began["later"])
		assert.Empty(t, s.wrong)
	})
	synctest.Test(t, func(t *testing.T) {
		s := newSite(func(cfg *Config) { cfg.Plan = access.Strict })
		slow := &counted{Pace: pace.Pace{Delay: 3 * time.Second}}
		b := Batch{Results: &order.Gathered{}, Pace: slow}
		b.Tasks = Tasks(writer("a", "x"), writer("b", "x"), writer("c", "x"), writer("d", "x"))
		require.NoError(t, s.Batch(t.Context(), b))
		assert.Equal(t, []string{"a", "b", "c", "d"}, s.order)
		assert.Equal(t, 10*time.Second, time.Since(s.start))
		assert.Less(t, slow.asked, 30)
		assert.Empty(t, s.wrong)
	})
}

// A task that asks for its lease again still works in a copy of its own.
func TestPaceKeepsTheCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(func(cfg *Config) { cfg.Plan, cfg.Copies = access.Strict, true })
		b := Batch{Results: &order.Gathered{}, Pace: &pace.Pace{Delay: 500 * time.Millisecond}}
		b.Tasks = Tasks(writer("a"), writer("b"))
		require.NoError(t, s.Batch(t.Context(), b))
		assert.Equal(t, 500*time.Millisecond, s.began["b"])
	})
}
