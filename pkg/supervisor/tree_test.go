package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
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
	"qq/pkg/event"
	"qq/pkg/supervisor/ceiling"
	"qq/pkg/supervisor/limits"
	"qq/pkg/task"
)

// registry is agents by their name in lower case.
type registry map[string]agents.Agent

func (r registry) Lookup(name string) (agents.Agent, error) {
	if a, ok := r[strings.ToLower(name)]; ok {
		return a, nil
	}
	return agents.Agent{}, &agents.NotFoundError{Name: name, Known: []string{"default", "coder"}}
}

func everybody() registry {
	return registry{
		"default":    {Name: "default", Tools: []string{"read_file", "delegate_task"}},
		"coder":      {Name: "coder"},
		"explorer":   {Name: "explorer", Agents: []string{}, Timeout: 180 * time.Second},
		"researcher": {Name: "researcher", Agents: []string{"Explorer", "summarizer"}},
		"worker":     {Name: "worker", Timeout: 600 * time.Second},
	}
}

// launcher plays the children. A task does what its name in does says; any
// other echoes its text.
type launcher struct {
	does map[string]func(ctx context.Context, job task.Job, p Parent) task.Result

	mu   sync.Mutex
	jobs []task.Job
}

func (l *launcher) Launch(ctx context.Context, job task.Job, p Parent) task.Result {
	l.mu.Lock()
	l.jobs = append(l.jobs, job)
	l.mu.Unlock()
	if do := l.does[job.Text]; do != nil {
		return do(ctx, job, p)
	}
	r := job.Ended(task.Completed, "")
	r.Output = "did " + job.Text
	r.Usage = task.Usage{InputTokens: 3, OutputTokens: 4}
	return r
}

func (l *launcher) texts() (s []string) {
	for _, j := range l.jobs {
		s = append(s, j.Text)
	}
	return s
}

// logged is a Log in memory.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *logged) Spawned(id, agent string, depth int, text string) {
	l.add("%s spawned %s at %d: %s", id, agent, depth, text)
}
func (l *logged) Completed(id string, success bool, exit int) {
	l.add("%s completed %v %d", id, success, exit)
}
func (l *logged) Dispatched(id string, n int, tasks []string) {
	l.add("%s dispatched %d: %s", id, n, strings.Join(tasks, "; "))
}
func (l *logged) Failed(id, msg string) { l.add("%s failed: %s", id, msg) }

// harness is a Supervisor with all that it reports to.
type harness struct {
	*Supervisor
	launcher *launcher
	log      *logged
	events   []event.Event
}

func newHarness(change func(*Config)) *harness {
	h := &harness{launcher: &launcher{does: map[string]func(context.Context, task.Job, Parent) task.Result{}},
		log: &logged{}}
	var mu sync.Mutex
	n := 0
	cfg := Config{
		Limits: Limits{Limits: task.Limits{MaxParallel: 2, MaxDepth: 3, MaxChildren: 10}}, Agents: everybody(),
		Launcher: h.launcher,
		Events:   event.NewStream("trace", event.SinkFunc(func(e event.Event) { h.events = append(h.events, e) })),
		Log:      h.log,
		NewID: func() string {
			mu.Lock()
			defer mu.Unlock()
			n++
			return fmt.Sprintf("0190-execution-%d", n)
		},
	}
	if change != nil {
		change(&cfg)
	}
	h.Supervisor = New(cfg)
	return h
}

// launchFunc is a Launcher made of a function.
type launchFunc func(ctx context.Context, job task.Job, p Parent) task.Result

func (l launchFunc) Launch(ctx context.Context, job task.Job, p Parent) task.Result {
	return l(ctx, job, p)
}

// with is a Registry with one agent more, under a name of its own.
type with struct {
	ceiling.Registry
	name  string
	agent agents.Agent
}

func (w with) Lookup(name string) (agents.Agent, error) {
	if name == w.name {
		return w.agent, nil
	}
	return w.Registry.Lookup(name)
}

// zero runs do as job zero, whose agent is by.
func (h *harness) zero(ctx context.Context, by agents.Agent, do func(context.Context, Parent)) (task.Result, error) {
	all := h.cfg.Agents
	defer func() { h.agents.Registry = all }()
	h.agents.Registry = with{all, "the agent of this process", by}
	launch := func(ctx context.Context, job task.Job, p Parent) task.Result {
		do(ctx, p)
		return job.Ended(task.Completed, "")
	}
	return h.Run(ctx, task.Task{Text: "zero", Agent: "the agent of this process"}, "", launchFunc(launch))
}

// Delegate is what the agent of this process hands on.
func (h *harness) Delegate(ctx context.Context, by agents.Agent, tasks []task.Task) (results []task.Result) {
	_, _ = h.zero(ctx, by, func(ctx context.Context, p Parent) { results = p.Delegate(ctx, tasks) })
	return results
}

func failing(context.Context, task.Job, Parent) task.Result {
	return task.Task{}.Ended(task.Failed, "as told")
}

// batch runs a batch and returns its results.
func (h *harness) batch(t *testing.T, tasks ...task.Task) []task.Result {
	t.Helper()
	var results []task.Result
	require.NoError(t, h.Batch(t.Context(), Batch{
		ID: "b", Count: len(tasks),
		Tasks: func(yield func(task.Task, error) bool) {
			for _, tk := range tasks {
				if !yield(tk, nil) {
					return
				}
			}
		},
		Results: sink{deliver: func(r task.Result) error { results = append(results, r); return nil }},
	}))
	return results
}

// brief is what a test compares of results.
func brief(results []task.Result) (s []string) {
	for i, r := range results {
		if r.Index != i {
			return []string{fmt.Sprintf("result %d has index %d", i, r.Index)}
		}
		s = append(s, strings.TrimSpace(fmt.Sprintf("%s %s %s%s", r.Agent, r.Status, r.Output, r.Err())))
	}
	return s
}

func TestCheck(t *testing.T) {
	h := newHarness(nil)
	require.NoError(t, h.Check(task.Task{Text: "do"}))
	require.NoError(t, h.Check(task.Task{Text: "do", Agent: "CODER"}))
	require.EqualError(t, h.Check(task.Task{Text: " "}), "task is empty")
	require.EqualError(t, h.Check(task.Task{Text: "do", Agent: "nobody"}),
		"Agent not found in registry: nobody (known: default, coder)")
	assert.Empty(t, h.launcher.jobs, "nothing starts")
}

// Each start and each end is told exactly once, to the log and as an event, and
// names are those of the definitions.
func TestBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(func(c *Config) { c.Limits.MaxParallel = 1 })
		h.launcher.does["fail"] = func(_ context.Context, j task.Job, _ Parent) task.Result {
			time.Sleep(1500 * time.Millisecond)
			r := j.Ended(task.Unavailable, "no answer from the server")
			r.Usage = task.Usage{InputTokens: 1}
			return r
		}
		long := strings.Repeat("word ", 50)
		results := h.batch(t, task.Task{Text: long, Agent: "Coder", ID: "mine"}, task.Task{Text: "fail"})
		assert.Equal(t, []string{"coder completed did " + strings.TrimSpace(long),
			"default unavailable no answer from the server"}, brief(results))
		assert.Equal(t, "mine", results[0].ID)

		assert.Equal(t, []string{
			"cution-1 spawned coder at 1: " + long,
			"cution-1 completed true 0",
			"cution-2 spawned default at 1: fail",
			"cution-2 completed false 3",
			"cution-2 failed: unavailable: no answer from the server",
		}, h.log.lines)

		zero, three := 0, 3
		want := []event.Event{
			{Type: event.BatchStart, Count: 2},
			{Type: event.SubAgentStart, ExecutionID: "0190-execution-1", Agent: "coder", Depth: 1,
				Task: task.Shorten(long, 100)},
			{
				Type:        event.SubAgentComplete,
				ExecutionID: "0190-execution-1",
				Agent:       "coder",
				Depth:       1,
				Status:      task.Completed,
				ExitCode:    &zero,
				Usage:       &task.Usage{InputTokens: 3, OutputTokens: 4},
				Summary:     "did " + strings.TrimSpace(long),
			},
			{Type: event.SubAgentStart, ExecutionID: "0190-execution-2", Agent: "default", Depth: 1, Task: "fail"},
			{
				Type:        event.SubAgentError,
				ExecutionID: "0190-execution-2",
				Agent:       "default",
				Depth:       1,
				Status:      task.Unavailable,
				ExitCode:    &three,
				Error:       "no answer from the server",
				Usage:       &task.Usage{InputTokens: 1},
				DurationMS:  1500,
			},
			{Type: event.BatchComplete, Count: 2, FailedTasks: 1},
		}
		for i := range want {
			want[i].V, want[i].Seq, want[i].TraceID, want[i].BatchID = event.Version, int64(i+1), "trace", "b"
		}
		for i := range h.events {
			h.events[i].TS = time.Time{}
		}
		assert.Equal(t, want, h.events)
	})
}

func TestBatchFails(t *testing.T) {
	h := newHarness(nil)
	closed := errors.New("closed")
	err := h.Batch(t.Context(), Batch{
		ID:      "b",
		Tasks:   func(yield func(task.Task, error) bool) { yield(task.Task{Text: "x"}, nil) },
		Results: sink{deliver: func(task.Result) error { return closed }},
	})
	require.ErrorIs(t, err, closed)
	assert.Equal(t, event.BatchComplete, h.events[len(h.events)-1].Type, "a batch that began ends")

	disk := errors.New("disk")
	err = h.Batch(t.Context(), Batch{
		Tasks:   func(yield func(task.Task, error) bool) { yield(task.Task{}, disk) },
		Results: sink{deliver: func(task.Result) error { return nil }},
	})
	require.ErrorIs(t, err, disk)
}

// A task whose agent went away after the check still has its result.
func TestBatchUnknownAgent(t *testing.T) {
	h := newHarness(nil)
	results := h.batch(t, task.Task{Text: "x", Agent: "nobody"}, task.Task{Text: "y"})
	assert.Equal(t, []string{"nobody usage Agent not found in registry: nobody (known: default, coder)",
		"default completed did y"}, brief(results))
	assert.Equal(t, []string{"y"}, h.launcher.texts())
}

func TestNobodyIsTold(t *testing.T) {
	h := newHarness(func(c *Config) { c.Events, c.Log = nil, nil })
	assert.Equal(t, []string{"default completed did x"}, brief(h.batch(t, task.Task{Text: "x"})))
}

// What may not be done is refused in its place; the rest is done.
func TestDelegate(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.MkdirAll("sub/x", 0o700))
	require.NoError(t, os.WriteFile("file", nil, 0o600))
	here, err := os.Getwd()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(filepath.Join(here, "sub"), "absolute"))
	by := func(name string) agents.Agent { a, _ := everybody().Lookup(name); return a }
	const advice = ": name one that exists, relative to it, such as src, or leave working_dir out"
	for name, c := range map[string]struct {
		by    agents.Agent
		tasks []task.Task
		want  []string
	}{
		"mixed": {by("coder"), []task.Task{
			{Text: "a", Agent: "Explorer"}, {Text: "b", Agent: "nobody"}, {Text: "c"},
			{Text: " "}, {Text: "d", Agent: "CODER"},
			{Text: "e", Agent: "default"},
		}, []string{
			"explorer completed did a",
			"nobody usage Agent not found in registry: nobody (known: default, coder)",
			"default completed did c",
			"default usage task is empty",
			"coder completed did d",
			"default completed did e",
		}},
		"only some agents": {by("researcher"), []task.Task{
			{Text: "a", Agent: "explorer"}, {Text: "b", Agent: "coder"}, {Text: "c"}, {Text: "d", Agent: "researcher"},
		}, []string{
			"explorer completed did a",
			"coder usage researcher may not delegate to coder (allowed: Explorer, summarizer)",
			"default usage researcher may not delegate to default (allowed: Explorer, summarizer)",
			"researcher usage Cannot delegate to self",
		}},
		"no agents": {by("explorer"), []task.Task{{Text: "a", Agent: "coder"}, {Text: "b"}}, []string{
			"coder usage explorer may not delegate to coder (allowed: none)",
			"default usage explorer may not delegate to default (allowed: none)",
		}},
		"a hand for general work": {by("default"), []task.Task{{Text: "a"}, {Text: "b", Agent: "default"},
			{Text: "c", Agent: " "}}, []string{
			"default completed did a", "default completed did b", "default completed did c",
		}},
		"folders": {by("coder"), []task.Task{
			{Text: "a", WorkingDir: "sub/x"}, {Text: "b", WorkingDir: "../x"}, {Text: "c", WorkingDir: "/etc"},
			{Text: "d", WorkingDir: "a/../../b"},
			{Text: "e", WorkingDir: "file"}, {Text: "f", WorkingDir: "absolute/x"},
		}, []string{
			"default completed did a",
			`default usage working_dir "../x" is no folder inside of the working directory` + advice,
			`default usage working_dir "/etc" is no folder inside of the working directory` + advice,
			`default usage working_dir "a/../../b" is no folder inside of the working directory` + advice,
			`default usage working_dir "file" is no folder inside of the working directory` + advice,
			"default completed did f",
		}},
		"nothing": {by("coder"), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(nil)
			asked := slices.Clone(c.tasks)
			assert.Equal(t, c.want, brief(h.Delegate(t.Context(), c.by, c.tasks)))
			assert.Equal(t, asked, c.tasks, "the caller's tasks stay as they were")
			done := 0
			for _, line := range c.want {
				if strings.Contains(line, "completed") {
					done++
				}
			}
			assert.Len(t, h.launcher.jobs, done)
			logged, told := 2*done, 2*done+2
			if done > 1 {
				logged, told = logged+1, told+done
			}
			assert.Len(t, h.log.lines, logged, "a start and an end for each that was launched, a line for all")
			assert.Len(t, h.events, told, "a start and an end of the agent and of each, and progress")
		})
	}
}

// delegating is a child that hands on tasks and answers with what came back.
func delegating(tasks ...task.Task) func(context.Context, task.Job, Parent) task.Result {
	return func(ctx context.Context, job task.Job, p Parent) task.Result {
		r := job.Ended(task.Completed, "")
		r.Output = strings.Join(brief(p.Delegate(ctx, tasks)), "; ")
		return r
	}
}

// A child that is refused all that it asks for goes on at once: its slot is not
// lent to somebody else meanwhile.
func TestRefusalCostsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(func(c *Config) { c.Limits.MaxParallel = 1 })
		h.launcher.does["lead"] = delegating(task.Task{Text: "a", Agent: "nobody"})
		h.launcher.does["slow"] = func(_ context.Context, job task.Job, _ Parent) task.Result {
			time.Sleep(time.Minute)
			return job.Ended(task.Completed, "")
		}
		results := h.batch(t, task.Task{Text: "lead", Agent: "coder"}, task.Task{Text: "slow"})
		assert.Zero(t, results[0].DurationMS)
	})
}

// What a child asks for is judged by its own definition, under the name that
// stands there.
func TestNestedDelegationIsChecked(t *testing.T) {
	h := newHarness(nil)
	h.launcher.does["research"] = delegating(task.Task{Text: "a", Agent: "EXPLORER"},
		task.Task{Text: "b", Agent: "coder"}, task.Task{Text: "c", Agent: "ReSearcher"})
	results := h.Delegate(
		t.Context(),
		agents.Agent{Name: "default"},
		[]task.Task{{Text: "research", Agent: "Researcher"}},
	)
	assert.Equal(t, []string{"researcher completed explorer completed did a; " +
		"coder usage researcher may not delegate to coder (allowed: Explorer, summarizer); " +
		"researcher usage Cannot delegate to self"}, brief(results))
	require.Len(t, h.launcher.jobs, 2)
	parent, child := h.launcher.jobs[0], h.launcher.jobs[1]
	assert.Equal(t, []any{"researcher", 1, ""}, []any{parent.Agent, parent.Depth, parent.Parent})
	assert.Equal(t, []any{"explorer", 2, parent.ExecutionID}, []any{child.Agent, child.Depth, child.Parent})

	var types []string
	for _, e := range h.events {
		types = append(types, fmt.Sprintf("%s %s %d", e.Type, e.Agent, e.Depth))
		if e.Depth == 2 {
			assert.Equal(t, parent.ExecutionID, e.ParentExecutionID)
		}
	}
	assert.Equal(t, []string{"sub_agent_start the agent of this process 0", "sub_agent_start researcher 1",
		"sub_agent_start explorer 2", "sub_agent_complete explorer 2", "sub_agent_complete researcher 1",
		"sub_agent_complete the agent of this process 0"}, types)
}

// A child hands down its folder, out of which nobody gets, and that it may only
// read: delegation never widens what is allowed.
func TestNestedDelegationNeverWidens(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "b"), 0o700))
	require.NoError(t, os.Symlink("/", filepath.Join(dir, "link")))
	h := newHarness(nil)
	h.launcher.does["lead"] = delegating(task.Task{Text: "same"}, task.Task{Text: "below", WorkingDir: "b"},
		task.Task{Text: "out", WorkingDir: ".."}, task.Task{Text: "through a link", WorkingDir: "link/etc"})
	h.batch(t, task.Task{Text: "lead", Agent: "coder", WorkingDir: dir, ReadOnly: true})
	got := map[string]string{}
	for _, j := range h.launcher.jobs {
		got[j.Text] = fmt.Sprint(j.WorkingDir, " ", j.ReadOnly)
	}
	assert.Equal(t, map[string]string{"lead": dir + " true", "same": dir + " true", "below": dir + "/b true"}, got)

	h = newHarness(nil)
	h.launcher.does["lead"] = delegating(task.Task{Text: "plain"}, task.Task{Text: "careful", ReadOnly: true})
	h.batch(t, task.Task{Text: "lead", Agent: "coder"})
	got = map[string]string{}
	for _, j := range h.launcher.jobs {
		got[j.Text] = fmt.Sprint(j.WorkingDir, " ", j.ReadOnly)
	}
	assert.Equal(t, map[string]string{"lead": " false", "plain": " false", "careful": " true"}, got)
}

// An agent that asks its own kind again and again is stopped by the depth, and by the number of children.
func TestOwnKindIsBounded(t *testing.T) {
	for _, name := range []string{"default", ""} {
		for most, want := range map[int]string{
			10: "Error: Maximum recursion depth (5) exceeded", 3: "Maximum 3 sub-agents exceeded",
		} {
			h := newHarness(func(c *Config) { c.Limits.MaxDepth, c.Limits.MaxChildren = 5, most })
			h.launcher.does["again"] = delegating(task.Task{Text: "again", Agent: name})
			results := h.Delegate(t.Context(), agents.Agent{Name: "default"}, []task.Task{{Text: "again", Agent: name}})
			assert.Len(t, h.launcher.jobs, min(most, 4))
			assert.Contains(t, results[0].Output+results[0].Err(), "default limit "+want)
		}
	}
}

func TestDepth(t *testing.T) {
	h := newHarness(nil)
	h.launcher.does["one"] = delegating(task.Task{Text: "two", Agent: "worker"})
	h.launcher.does["two"] = delegating(task.Task{Text: "three", Agent: "coder"})
	results := h.batch(t, task.Task{Text: "one", Agent: "coder"})
	assert.Equal(
		t,
		[]string{"coder completed worker completed coder limit Error: Maximum recursion depth (3) exceeded"},
		brief(results),
	)
	assert.Equal(t, []string{"one", "two"}, h.launcher.texts())

	h = newHarness(func(c *Config) { c.Depth = 2 })
	assert.Equal(t, []string{"default limit Error: Maximum recursion depth (3) exceeded"},
		brief(h.batch(t, task.Task{Text: "x"})))
}

// Limits that the supervisor keeps refuse in their place too.
func TestMaxChildren(t *testing.T) {
	h := newHarness(func(c *Config) { c.Limits.MaxChildren = 1 })
	results := h.Delegate(t.Context(), agents.Agent{Name: "coder"},
		[]task.Task{{Text: " "}, {Text: "b"}, {Text: "c", Agent: "nobody"}, {Text: "d"}})
	assert.Equal(t, []string{
		"default usage task is empty",
		"default completed did b",
		"nobody usage Agent not found in registry: nobody (known: default, coder)",
		"default limit Maximum 1 sub-agents exceeded",
	}, brief(results))
}

// The timeout of a definition replaces the default, and that of a task replaces both.
func TestTimeouts(t *testing.T) {
	for _, c := range []struct {
		limit time.Duration
		task  task.Task
		want  time.Duration
	}{
		{300 * time.Second, task.Task{Agent: "explorer"}, 180 * time.Second},
		{300 * time.Second, task.Task{Agent: "worker"}, 600 * time.Second},
		{300 * time.Second, task.Task{Agent: "coder"}, 300 * time.Second},
		{300 * time.Second, task.Task{Agent: "explorer", Timeout: 400}, 400 * time.Second},
		{0, task.Task{Agent: "worker"}, 600 * time.Second},
		{0, task.Task{Agent: "coder"}, 0},
	} {
		h := newHarness(func(cfg *Config) { cfg.Limits.ChildTimeout = c.limit })
		c.task.Text = "x"
		h.batch(t, c.task)
		assert.Equal(t, c.want, h.launcher.jobs[0].Allowed, c.task.Agent)
	}
}

func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(nil)
		h.launcher.does["hang"] = func(ctx context.Context, job task.Job, _ Parent) task.Result {
			<-ctx.Done()
			return job.Ended(task.Killed, "killed")
		}
		time.AfterFunc(time.Second, func() {
			assert.False(t, h.Cancel("nobody"))
			assert.True(t, h.Cancel("0190-execution-1"))
		})
		results := h.Delegate(t.Context(), agents.Agent{Name: "coder"}, []task.Task{{Text: "hang"}})
		assert.Equal(t, []string{"default cancelled Sub-agent cancelled by user."}, brief(results))
		assert.Equal(t, "cution-1 failed: cancelled: Sub-agent cancelled by user.", h.log.lines[2])
		assert.False(t, h.Cancel("0190-execution-1"), "it has ended")
	})
}

// A panic of a launcher ends one task, with its start and its end told.
func TestPanic(t *testing.T) {
	h := newHarness(nil)
	h.launcher.does["panic"] = func(context.Context, task.Job, Parent) task.Result { panic("as told") }
	h.launcher.does["fail"] = failing
	results := h.batch(t, task.Task{Text: "panic"}, task.Task{Text: "fail"}, task.Task{Text: "x"})
	assert.Equal(t, []string{"default failed panic in the supervisor: as told", "default failed as told",
		"default completed did x"}, brief(results))
	assert.Len(t, h.events, 2+6)
}

func TestShortID(t *testing.T) {
	assert.Equal(t, "a1b2c3d4", task.ShortID("0190b6c2-7e1f-7000-8000-0000a1b2c3d4"))
	assert.Equal(t, "x", task.ShortID("x"))
	assert.Empty(t, task.ShortID(""))
}

// Job zero, a task of a batch, a delegated task and a child in the background have the same limits:
// what a person has set replaces what the definition says, upward and downward, and the definition
// replaces a default. Only the default of the run time is none for job zero.
func TestLimitsOfEveryJob(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		run, definition time.Duration
		by              string
		want, zero      time.Duration
	}{
		{0, 0, "", 0, 0}, {0, 9 * s, "", 9 * s, 9 * s}, {5 * s, 0, "", 5 * s, 0},
		{5 * s, 9 * s, "", 9 * s, 9 * s}, {9 * s, 5 * s, "", 5 * s, 5 * s},
		{0, 0, "me", 0, 0}, {0, 9 * s, "me", 0, 0}, {5 * s, 0, "me", 5 * s, 5 * s},
		{5 * s, 9 * s, "me", 5 * s, 5 * s}, {9 * s, 5 * s, "me", 9 * s, 9 * s},
	} {
		synctest.Test(t, func(t *testing.T) {
			var zero task.Job
			limited := agents.Agent{Name: "default", Timeout: c.definition, IdleTimeout: c.definition}
			h := newHarness(func(cfg *Config) {
				cfg.Limits = Limits{
					Limits: task.Limits{
						MaxParallel: 1, MaxDepth: 3, MaxChildren: 9, ChildTimeout: c.run, IdleTimeout: c.run,
					},
					TimeoutBy: limits.Source{By: c.by}, IdleBy: limits.Source{By: c.by},
				}
				cfg.Agents = registry{"default": limited}
			})
			h.batch(t, task.Task{Text: "x"})
			_, err := h.zero(t.Context(), limited, func(_ context.Context, p Parent) { zero = p.(*handle).job })
			require.NoError(t, err)
			_, err = h.zero(t.Context(), agents.Agent{Name: "lead"}, func(ctx context.Context, p Parent) {
				p.Delegate(ctx, []task.Task{{Text: "x"}})
				child, err := p.Spawn(ctx, task.Task{Text: "x"})
				require.NoError(t, err)
				_, err = p.Wait(ctx, []string{child.ID}, 0)
				require.NoError(t, err)
			})
			require.NoError(t, err)
			assert.Equal(t, []time.Duration{c.zero, c.want}, []time.Duration{zero.Allowed, zero.Idle}, "%+v", c)
			require.Len(t, h.launcher.jobs, 3)
			for _, job := range h.launcher.jobs {
				assert.Equal(t, []time.Duration{c.want, c.want}, []time.Duration{job.Allowed, job.Idle}, "%+v", c)
			}
		})
	}
}

// The timeout of a task from a person replaces the limit of its agent; an agent that delegates can only
// lower it.
func TestLimitOfATask(t *testing.T) {
	for _, by := range []string{"", "me"} {
		h := newHarness(func(cfg *Config) {
			cfg.Limits.ChildTimeout, cfg.Limits.TimeoutBy = 180*time.Second, limits.Source{By: by}
		})
		lower := task.Task{Text: "lower", Agent: "explorer", Timeout: 9}
		higher := task.Task{Text: "higher", Agent: "explorer", Timeout: 200}
		h.batch(t, lower, higher)
		h.launcher.does["lead"] = delegating(lower, higher)
		h.batch(t, task.Task{Text: "lead", Agent: "coder", Timeout: 1000})
		got := map[string][]time.Duration{}
		for _, job := range h.launcher.jobs {
			got[job.Text] = append(got[job.Text], job.Allowed)
		}
		assert.Equal(t, []time.Duration{9 * time.Second, 9 * time.Second}, got["lower"])
		assert.Equal(t, []time.Duration{200 * time.Second, 180 * time.Second}, got["higher"])
	}
}
