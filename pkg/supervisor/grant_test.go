package supervisor

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/agents"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// asking is a child that has each of lists done, one after the other.
func asking(h *harness, agent string, own task.Task, lists ...[]task.Task) (results []task.Result) {
	own.Text, own.Agent = "lead", agent
	h.launcher.does["lead"] = func(ctx context.Context, job task.Job, p Parent) task.Result {
		for _, tasks := range lists {
			results = append(results, p.Delegate(ctx, tasks)...)
		}
		return job.Ended(task.Completed, "")
	}
	h.Delegate(context.Background(), agents.Agent{Name: "root"}, []task.Task{own})
	return results
}

func withSummarizer(model string) func(*Config) {
	return func(c *Config) {
		all := everybody()
		all["summarizer"] = agents.Agent{Name: "summarizer", Model: model, Role: agents.Gathering}
		all["pinned"] = agents.Agent{Name: "pinned", Model: "big:latest", Agents: []string{}}
		c.Agents = all
	}
}

// A part is a text for the summarizer, and nothing else that a child may say of it.
func TestPartIsOnlyAText(t *testing.T) {
	h := newHarness(withSummarizer(""))
	results := asking(h, "explorer", task.Task{}, []task.Task{{
		Text: "sum up", Context: "of this", Agent: "coder", Part: true, Schema: []byte(`{}`), WorkingDir: "..",
		Targets: []string{"a"}, Timeout: 9, ID: "x",
		Temporary: &task.Temporary{Prompt: "you obey"},
	}})
	require.Len(t, results, 1)
	assert.True(t, results[0].Success, results[0].Err())
	got := h.launcher.jobs[1].Task
	got.Dir = ""
	assert.Equal(t, task.Task{Text: "sum up", Context: "of this", Agent: "summarizer", ReadOnly: true, Part: true}, got)
	_, made := h.agents.Made("temporary-1")
	assert.False(t, made, "no agent is made for it")
}

// It is summarised by the model of whoever asks, and by no other that a child names.
func TestPartIsForTheOwnModel(t *testing.T) {
	for _, c := range []struct {
		agent, own, asked, summarizer, want string
	}{
		{"explorer", "", "ollama:dear", "", ""},
		{"explorer", "small", "ollama:dear", "", "small"},
		{"explorer", "small", "ollama:dear", "other", "small"},
		{"pinned", "", "ollama:dear", "", ""},
		{"pinned", "", "ollama:big", "", "big:latest"},
		{"pinned", "", "ollama:big:latest", "other", "big:latest"},
		{"pinned", "small", "ollama:big", "", "small"},
		{"explorer", "", "ollama:the-run", "other", "ollama:the-run"}, // the parts were cut for that one
	} {
		h := newHarness(withSummarizer(c.summarizer))
		asking(h, c.agent, task.Task{Model: c.own}, []task.Task{{Text: "x", Part: true, Model: c.asked}})
		require.Len(t, h.launcher.jobs, 2)
		assert.Equal(t, c.want, h.launcher.jobs[1].Model, "%+v", c)
	}
	h := newHarness(withSummarizer(""))
	h.Delegate(t.Context(), agents.Agent{Name: "root"}, []task.Task{{Text: "x", Part: true, Model: "ollama:m"}})
	assert.Equal(t, "ollama:m", h.launcher.jobs[0].Model, "this process knows its model")
}

// One child has so many parts summarised and no more; others have their own.
func TestPartsAreBounded(t *testing.T) {
	h := newHarness(withSummarizer(""))
	many := make([]task.Task, MaxParts-1)
	for i := range many {
		many[i] = task.Task{Text: "x", Part: true}
	}
	two := many[:2]
	results := asking(h, "explorer", task.Task{}, many, two, two)
	require.Len(t, results, MaxParts+3)
	for i, r := range results {
		if i < MaxParts {
			require.True(t, r.Success, "%d: %s", i, r.Err())
			continue
		}
		assert.Equal(t, task.Limit, r.Status)
		assert.Equal(t, "explorer has had 5000 parts of texts summarised, which is the most", r.Err())
	}
	assert.True(t, asking(h, "explorer", task.Task{}, two)[1].Success)
}

// A repair that a person refuses is none. One too many is refused before anybody is asked.
func TestRefusedRepairsDoNotCount(t *testing.T) {
	ask := &approver{asks: tool.Medium}
	h := newHarness(func(c *Config) {
		all := everybody()
		all["mender"] = agents.Agent{Name: "mender", Tools: []string{"run_parallel_tasks"}, MaxRepairs: 1}
		all["tester"] = agents.Agent{Name: "tester", Tools: []string{"run_pty_cmd"}}
		c.Agents, c.Approve = all, ask
	})
	asked := 0
	ask.during = func() {
		asked++
		ask.says = tool.Decision{Allowed: asked != 3, Reason: "the user said no"}
	}
	var calls [][]task.Task
	for _, agent := range []string{"coder", "tester", "coder", "tester", "coder", "tester", "coder"} {
		calls = append(calls, []task.Task{{Text: "x", Agent: agent}})
	}
	var got []task.Status
	for _, r := range asking(h, "mender", task.Task{}, calls...) {
		got = append(got, r.Status)
	}
	assert.Equal(t, []task.Status{task.Completed, task.Completed, task.Refused, task.Completed, task.Completed,
		task.Completed, task.Limit}, got)
	assert.Equal(t, 6, asked, "about all calls but the last one")
}
