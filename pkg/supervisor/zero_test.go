package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/agents"
	"qq/pkg/event"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// zeroTest is a supervisor of a process with the id "zero", its record and its log.
func zeroTest(l task.Limits) (*Supervisor, *fake, *memRecord, *logged) {
	s, f := newTest(l)
	rec, log := &memRecord{}, &logged{}
	s.cfg.ID, s.cfg.Record, s.cfg.Log = "zero", rec, log
	return s, f, rec, log
}

// runZero runs do as job zero.
func runZero(ctx context.Context, s *Supervisor, do launchFunc) (task.Result, error) {
	return s.Run(ctx, task.Task{Text: "the task", Agent: "lead"}, "transcript", do)
}

// Job zero is recorded and announced once as any other, under the id of its process; the
// log of children does not have it.
func TestZeroIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, rec, log := zeroTest(task.Limits{MaxParallel: 1})
		var told []string
		s.cfg.Events = event.NewStream("trace", event.SinkFunc(func(e event.Event) {
			told = append(told, strings.TrimSpace(fmt.Sprint(e.Type, " ", e.ExecutionID, " ", e.Depth, " ", e.Summary)))
		}))
		r, err := runZero(t.Context(), s, func(ctx context.Context, job task.Job, p Parent) task.Result {
			assert.Equal(t, []any{"zero", "", 0, "transcript", 1},
				[]any{job.ExecutionID, job.Parent, job.Depth, job.Session, job.Attempt})
			assert.True(t, job.Deadline.IsZero())
			require.NoError(t, p.Effects())
			child := p.Delegate(ctx, tasksOf("sleep 2s"))[0]
			assert.Equal(t, "zero", child.ParentExecutionID)
			r := job.Ended(task.Completed, "")
			r.Output, r.Usage = "done", task.Usage{InputTokens: 7}
			return r
		})
		require.NoError(t, err)
		assert.Equal(
			t,
			[]string{"claim zero", "effects zero", "claim x1", "finish x1 completed", "finish zero completed"},
			rec.lines,
		)
		assert.Equal(t, []string{"x1 spawned default at 1: sleep 2s", "x1 completed true 0"}, log.lines)
		assert.Equal(t, []string{"sub_agent_start zero 0", "sub_agent_start x1 1", "sub_agent_complete x1 1 sleep 2s",
			"sub_agent_complete zero 0 done"}, told)
		assert.Equal(t, []any{"the task", "lead", true, "done", "zero", "", 1, int64(2000), int64(0)},
			[]any{r.Task, r.Agent, r.Success, r.Output, r.ExecutionID, r.ParentExecutionID, r.Attempts, r.DurationMS,
				r.QueuedMS})
		assert.Equal(t, 7, r.Usage.InputTokens)
		assert.Empty(t, s.Jobs())
	})
}

// Its depth is that of the process.
func TestZeroDepth(t *testing.T) {
	h := newHarness(func(c *Config) { c.ID, c.Depth = "zero", 1 })
	h.launcher.does["lead"] = delegating(task.Task{Text: "x", Agent: "worker"})
	results := h.Delegate(t.Context(), agents.Agent{Name: "default"}, []task.Task{{Text: "lead", Agent: "coder"}})
	assert.Equal(
		t,
		[]string{"coder completed worker limit Error: Maximum recursion depth (3) exceeded"},
		brief(results),
	)
	assert.Equal(t, 2, h.launcher.jobs[0].Depth)
}

// It takes no slot, and lends none while it waits.
func TestZeroTakesNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f, _, _ := zeroTest(task.Limits{MaxParallel: 1})
		start := time.Now()
		r, err := runZero(t.Context(), s, func(ctx context.Context, job task.Job, p Parent) task.Result {
			c, err := p.Spawn(ctx, task.Task{Text: "sleep 5s"})
			require.NoError(t, err)
			sleep(ctx, 5*time.Second) // beside the child
			assert.Len(t, p.Delegate(ctx, tasksOf("sleep 1s, sleep 1s")), 2)
			_, err = p.Wait(ctx, []string{c.ID}, 0)
			require.NoError(t, err)
			return after(ctx, job, time.Second)
		})
		require.NoError(t, err)
		assert.True(t, r.Success)
		assert.Equal(t, 8*time.Second, time.Since(start))
		assert.Equal(t, 1, f.maxWork)
		assert.Equal(t, 1, free(s))
	})
}

// It has a handle as any other job: its ceiling, approvals, messages, children in the
// background that end with it, and what was changed for it.
func TestZeroHasAHandle(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("sub", 0o700))
	synctest.Test(t, func(t *testing.T) {
		rec, ask := &memRecord{}, &approver{asks: tool.Medium, says: tool.Decision{Allowed: true}}
		h := newHarness(func(c *Config) { c.ID, c.Record, c.Approve = "zero", rec, ask })
		h.launcher.does["write"] = func(ctx context.Context, job task.Job, p Parent) task.Result {
			require.NoError(t, p.Send(ctx, task.Parent, "I write"))
			r := job.Ended(task.Completed, "")
			r.ChangedFiles, r.Effects = []string{"b", "a"}, true
			return r
		}
		h.launcher.does["hang"] = func(ctx context.Context, job task.Job, _ Parent) task.Result {
			return after(ctx, job, time.Hour)
		}
		r, err := h.zero(t.Context(), agents.Agent{Name: "lead", Agents: []string{"coder"}},
			func(ctx context.Context, p Parent) {
				p.Changed([]string{"own"})
				results := p.Delegate(ctx, []task.Task{{Text: "write", Agent: "coder", WorkingDir: "sub"},
					{Text: "x", Agent: "worker"}})
				assert.Equal(
					t,
					[]string{"coder completed", "worker usage lead may not delegate to worker (allowed: coder)"},
					brief(results),
				)
				assert.Equal(t, "[message from your child 0190-execution-1 (coder)]\nI write", <-p.Inbox())
				c, err := p.Spawn(ctx, task.Task{Text: "hang", Agent: "coder"})
				require.NoError(t, err)
				synctest.Wait()
				require.NoError(t, p.Send(ctx, c.ID, "go on"))
				require.EqualError(
					t,
					p.Send(ctx, task.Parent, "x"),
					"this agent has no parent that could read a message",
				)
			})
		require.NoError(t, err)
		assert.Equal(t, []string{"own", "sub/a", "sub/b"}, r.ChangedFiles)
		assert.True(t, r.Effects)
		assert.Equal(t, []string{"claim zero", "claim 0190-execution-1", "finish 0190-execution-1 completed",
			"claim 0190-execution-2",
			"finish 0190-execution-2 cancelled", "finish zero completed"}, rec.lines)
		require.Len(t, ask.asked, 2)
		assert.Equal(t, []any{"zero", "", []string{"lead"}},
			[]any{ask.asked[0].ExecutionID, ask.asked[0].ParentExecutionID, ask.asked[0].Chain})
	})
}

// A child of job zero is asked about as that.
func TestZeroInTheChain(t *testing.T) {
	ask := &approver{asks: tool.High, says: tool.Decision{Allowed: true}}
	h := newHarness(func(c *Config) { c.ID, c.Approve = "zero", ask })
	h.launcher.does["lead"] = func(ctx context.Context, job task.Job, p Parent) task.Result {
		p.Approve(ctx, tool.Intent{Tool: "run_pty_cmd", Risk: tool.High})
		return job.Ended(task.Completed, "")
	}
	h.Delegate(t.Context(), agents.Agent{Name: "default"}, []task.Task{{Text: "lead", Agent: "coder"}})
	h.batch(t, task.Task{Text: "lead", Agent: "coder"})
	require.Len(t, ask.asked, 2)
	assert.Equal(
		t,
		[]any{"zero", []string{"default", "coder"}},
		[]any{ask.asked[0].ParentExecutionID, ask.asked[0].Chain},
	)
	assert.Equal(t, []any{"", []string{"coder"}}, []any{ask.asked[1].ParentExecutionID, ask.asked[1].Chain})
}

// Silence ends it, its own and that of all below it; waiting for a child is none.
func TestZeroIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, rec, _ := zeroTest(task.Limits{MaxParallel: 1})
		s.agents.Registry = anybody{"lead": {IdleTimeout: 10 * time.Second}}
		start := time.Now()
		r, err := runZero(t.Context(), s, func(ctx context.Context, job task.Job, p Parent) task.Result {
			assert.Equal(t, 10*time.Second, job.Idle)
			sleep(ctx, 9*time.Second)
			p.Active()
			p.Delegate(ctx, tasksOf("sleep 100s"))
			return after(ctx, job, time.Hour)
		})
		require.NoError(t, err)
		assert.Equal(t, task.Idle, r.Status)
		assert.Equal(t, "Sub-agent inactive for 10 seconds", r.Err())
		assert.Equal(t, 119500*time.Millisecond, time.Since(start), "9 s, 100 s, 10 s and a twentieth")
		assert.Equal(t, "finish zero idle", rec.lines[len(rec.lines)-1])
	})
}

// It has the whole time of the run, which is no run clock; its children end before.
func TestZeroHasTheTimeOfTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _, _ := zeroTest(task.Limits{MaxParallel: 1, ChildTimeout: 20 * time.Second})
		end := time.Now().Add(100 * time.Second)
		ctx, cancel := context.WithDeadline(t.Context(), end)
		defer cancel()
		start := time.Now()
		r, err := runZero(ctx, s, func(ctx context.Context, job task.Job, p Parent) task.Result {
			assert.Zero(t, job.Allowed)
			sleep(ctx, 50*time.Second)
			child := p.Delegate(ctx, []task.Task{{Text: "sleep 500s"}})[0]
			assert.Equal(t, "Child process timed out after 20s", child.Err())
			sleep(ctx, 20*time.Second)
			child = p.Delegate(ctx, []task.Task{{Text: "sleep 500s"}})[0]
			assert.Equal(t, "Child process timed out after 9s", child.Err(), "10 s are left, of which it keeps a tenth")
			return after(ctx, job, time.Hour)
		})
		require.NoError(t, err)
		assert.Equal(t, task.Timeout, r.Status)
		assert.Equal(t, 100*time.Second, time.Since(start))
	})
}

// The time that its agent may run is its own: it does not pass while a child or a person is waited for,
// and a child has its whole time. What runs beside it ends with it.
func TestZeroHasTheTimeOfItsAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, rec, _ := zeroTest(task.Limits{MaxParallel: 1, ChildTimeout: 300 * time.Second, MaxChildren: 9})
		s.agents.Registry = anybody{"lead": {Timeout: 100 * time.Second}}
		s.cfg.Limits.TimeoutBy.How = "by hand"
		s.cfg.Approve = &approver{asks: tool.High, during: func() { <-time.After(time.Hour) }}
		start := time.Now()
		r, err := runZero(t.Context(), s, func(ctx context.Context, job task.Job, p Parent) task.Result {
			assert.Equal(t, 100*time.Second, job.Allowed)
			sleep(ctx, 50*time.Second)
			child := p.Delegate(ctx, []task.Task{{Text: "sleep 500s"}})[0]
			assert.Equal(t, "Child process timed out after 300s\nhint: the limit is the default: set another by hand",
				child.Err())
			p.Approve(ctx, tool.Intent{Risk: tool.High})
			_, err := p.Spawn(ctx, task.Task{Text: "sleep 500s"})
			require.NoError(t, err)
			return after(ctx, job, time.Hour)
		})
		require.NoError(t, err)
		assert.Equal(t, task.Timeout, r.Status)
		assert.Regexp(t, "^timed out after 1m40s\nhint: the limit is that of agent lead .*: set another by hand$",
			r.Err())
		assert.Equal(t, 400*time.Second+time.Hour, time.Since(start))
		assert.Equal(t, "finish zero timeout", rec.lines[len(rec.lines)-1])
	})
}

// What could not be started, by itself or below it, is its limit.
func TestZeroReachesALimit(t *testing.T) {
	const hint = "Maximum 1 sub-agents exceeded\n" +
		"hint: raise QQ_MAX_CHILDREN or QQ_SPAWN_RATE; what could be done without is there"
	for name, c := range map[string]struct {
		hands string
		end   task.Status
		want  task.Status
		text  string
	}{
		"itself":        {"sleep 1s, sleep 1s", task.Completed, task.Limit, hint},
		"below":         {"fan sleep 1s", task.Completed, task.Limit, hint},
		"failed anyway": {"sleep 1s, sleep 1s", task.Failed, task.Failed, "as told"},
		"enough":        {"sleep 1s", task.Completed, task.Completed, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, _, rec, _ := zeroTest(task.Limits{MaxParallel: 1, MaxChildren: 1})
			r, err := runZero(t.Context(), s, func(ctx context.Context, job task.Job, p Parent) task.Result {
				p.Delegate(ctx, tasksOf(c.hands))
				r := job.Ended(c.end, "as told")
				r.Output = "what is there"
				return r
			})
			require.NoError(t, err)
			assert.Equal(t, c.want, r.Status, name)
			assert.Equal(t, c.text, r.Err(), name)
			assert.Equal(t, "what is there", r.Output)
			assert.Equal(t, "finish zero "+string(c.want), rec.lines[len(rec.lines)-1])
		})
	}
}

// It is launched once: its process is this one.
func TestZeroIsNotRepeated(t *testing.T) {
	for _, status := range []task.Status{task.Killed, task.NoResult, task.Unavailable} {
		synctest.Test(t, func(t *testing.T) {
			s, _, rec, _ := zeroTest(task.Limits{MaxParallel: 1, Retries: 2})
			s.cfg.Gate = gate(func(task.Task) error { return nil })
			launches := 0
			r, err := runZero(t.Context(), s, func(_ context.Context, job task.Job, _ Parent) task.Result {
				launches++
				return job.Ended(status, "as told")
			})
			require.NoError(t, err)
			assert.Equal(t, []any{1, 1, status, "as told"}, []any{launches, r.Attempts, r.Status, r.Err()})
			assert.Equal(t, []string{"claim zero", "finish zero " + string(status)}, rec.lines)
		})
	}
}

// What cannot be claimed does not begin; what cannot be recorded in the end is there
// all the same.
func TestZeroIsNotRecorded(t *testing.T) {
	full := errors.New("disk full")
	for line, want := range map[string]task.Result{
		"claim zero": {},
		"finish zero completed": {
			Status: task.Completed, Unrecorded: true, Warnings: []string{"not recorded: disk full"},
		},
	} {
		s, _, rec, _ := zeroTest(task.Limits{MaxParallel: 1})
		rec.fails = map[string]error{line: full}
		launched := false
		r, err := runZero(t.Context(), s, func(_ context.Context, job task.Job, _ Parent) task.Result {
			launched = true
			return job.Ended(task.Completed, "")
		})
		require.ErrorIs(t, err, full)
		assert.Equal(t, want.Status != "", launched)
		assert.Equal(t, want, task.Result{Status: r.Status, Unrecorded: r.Unrecorded, Warnings: r.Warnings})
		assert.Equal(t, 1, free(s))
	}
}

// It ends with its context, and a panic ends nothing else.
func TestZeroEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f, rec, _ := zeroTest(task.Limits{MaxParallel: 1})
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errors.New("Ctrl-C")) })
		r, err := runZero(ctx, s, func(ctx context.Context, job task.Job, p Parent) task.Result {
			p.Delegate(ctx, tasksOf("sleep 5s, sleep 5s"))
			return after(ctx, job, time.Hour)
		})
		require.NoError(t, err)
		assert.Equal(t, []any{task.Interrupted, "Ctrl-C"}, []any{r.Status, r.Err()})
		assert.Equal(
			t,
			[]string{"claim zero", "claim x1", "finish x1 interrupted", "finish zero interrupted"},
			rec.lines,
		)
		assert.Zero(t, f.live)

		r, err = runZero(t.Context(), s, func(context.Context, task.Job, Parent) task.Result { panic("as told") })
		require.NoError(t, err)
		assert.Equal(t, "panic in the supervisor: as told", r.Err())
		assert.True(t, slices.Contains(rec.lines, "finish zero failed"))
	})
}
