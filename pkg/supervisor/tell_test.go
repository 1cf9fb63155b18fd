package supervisor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/agents"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// in returns the context of a call.
func in(ctx context.Context, id, name string) context.Context {
	return tool.WithCall(ctx, tool.Call{ID: id, Name: name})
}

// told lists the events of some types with what joins them.
func told(events []event.Event, types ...event.Type) (lines []string) {
	for _, e := range events {
		if slices.Contains(types, e.Type) {
			line := fmt.Sprintf("%s %s call=%s batch=%s count=%d", e.Type, e.ExecutionID, e.CallID, e.BatchID, e.Count)
			lines = append(lines, line)
		}
	}
	return lines
}

// A call of run_parallel_tasks is a batch of its own in events, and in nothing else. The events of a
// child have the id of the call that started it.
func TestEventsOfCalls(t *testing.T) {
	h := newHarness(func(c *Config) { c.Limits.MaxParallel, c.ID = 1, "root" })
	h.launcher.does["asks"] = func(ctx context.Context, job task.Job, p Parent) task.Result {
		assert.Empty(t, job.BatchID)
		p.Emit(event.Event{Type: event.ToolStart, CallID: "own"})
		p.Emit(event.Event{Type: event.SubAgentProgress, CallID: "liar", Phase: event.PhaseTools, Total: 1})
		p.Delegate(in(ctx, "inner", "delegate_task"), []task.Task{{Text: "leaf", Agent: "coder"}})
		return job.Ended(task.Completed, "")
	}
	_, _ = h.zero(t.Context(), agents.Agent{Name: "default"}, func(ctx context.Context, p Parent) {
		results := p.Delegate(in(ctx, "one", "run_parallel_tasks"), []task.Task{
			{Text: "a", Agent: "coder"}, {Text: "b", Agent: "nobody"}, {Text: "asks", Agent: "coder"},
		})
		for _, r := range results {
			assert.Empty(t, r.BatchID, "a result belongs to no batch of qq")
		}
		p.Delegate(in(ctx, "two", "delegate_task"), []task.Task{{Text: "c", Agent: "coder"}})
		p.Delegate(in(ctx, "three", "run_parallel_tasks"), []task.Task{{Text: "d", Agent: "nobody"}})
		c, err := p.Spawn(in(ctx, "four", "spawn_agent"), task.Task{Text: "e", Agent: "coder"})
		require.NoError(t, err)
		_, err = p.Wait(in(ctx, "five", "wait_children"), []string{c.ID}, 0)
		require.NoError(t, err)
	})
	const e = "0190-execution-"
	assert.Equal(t, []string{
		"batch_start root call=one batch=" + e + "1 count=3",
		"sub_agent_start " + e + "2 call=one batch=" + e + "1 count=0",
		"sub_agent_complete " + e + "2 call=one batch=" + e + "1 count=0",
		"sub_agent_start " + e + "3 call=one batch=" + e + "1 count=0",
		"tool_start " + e + "3 call=own batch=" + e + "1 count=0",
		"sub_agent_start " + e + "4 call=inner batch= count=0",
		"sub_agent_complete " + e + "4 call=inner batch= count=0",
		"sub_agent_complete " + e + "3 call=one batch=" + e + "1 count=0",
		"batch_complete root call=one batch=" + e + "1 count=3",
		"sub_agent_start " + e + "5 call=two batch= count=0",
		"sub_agent_complete " + e + "5 call=two batch= count=0",
		"sub_agent_start " + e + "6 call=four batch= count=0",
		"sub_agent_complete " + e + "6 call=four batch= count=0",
	}, told(h.events, event.BatchStart, event.BatchComplete, event.SubAgentStart, event.SubAgentComplete,
		event.ToolStart)[1:14])
	for _, ev := range h.events {
		switch {
		case ev.Type == event.BatchComplete:
			assert.Equal(t, 1, ev.FailedTasks)
		case ev.Type == event.SubAgentProgress && ev.Phase == event.PhaseTools:
			assert.Equal(t, "one", ev.CallID, "progress of a child belongs to the call that started it")
		}
	}
}

// The questions about a call have its id, and a delegation says which tasks it has.
func TestQuestionOfCall(t *testing.T) {
	ask := &approver{asks: tool.High}
	h := newHarness(func(c *Config) { c.Approve = ask })
	_, _ = h.zero(t.Context(), agents.Agent{Name: "default"}, func(ctx context.Context, p Parent) {
		p.Approve(in(ctx, "one", "edit_file"), tool.Intent{Tool: "edit_file", Risk: tool.High})
		p.Delegate(in(ctx, "two", "run_parallel_tasks"), []task.Task{
			{Text: "a", Agent: "coder"}, {Text: "b", Agent: "Coder"},
		})
	})
	require.Len(t, ask.asked, 2)
	assert.Equal(t, "one", ask.asked[0].CallID)
	assert.Equal(t, "two", ask.asked[1].CallID)
	assert.Equal(t, []string{"coder: a", "coder: b"}, ask.asked[1].Intent.Tasks)
}

// progress lists the progress of an agent.
func progress(events []event.Event, id string) (lines []string) {
	for _, e := range events {
		if e.Type == event.SubAgentProgress && e.ExecutionID == id {
			lines = append(lines, fmt.Sprintf("%s %d/%d %s", e.Phase, e.Done, e.Total, e.Text))
		}
	}
	return lines
}

// TestProgressOfBackground: the children in the background that have ended are counted, whichever ends first.
func TestProgressOfBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(func(c *Config) { c.Limits.MaxParallel, c.ID = 9, "root" })
		texts := []string{"a", "b", "c", "d", "e", "f"}
		for i, seconds := range []int{9, 1, 2, 3, 4, 1} {
			h.launcher.does[texts[i]] = func(ctx context.Context, job task.Job, _ Parent) task.Result {
				return after(ctx, job, time.Duration(seconds)*time.Second)
			}
		}
		_, _ = h.zero(t.Context(), agents.Agent{Name: "default"}, func(ctx context.Context, p Parent) {
			var ids []string
			for _, text := range texts {
				c, err := p.Spawn(ctx, task.Task{Text: text, Agent: "coder"})
				require.NoError(t, err)
				ids = append(ids, c.ID)
			}
			time.Sleep(1500 * time.Millisecond) // two have ended, one of which is not waited for
			results, err := p.Wait(ctx, ids[:5], 5*time.Second)
			require.NoError(t, err)
			assert.Len(t, results, 4)
			results, err = p.Wait(ctx, nil, 0)
			require.NoError(t, err)
			assert.Len(t, results, 2)
		})
		const text = " for children in the background"
		var lines []string
		for _, line := range progress(h.events, "root") {
			if strings.HasSuffix(line, text) {
				lines = append(lines, strings.TrimSuffix(strings.TrimPrefix(line, "waiting "), text))
			}
		}
		assert.Equal(t, []string{"1/5", "2/5", "3/5", "4/5", "1/2", "2/2"}, lines)
	})
}

// What an agent waits for is told, and how much of it is done: tasks of several calls together, as
// the agent has announced them, and with one line in the log.
func TestProgressOfDelegations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(func(c *Config) { c.Limits.MaxParallel, c.ID = 3, "root" })
		for i, text := range []string{"a", "b", "c"} {
			h.launcher.does[text] = func(ctx context.Context, job task.Job, _ Parent) task.Result {
				return after(ctx, job, time.Duration(i+1)*time.Second)
			}
		}
		_, _ = h.zero(t.Context(), agents.Agent{Name: "default"}, func(ctx context.Context, p Parent) {
			p.Emit(event.Event{Type: event.SubAgentProgress, Phase: event.PhaseDelegating, Total: 3,
				Tasks: []string{"coder: a", "coder: b", "coder: c"}})
			done := make(chan bool)
			go func() {
				p.Delegate(in(ctx, "one", "delegate_task"), []task.Task{{Text: "a", Agent: "coder"}})
				done <- true
			}()
			synctest.Wait()
			p.Delegate(in(ctx, "two", "run_parallel_tasks"), []task.Task{{Text: "b", Agent: "coder"},
				{Text: "c", Agent: "coder"}})
			<-done
			p.Emit(event.Event{Type: event.SubAgentProgress, Phase: event.PhaseModel, Done: 1, Total: 9})
			c, err := p.Spawn(ctx, task.Task{Text: "a", Agent: "coder"})
			require.NoError(t, err)
			_, err = p.Wait(ctx, []string{c.ID}, 0)
			require.NoError(t, err)
			part := task.Task{Text: "p", Part: true}
			p.Emit(event.Event{Type: event.SubAgentProgress, Phase: event.PhaseParts, Total: 3})
			p.Delegate(ctx, []task.Task{part})
			p.Delegate(ctx, []task.Task{part, part})
		})
		assert.Equal(t, []string{
			"delegating 0/3 ", "delegating 1/3 ", "delegating 2/3 ", "delegating 3/3 ", "model 1/9 ",
			"waiting 0/1 for children in the background", "waiting 1/1 for children in the background",
			"parts 0/3 ", "parts 1/3 ", "parts 2/3 ", "parts 3/3 ",
		}, progress(h.events, "root"))
		var dispatched []string
		for _, line := range h.log.lines {
			if slices.Contains([]string{"root"}, line[:4]) {
				dispatched = append(dispatched, line)
			}
		}
		assert.Equal(t, []string{"root dispatched 3: coder: a; coder: b; coder: c",
			"root dispatched 2: summarizer: p; summarizer: p"}, dispatched)
	})
}

// permitAfter is a gate that lets a request pass after some time.
type permitAfter struct {
	gate
	wait time.Duration
}

func (g permitAfter) Enter(context.Context, string, bool, Waiter) (llm.Permit, error) {
	time.Sleep(g.wait)
	return freePermit{}, nil
}

// That a request waits for the model server is told when it lasts.
func TestProgressOfWaits(t *testing.T) {
	for wait, want := range map[time.Duration][]string{
		999 * time.Millisecond: nil, 2 * time.Second: {"waiting 0/0 for the model server"},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(func(c *Config) { c.ID, c.Gate = "root", permitAfter{wait: wait} })
			_, _ = h.zero(t.Context(), agents.Agent{Name: "default"}, func(ctx context.Context, p Parent) {
				_, err := p.Enter(ctx, "m", false)
				require.NoError(t, err)
				p.Emit(event.Event{Type: event.SubAgentProgress, Phase: event.PhaseModel, Done: 3, Total: 9})
				_, err = p.Enter(ctx, "m", false)
				require.NoError(t, err)
			})
			both := append(slices.Clone(want), "model 3/9 ")
			if both = append(both, want...); len(want) > 0 {
				both = append(both, "model 3/9 ")
			}
			assert.Equal(t, both, progress(h.events, "root"), "after it comes what was there before it")
		})
	}
}

// That an attempt has died and is repeated is told, with the number of the next one.
func TestProgressOfAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(func(c *Config) { c.Limits.Retries = 2 })
		h.launcher.does["do"] = dying(new([]int), killed(false), killed(false))
		_, _ = h.zero(t.Context(), agents.Agent{Name: "default"}, func(ctx context.Context, p Parent) {
			p.Delegate(ctx, []task.Task{{Text: "do", Agent: "coder"}})
		})
		var lines []string
		for _, e := range h.events {
			if e.Type == event.SubAgentProgress && e.Attempt > 0 {
				lines = append(lines, e.Text)
				assert.Positive(t, e.DurationMS)
			}
		}
		require.Len(t, lines, 2)
		assert.Regexp(t, `^died: attempt 2 in 0\.\d s$`, lines[0])
		assert.Regexp(t, `^died: attempt 3 in \d\.\d s$`, lines[1])
	})
}

// That a person is asked is told, and what the agent does after the answer. Where nobody is asked, nothing is told.
func TestProgressOfQuestions(t *testing.T) {
	h := newHarness(func(c *Config) { c.ID, c.Approve = "root", &approver{asks: tool.High} })
	_, _ = h.zero(t.Context(), agents.Agent{Name: "default"}, func(ctx context.Context, p Parent) {
		p.Emit(event.Event{Type: event.SubAgentProgress, Phase: event.PhaseTools, Total: 2})
		p.Approve(in(ctx, "one", "edit_file"), tool.Intent{Tool: "edit_file", Risk: tool.Low})
		p.Approve(in(ctx, "two", "edit_file"), tool.Intent{Tool: "edit_file", Risk: tool.High})
	})
	assert.Equal(t, []string{"tools 0/2 ", "waiting 0/0 for an approval", "tools 0/2 "}, progress(h.events, "root"))
}
