package app

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
	"qq/pkg/llm"
	"qq/pkg/task"
)

// served is a wiring with a model of a stand-in server, and the notes that it prints.
func served(t *testing.T, change func(*wiringConfig), options ...standin.Option) (e *wiring, notes *[]string) {
	server := standin.Start(t, options...)
	told := &heard{}
	e = newTestWiring(t, func(c *wiringConfig) {
		c.Settings.OllamaHost, c.Settings.Model, c.Settings.MaxParallel = server.URL, "ollama:"+standin.DefaultModel, 1
		c.Person = told
		if change != nil {
			change(c)
		}
	})
	_, err := e.Resolve(t.Context(), task.Task{})
	require.NoError(t, err)
	return e, &told.notes
}

func someTask() task.Task { return task.Task{Text: "x", Agent: task.DefaultAgent} }

// waiter is told of time behind others.
type waiter struct{ behind []time.Duration }

func (w *waiter) Behind(d time.Duration) { w.behind = append(w.behind, d) }

// TestFirst: a child starts with a permit for its first request if its model has a server
// and a slot is free.
func TestFirst(t *testing.T) {
	e, _ := served(t, nil)
	first := func(e *wiring, t task.Task) llm.Permit { return admission{e.gates, &e.several}.First(t, &waiter{}) }
	p := first(e, someTask())
	require.NotNil(t, p)
	assert.Nil(t, first(e, someTask()), "there is one only")
	p.Leave(llm.Report{Cancelled: true})
	assert.NotNil(t, first(e, someTask()))

	tk := someTask()
	tk.Model = "not looked up yet"
	e, _ = served(t, nil)
	assert.Nil(t, first(e, tk))
	assert.Nil(t, first(newTestWiring(t, nil), someTask()), "what is built in needs none")
	assert.True(t, e.several.Load(), "a child asks")
}

// TestEnter: a request that waits at the server behind others reports the waiting time to
// its waiter.
func TestEnter(t *testing.T) {
	for _, again := range []bool{false, true} {
		e, _ := served(t, func(c *wiringConfig) { c.Settings.MaxParallel = 2 })
		w := &waiter{}
		one, err := e.gates.Enter(t.Context(), "ollama:m", again, w)
		require.NoError(t, err)
		other, err := e.gates.Enter(t.Context(), "ollama:m", false, nil)
		require.NoError(t, err)
		other.Active()
		require.Len(t, w.behind, 1)
		assert.Positive(t, w.behind[0])
		one.Leave(llm.Report{})
		other.Active()
		assert.Len(t, w.behind, 1, "it waits no more")
	}
}

// TestSpent: a used-up token budget refuses tasks before their process starts, and only
// then.
func TestSpent(t *testing.T) {
	e, _ := served(t, func(c *wiringConfig) { c.Settings.MaxTokens = 100 })
	for _, c := range []struct {
		use   int
		spent bool
	}{{60, false}, {39, false}, {1, true}} {
		p, err := e.gates.Enter(t.Context(), "ollama:m", false, &waiter{})
		require.NoError(t, err)
		p.Leave(llm.Report{Usage: task.Usage{OutputTokens: c.use}})
		assert.Equal(t, c.spent, e.Spent())
		refused := e.gates.Refusal(task.Task{Text: "x"})
		assert.Equal(t, c.spent, refused != nil)
		if refused != nil {
			r := task.Task{Text: "x"}.Normalized().Fail(refused)
			assert.Equal(t, task.Limit, r.Status)
			assert.Contains(t, r.Err(), "100 of 100 tokens used")
			assert.Equal(t, task.DefaultAgent, r.Agent)
		}
	}
	require.NoError(t, newTestWiring(t, nil).gates.Refusal(task.Task{Text: "x"}), "what is built in costs nothing")
	e, _ = served(t, nil)
	assert.False(t, e.Spent(), "there is no budget")
}

// TestRefuseWhenOpen: an open breaker refuses tasks if it stays open too long to wait. A
// person is told only if several agents share the server.
func TestRefuseWhenOpen(t *testing.T) {
	for _, several := range []bool{false, true} {
		e, notes := served(t, nil) // without retries
		for range 3 {
			p, err := e.gates.Enter(t.Context(), "ollama:"+standin.DefaultModel, false, nil)
			require.NoError(t, err)
			if several {
				e.several.Store(true)
			}
			p.Leave(llm.Report{Kind: llm.Server})
		}
		refused := e.gates.Refusal(task.Task{Text: "x"})
		require.Error(t, refused)
		assert.Equal(t, task.Unavailable, task.StatusOf(refused))
		assert.Equal(t, several, len(*notes) > 0)
	}
}
