package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
	"qq/pkg/childproc"
	"qq/pkg/llm"
	"qq/pkg/task"
)

// served is an engine whose model is one of a server, with what it says to people.
func served(t *testing.T, change func(*Config), options ...standin.Option) (e *Engine, notes *[]string) {
	server := standin.Start(t, options...)
	notes = &[]string{}
	e = newEngine(t, func(c *Config) {
		c.Settings.OllamaHost, c.Settings.Model, c.Settings.MaxParallel = server.URL, "ollama:"+standin.DefaultModel, 1
		c.Note = func(format string, args ...any) { *notes = append(*notes, fmt.Sprintf(format, args...)) }
		if change != nil {
			change(c)
		}
	})
	_, err := e.Resolve(t.Context(), "")
	require.NoError(t, err)
	return e, notes
}

func someJob() task.Job { return task.Job{Task: task.Task{Text: "x", Agent: task.DefaultAgent}} }

// TestFirst: a permit comes with the start of a child when its model needs one and
// one is free.
func TestFirst(t *testing.T) {
	e, _ := served(t, nil)
	p := e.first(someJob(), childproc.Start{})
	require.NotNil(t, p)
	assert.Nil(t, e.first(someJob(), childproc.Start{}), "there is one only")
	p.Leave(llm.Report{Cancelled: true})
	assert.NotNil(t, e.first(someJob(), childproc.Start{}))

	job := someJob()
	job.Model = "not looked up yet"
	e, _ = served(t, nil)
	assert.Nil(t, e.first(job, childproc.Start{}))
	assert.Nil(t, newEngine(t, nil).first(someJob(), childproc.Start{}), "what is built in needs none")
}

// TestAdmit: the clocks of a job that waits behind others at the server get that
// time back, and its idle time begins anew.
func TestAdmit(t *testing.T) {
	e, _ := served(t, func(c *Config) { c.Settings.MaxParallel = 2 })
	var spared time.Duration
	active := 0
	job := someJob()
	job.Spare = func(d time.Duration) { spared += d }
	job.Active = func() { active++ }
	one, err := e.admit(t.Context(), job, childproc.Enter{Model: "m"})
	require.NoError(t, err)
	other, err := e.gate.Enter(t.Context(), "m")
	require.NoError(t, err)
	other.Active()
	assert.Positive(t, spared)
	assert.Equal(t, 1, active)
	one.Leave(llm.Report{})
	other.Active()
	assert.Equal(t, 1, active, "it waits no more")
}

// TestSpent: a budget that is used up refuses tasks before a process starts, and
// only then.
func TestSpent(t *testing.T) {
	e, _ := served(t, func(c *Config) { c.Settings.MaxTokens = 100 })
	for _, c := range []struct {
		use   int
		spent bool
	}{{60, false}, {39, false}, {1, true}} {
		p, err := e.admit(t.Context(), childJob(), childproc.Enter{Model: "m"})
		require.NoError(t, err)
		p.Leave(llm.Report{Usage: task.Usage{OutputTokens: c.use}})
		assert.Equal(t, c.spent, e.Spent())
		refused := e.refuse(task.Task{Text: "x"})
		assert.Equal(t, c.spent, refused != nil)
		if refused != nil {
			assert.Equal(t, task.Limit, refused.Status)
			assert.Contains(t, refused.Err(), "100 of 100 tokens used")
			assert.Equal(t, task.DefaultAgent, refused.Agent)
		}
	}
	assert.Nil(t, newEngine(t, nil).refuse(task.Task{Text: "x"}), "what is built in costs nothing")
	e, _ = served(t, nil)
	assert.False(t, e.Spent(), "there is no budget")
}

func childJob() task.Job {
	job := someJob()
	job.Spare, job.Active = func(time.Duration) {}, func() {}
	return job
}

// TestRefuseWhenOpen: so does a breaker that is not worth waiting for. A person is
// told when several share the server; who is alone hears it from the answer.
func TestRefuseWhenOpen(t *testing.T) {
	for _, several := range []bool{false, true} {
		e, notes := served(t, nil) // without retries
		enter := e.gate.Enter
		for range 3 {
			p, err := enter(t.Context(), standin.DefaultModel)
			require.NoError(t, err)
			if several {
				e.several.Store(true)
			}
			p.Leave(llm.Report{Kind: llm.Server})
		}
		refused := e.refuse(task.Task{Text: "x"})
		require.NotNil(t, refused)
		assert.Equal(t, task.Unavailable, refused.Status)
		assert.Equal(t, several, len(*notes) > 0)
	}
}

// TestRepeatedEvent: it is one line.
func TestRepeatedEvent(t *testing.T) {
	ev := repeatedEvent(2, 1500*time.Millisecond, &llm.Error{Problem: "busy", Hint: "wait"})
	assert.Equal(t, "request to the model repeated (2) in 1.5s: busy", ev.Text)
}
