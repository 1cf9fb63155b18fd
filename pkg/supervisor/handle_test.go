package supervisor

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/agents"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/supervisor/order"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// approver is an Approvals that notes what it is asked and answers what it is told.
type approver struct {
	asks   tool.Risk // from which risk on somebody would be asked
	says   tool.Decision
	mu     sync.Mutex
	asked  []tool.Question
	during func()
}

func (d *approver) Needs(q tool.Question) bool { return q.Intent.Risk == d.asks }

func (d *approver) Ask(_ context.Context, q tool.Question) tool.Decision {
	if !d.Needs(q) {
		return tool.Decision{Allowed: true}
	}
	d.mu.Lock()
	d.asked = append(d.asked, q)
	d.mu.Unlock()
	if d.during != nil {
		d.during()
	}
	return d.says
}

// Handing work to an agent that can change something is asked about, and how
// risky it is does not depend on what anybody says.
func TestDelegationIsApproved(t *testing.T) {
	for name, c := range map[string]struct {
		tasks   []task.Task
		risk    tool.Risk
		tool    string
		summary string
	}{
		"one writer": {[]task.Task{{Text: "a", Agent: "coder"}}, tool.Medium, "delegate_task", "delegate to coder: a"},
		"two writers": {[]task.Task{{Text: "a", Agent: "coder"}, {Text: "b", Agent: "coder"}}, tool.High,
			"run_parallel_tasks", "delegate 2 tasks at once, 2 of them to agents that can change things"},
		"made up": {[]task.Task{{Text: "a", Temporary: &task.Temporary{Tools: []string{"edit_file"}}}}, tool.Medium,
			"spawn_agent", "delegate to temporary-1: a"},
		"reader":       {[]task.Task{{Text: "a"}}, tool.Low, "", ""},
		"only to look": {[]task.Task{{Text: "a", Agent: "coder", ReadOnly: true}}, tool.Low, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			ask := &approver{asks: c.risk, says: tool.Decision{Reason: "the user said no"}}
			if c.risk == tool.Low {
				ask.asks = tool.Medium
			}
			h := newHarness(func(cfg *Config) { cfg.Approve = ask })
			results := h.Delegate(t.Context(), agents.Agent{Name: "lead", Description: "all tools"}, c.tasks)
			if c.tool == "" {
				assert.Empty(t, ask.asked)
				assert.True(t, results[0].Success)
				return
			}
			require.Len(t, ask.asked, 1)
			q := ask.asked[0]
			assert.Equal(t, []string{"lead"}, q.Chain)
			assert.Equal(t, c.tool, q.Intent.Tool)
			assert.Equal(t, c.risk, q.Intent.Risk)
			assert.Equal(t, c.summary, q.Intent.Summary)
			for i, r := range results {
				assert.Equal(t, task.Refused, r.Status)
				assert.Equal(t, "the user said no", r.Err())
				assert.Equal(t, i, r.Index)
			}
			assert.Empty(t, h.launcher.jobs)
		})
	}
}

// Who asks through which chain is known at the root, whatever a child says.
func TestApproveKnowsWhoAsks(t *testing.T) {
	ask := &approver{asks: tool.High, says: tool.Decision{Allowed: true}}
	h := newHarness(func(c *Config) { c.Approve = ask })
	var decided tool.Decision
	var gone Parent
	var mu sync.Mutex
	h.launcher.does["deep"] = func(ctx context.Context, job task.Job, p Parent) task.Result {
		d := p.Approve(ctx, tool.Intent{Tool: "run_pty_cmd", Risk: tool.High})
		mu.Lock()
		defer mu.Unlock()
		decided, gone = d, p
		return job.Ended(task.Completed, "")
	}
	h.launcher.does["lead"] = delegating(task.Task{Text: "deep", Agent: "worker"})
	h.Delegate(t.Context(), agents.Agent{Name: "default"}, []task.Task{{Text: "lead", Agent: "coder"}})
	require.Len(t, ask.asked, 1)
	q := ask.asked[0]
	assert.Equal(t, []string{"default", "coder", "worker"}, q.Chain)
	assert.Equal(t, 2, q.Depth)
	assert.Equal(t, h.launcher.jobs[0].ExecutionID, q.ParentExecutionID)
	assert.Equal(t, h.launcher.jobs[1].ExecutionID, q.ExecutionID)
	assert.Equal(t, "deep", q.Task)
	assert.Zero(t, q.Number)
	assert.True(t, decided.Allowed)
	assert.Equal(t, "the child is gone", gone.Approve(t.Context(), q.Intent).Reason)

	ask.asked = nil
	b := Batch{ID: "b", Results: &order.Gathered{}, Tasks: Tasks(task.Task{Text: "other"},
		task.Task{Text: "lead", Agent: "coder", File: "a.md"}, task.Task{Text: "deep", Agent: "worker"})}
	require.NoError(t, h.Batch(t.Context(), b))
	require.Len(t, ask.asked, 2)
	for _, q := range ask.asked {
		want := map[int][]any{2: {"deep", 2, "a.md"}, 1: {"deep", 3, "deep"}}[q.Depth]
		assert.Equal(t, want, []any{q.Task, q.Number, q.Input}, "the task of the batch, at any depth below it")
	}
}

// While somebody is asked, another one works in the slot. Who has its answer waits for the slot then, and says so.
func TestApprovalLendsTheSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := make(chan struct{})
		ask := &approver{asks: tool.High, says: tool.Decision{Allowed: true}, during: func() { <-other }}
		h := newHarness(func(c *Config) { c.Approve, c.Limits.MaxParallel = ask, 1 })
		h.launcher.does["asks"] = func(ctx context.Context, job task.Job, p Parent) task.Result {
			p.Approve(ctx, tool.Intent{Risk: tool.High})
			return job.Ended(task.Completed, "")
		}
		h.launcher.does["other"] = func(_ context.Context, job task.Job, _ Parent) task.Result {
			close(other)
			synctest.Wait()
			all := h.Jobs()
			assert.Equal(t, []any{task.Waiting, jobs.AwaitsSlot}, []any{all[0].State, all[0].Doing})
			return job.Ended(task.Completed, "")
		}
		assert.Len(t, h.batch(t, task.Task{Text: "asks", Agent: "coder"}, task.Task{Text: "other"}), 2)
	})
}

// The time in which a person decides is not the agent's.
func TestApprovalStopsTheRunClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := &approver{asks: tool.High, during: func() { time.Sleep(time.Hour) }}
		h := newHarness(func(c *Config) { c.Approve, c.Limits.ChildTimeout = ask, 100*time.Second })
		h.launcher.does["asks"] = func(ctx context.Context, job task.Job, p Parent) task.Result {
			p.Approve(ctx, tool.Intent{Risk: tool.High})
			return after(ctx, job, 90*time.Second)
		}
		h.launcher.does["asks, and is slow"] = func(ctx context.Context, job task.Job, p Parent) task.Result {
			p.Approve(ctx, tool.Intent{Risk: tool.High})
			return after(ctx, job, 110*time.Second)
		}
		results := h.batch(t, task.Task{Text: "asks", Agent: "coder"},
			task.Task{Text: "asks, and is slow", Agent: "coder"})
		assert.Equal(t, task.Completed, results[0].Status)
		assert.Equal(t, task.Timeout, results[1].Status)
	})
}

// A ceiling only falls: who reads has others read, and a tool that is taken from
// an agent is taken from all below it.
func TestCeilings(t *testing.T) {
	for status, run := range map[task.Status]bool{task.Misused: false, task.Refused: true} { // a person says so
		h := newHarness(func(c *Config) { c.ReadOnly = run })
		reader := agents.Agent{Name: "reader", Role: agents.Gathering}
		results := h.Delegate(t.Context(), reader, []task.Task{{Text: "a", Agent: "coder"},
			{Text: "b", Agent: "coder", ReadOnly: true}, {Text: "c"}})
		assert.Equal(t, []string{
			"coder " + string(status) + " reader may only read and may not delegate to coder, which can change " +
				"things (with read_only it can be asked to look)",
			"coder completed did b", "default completed did c",
		}, brief(results))
		for _, j := range h.launcher.jobs {
			assert.True(t, j.ReadOnly, j.Text)
		}
	}

	h := newHarness(nil)
	h.launcher.does["lead"] = delegating(task.Task{Text: "below", Agent: "worker"})
	careful := agents.Agent{Name: "careful", DisallowedTools: []string{"web_fetch"}}
	h.Delegate(t.Context(), careful, []task.Task{{Text: "lead", Agent: "coder", Denied: []string{"forged"}}})
	require.Len(t, h.launcher.jobs, 2)
	assert.Equal(t, []string{"web_fetch"}, h.launcher.jobs[0].Denied)
	assert.Equal(t, []string{"web_fetch"}, h.launcher.jobs[1].Denied)
}

// Who approves a delegation sees the name and the model that the agent chose for another one.
func TestQuestionNamesTheModel(t *testing.T) {
	ask := &approver{asks: tool.Medium, says: tool.Decision{Allowed: true}}
	h := newHarness(func(cfg *Config) { cfg.Approve = ask })
	h.Delegate(t.Context(), agents.Agent{Name: "lead", Description: "all tools"}, []task.Task{{Text: "a",
		Model: "ollama:far", Temporary: &task.Temporary{Name: "scout", Tools: []string{"edit_file"}}}})
	require.Len(t, ask.asked, 1)
	assert.True(t, strings.HasPrefix(ask.asked[0].Intent.Preview, "scout\ntools: edit_file\nmodel: ollama:far\n"),
		ask.asked[0].Intent.Preview)
}

// A temporary agent has no more than who made it, and no name that a model could
// ask for.
func TestTemporary(t *testing.T) {
	h := newHarness(nil)
	maker := agents.Agent{Name: "maker", Tools: []string{"read_file", "spawn_agent"}}
	results := h.Delegate(t.Context(), maker, []task.Task{
		{Text: "a", Temporary: &task.Temporary{Prompt: "You count.", Tools: []string{"read_file"}}},
		{Text: "b", Temporary: &task.Temporary{Tools: []string{"run_pty_cmd"}}},
		{Text: "c", Agent: "temporary-1"},
	})
	assert.Equal(t, task.Completed, results[0].Status)
	assert.Equal(t, task.Misused, results[1].Status)
	assert.Contains(t, results[1].Err(), "run_pty_cmd")
	assert.Contains(t, results[2].Err(), "Agent not found in registry: temporary-1")
	made, err := h.Agent("temporary-1")
	require.NoError(t, err)
	assert.Equal(t, []string{"read_file"}, made.Tools)
	assert.True(t, strings.Contains(made.Prompt, "You count."))
}

// A temporary agent may be given a name. It never hides a registered agent, nor another temporary one.
func TestNamedTemporary(t *testing.T) {
	h := newHarness(nil)
	maker := agents.Agent{Name: "maker", Tools: []string{"read_file", "spawn_agent"}, Untrusted: true}
	named := func(name string) task.Task { return task.Task{Text: "a", Temporary: &task.Temporary{Name: name}} }
	long := strings.Repeat("a", 64)
	results := h.Delegate(t.Context(), maker, []task.Task{
		named("scout"), named("scout"), named("coder"), named("../x"), named(""), named(long), named(long),
		named("--help"), named("sсout"), named("a\nb"),
	})
	assert.Equal(t, []string{"scout completed did a", "scout-2 completed did a"}, brief(results)[:2])
	assert.Equal(t, task.Misused, results[2].Status)
	assert.Equal(t, `name "coder" is that of a registered agent: take another one, or ask that agent`, results[2].Err())
	assert.Contains(t, results[3].Err(), `name "../x": use letters, digits, - and _, at most 64`)
	assert.Equal(t, []string{"temporary-3 completed did a", long + " completed did a",
		long[:50] + "-2 completed did a"}, brief(results)[4:7])
	for _, r := range results[7:] {
		assert.Contains(t, r.Err(), "use letters, digits, - and _, at most 64, all of ASCII and no - first")
	}
	made, err := h.Agent("scout-2")
	require.NoError(t, err)
	assert.Equal(t, "scout-2", made.Name)
	assert.True(t, made.Untrusted, "it is trusted no more than who made it")
}

// Messages go up to the parent and down to a child, and nowhere else.
func TestMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(nil)
		var got string
		h.launcher.does["listen"] = func(ctx context.Context, job task.Job, p Parent) task.Result {
			require.NoError(t, p.Send(ctx, task.Parent, "I am here"))
			require.Error(t, p.Send(ctx, "somebody", "x"))
			require.Error(t, p.Send(ctx, task.Parent, strings.Repeat("x", task.MaxMessage+1)))
			got = <-p.Inbox()
			return job.Ended(task.Completed, "")
		}
		_, err := h.zero(t.Context(), agents.Agent{Name: "default"}, func(ctx context.Context, p Parent) {
			c, err := p.Spawn(ctx, task.Task{Text: "listen", Agent: "coder"})
			require.NoError(t, err)
			synctest.Wait()
			assert.Equal(t, "[message from your child "+c.ID+" (coder)]\nI am here", <-p.Inbox())
			assert.Empty(t, p.Inbox())
			require.NoError(t, p.Send(ctx, c.ID, "go on"))
			_, err = p.Wait(ctx, nil, 0)
			require.NoError(t, err)
			assert.Equal(t, "[message from your parent]\ngo on", got)
			require.Error(t, p.Send(ctx, c.ID, "too late"))
			require.Error(t, p.Send(ctx, task.Parent, "nobody is there"))
		})
		require.NoError(t, err)
	})
}

// Changed files are named from where the asker stands, and those that no target
// covers are told of.
func TestChangedFiles(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	require.NoError(t, os.Mkdir("sub", 0o700))
	h := newHarness(nil)
	h.launcher.does["write"] = func(_ context.Context, job task.Job, _ Parent) task.Result {
		r := job.Ended(task.Completed, "")
		r.ChangedFiles = []string{"a.go", "docs/x.md", "lib/deep/y.go"}
		return r
	}
	r := h.Delegate(t.Context(), agents.Agent{Name: "default"}, []task.Task{
		{Text: "write", Agent: "coder", WorkingDir: "sub", Targets: []string{"*.go", "lib"}},
	})[0]
	assert.Equal(t, []string{"sub/a.go", "sub/docs/x.md", "sub/lib/deep/y.go"}, r.ChangedFiles)
	assert.Equal(t, []string{"files were changed outside of the targets: docs/x.md"}, r.Warnings)
	err := h.Check(task.Task{Text: "x", Targets: []string{"../y"}})
	require.EqualError(t, err, `target "../y" is no path or glob inside of the working directory`)
}

// Two temporary agents never share a name, and none has that of a registered one.
func TestTemporaryNames(t *testing.T) {
	reg := everybody()
	reg["temporary-1"] = agents.Agent{Name: "temporary-1"}
	h := newHarness(func(c *Config) { c.Agents = reg })
	maker := agents.Agent{Name: "maker", Tools: []string{"read_file", "grep_file", "spawn_agent"}}
	results := h.Delegate(t.Context(), maker, []task.Task{
		{Text: "a", Temporary: &task.Temporary{Tools: []string{"read_file"}}},
		{Text: "b", Temporary: &task.Temporary{Tools: []string{"grep_file"}}},
	})
	assert.Equal(t, []string{"temporary-2 completed did a", "temporary-3 completed did b"}, brief(results))
	first, err := h.Agent("temporary-2")
	require.NoError(t, err)
	assert.Equal(t, []string{"read_file"}, first.Tools)
}

// A question says in which folder its agent works, and a child is told in which
// folder it was allowed to.
func TestFolderIsKnown(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("sub", 0o700))
	ask := &approver{asks: tool.High, says: tool.Decision{Allowed: true}}
	h := newHarness(func(c *Config) { c.Approve = ask })
	h.launcher.does["deep"] = func(ctx context.Context, job task.Job, p Parent) task.Result {
		p.Approve(ctx, tool.Intent{Tool: "run_pty_cmd", Risk: tool.High})
		return job.Ended(task.Completed, "")
	}
	h.Delegate(
		t.Context(),
		agents.Agent{Name: "default"},
		[]task.Task{{Text: "deep", Agent: "coder", WorkingDir: "sub"}},
	)
	require.Len(t, ask.asked, 1)
	assert.Equal(t, "sub", ask.asked[0].Dir)
	dir, err := os.Getwd()
	require.NoError(t, err)
	assert.Equal(t, dir+"/sub", h.launcher.jobs[0].Dir)
}

// The files that a task of a batch has changed are named from where the batch stands.
func TestChangedFilesOfABatch(t *testing.T) {
	t.Chdir(t.TempDir())
	h := newHarness(nil)
	h.launcher.does["write"] = func(_ context.Context, job task.Job, _ Parent) task.Result {
		r := job.Ended(task.Completed, "")
		r.ChangedFiles = []string{"a.go"}
		return r
	}
	results := h.batch(t, task.Task{Text: "write", WorkingDir: "sub"}, task.Task{Text: "write"})
	assert.Equal(t, []string{"sub/a.go"}, results[0].ChangedFiles)
	assert.Equal(t, []string{"a.go"}, results[1].ChangedFiles)
}

// What an agent was sent and has not read is said in its result.
func TestUnreadMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(nil)
		h.launcher.does["deaf"] = func(ctx context.Context, job task.Job, _ Parent) task.Result {
			return after(ctx, job, time.Second)
		}
		_, _ = h.zero(t.Context(), agents.Agent{Name: "default"}, func(ctx context.Context, p Parent) {
			c, err := p.Spawn(ctx, task.Task{Text: "deaf", Agent: "coder"})
			require.NoError(t, err)
			synctest.Wait()
			for range 64 {
				require.NoError(t, p.Send(ctx, c.ID, "x"))
			}
			require.EqualError(t, p.Send(ctx, c.ID, "x"), "too many messages are unread: wait until some were read")
			results, err := p.Wait(ctx, nil, 0)
			require.NoError(t, err)
			assert.Equal(t, []string{"messages to it that were not read: 64"}, results[0].Warnings)
		})
	})
}

// slowGate is a gate that lets a request pass after some time.
type slowGate struct {
	gate
	wait time.Duration
	who  Waiter
}

type permit struct {
	llm.Permit
	active int
}

func (p *permit) Active() { p.active++ }

func (g *slowGate) Enter(ctx context.Context, _ string, _ bool, who Waiter) (llm.Permit, error) {
	g.who = who
	if !sleep(ctx, g.wait) {
		return nil, context.Cause(ctx)
	}
	return &permit{}, nil
}

// Time at the gate and at the server behind others is neither run time nor idle time,
// and what comes from the model is activity.
func TestEnter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := task.Limits{MaxParallel: 1, ChildTimeout: 100 * time.Second, IdleTimeout: 50 * time.Second}
		g := &slowGate{gate: func(task.Task) error { return nil }, wait: time.Hour}
		sc := scripted(limits, parts{"do": func(ctx context.Context, job task.Job, p Parent) task.Result {
			permit, err := p.Enter(ctx, "m", false)
			require.NoError(t, err)
			for range 3 {
				sleep(ctx, 40*time.Second)
				permit.Active()
				g.who.Behind(30 * time.Second)
			}
			_, err = p.Enter(ctx, "m", true)
			require.NoError(t, err)
			return after(ctx, job, time.Hour)
		}})
		sc.s.cfg.Gate = g
		r, took := one(t, sc, "do")
		assert.Equal(t, "Sub-agent inactive for 50 seconds", r.Err())
		assert.Equal(t, 2*time.Hour+120*time.Second+52500*time.Millisecond, took)
	})
	_, err := root(
		New(Config{Limits: Limits{Limits: task.Limits{MaxParallel: 1}}}),
		time.Time{},
	).Enter(t.Context(), "m", false)
	require.NoError(t, err, "without a gate every request may pass")
}

// Who an event is about is what the root knows, whatever the agent says.
func TestEventsAreSigned(t *testing.T) {
	h := newHarness(nil)
	h.launcher.does["tell"] = func(_ context.Context, job task.Job, up Parent) task.Result {
		up.Emit(event.Event{Type: event.ToolStart, Tool: "read_file", ExecutionID: "x", Agent: "liar", Depth: 7,
			BatchID: "y"})
		return job.Ended(task.Completed, "")
	}
	h.batch(t, task.Task{Text: "tell", Agent: "coder"})
	for _, e := range h.events {
		if e.Type == event.ToolStart {
			assert.Equal(t, []any{"coder", 1, "b", h.launcher.jobs[0].ExecutionID},
				[]any{e.Agent, e.Depth, e.BatchID, e.ExecutionID})
			return
		}
	}
	t.Fatal("no event")
}

// A launcher that completes a job knows whether a limit was in its way: it joins what a completed one has changed.
func TestSettleKnowsTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(func(cfg *Config) { cfg.Limits.MaxChildren = 1 })
		var told task.Status
		s.does["lead"] = func(ctx context.Context, job task.Job, p Parent) task.Result {
			p.Delegate(ctx, []task.Task{reader("one"), reader("two")})
			r := job.Ended(task.Completed, "")
			p.(*handle).Settle(&r, func([]string) { told = r.Status })
			return r
		}
		all := &order.Gathered{}
		require.NoError(t, s.Batch(t.Context(), Batch{Results: all, Tasks: Tasks(reader("lead"))}))
		assert.Equal(t, task.Limit, told)
		assert.Equal(t, task.Limit, all.List[0].Status)
	})
}

// An agent whose wait panics has its slot and its lease again, and so gives both back when it ends.
func TestLendPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(nil)
		s.does["lead"] = func(ctx context.Context, job task.Job, p Parent) task.Result {
			h := p.(*handle)
			assert.Panics(t, func() { h.lend(ctx, func() { panic("as told") }) })
			assert.True(t, h.exec.loan.Held())
			assert.True(t, h.exec.lease.Granted())
			assert.Panics(t, func() { h.Await(func() { panic("as told") }) })
			assert.True(t, h.exec.lease.Granted())
			return job.Ended(task.Completed, "")
		}
		s.Delegate(t.Context(), agents.Agent{}, []task.Task{writer("lead")})
	})
}
