package app

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/worker"
	"qq/internal/config"
	"qq/internal/models"
	"qq/pkg/agents"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/task"
)

// inFolder makes a new folder the working directory of this process.
func inFolder(t *testing.T) string {
	t.Helper()
	t.Chdir(t.TempDir())
	dir, err := os.Getwd()
	require.NoError(t, err)
	return dir
}

// newTestWiring makes a wiring with the built-in model; it starts no child.
func newTestWiring(t *testing.T, change func(*wiringConfig)) *wiring {
	t.Helper()
	home := t.TempDir()
	cfg := wiringConfig{
		Settings: config.Config{
			Home:       home,
			LogDir:     filepath.Join(home, "logs"),
			Model:      models.Extract,
			OllamaHost: "127.0.0.1:1",
			MaxDepth:   2,
		},
		Dir: inFolder(t), ID: task.NewID(), Version: "test", Agents: agents.Load(nil), Person: &heard{},
	}
	if change != nil {
		change(&cfg)
	}
	e, err := newWiring(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, e.Close()) })
	return e
}

// heard is a person, and has the notes that he was told.
type heard struct{ notes []string }

func (h *heard) Note(format string, args ...any) {
	h.notes = append(h.notes, fmt.Sprintf(format, args...))
}
func (h *heard) Say(string, ...any) {}

// messages are a transcript.
type messages []llm.Message

func (m *messages) Append(e llm.Entry) { *m = append(*m, e.Message) }

// TestRun: the root's own agent answers, is recorded and reports as itself.
func TestRun(t *testing.T) {
	var seen []event.Event
	e := newTestWiring(t, func(c *wiringConfig) {
		c.Sinks = []event.Sink{event.SinkFunc(func(e event.Event) { seen = append(seen, e) })}
	})
	require.NoError(
		t,
		os.WriteFile(filepath.Join(e.cfg.Dir, "a.md"), []byte("# Owls\n\nOwls hunt at night. Owls see well.\n"), 0o600),
	)
	definition, m, err := e.Staff(t.Context(), task.Task{Agent: task.DefaultAgent})
	require.NoError(t, err)
	assert.Equal(t, models.Extract, m.String())
	recorded := &messages{}
	one := zeroRun{Agent: definition, Model: m, Transcript: recorded}
	r, err := e.Run(t.Context(), one, task.Task{Text: "Summarize a.md"})
	require.NoError(t, err)
	assert.Equal(t, task.Completed, r.Status, r.Err())
	assert.Equal(t, []string{models.Extract, definition.Name, e.ID()}, []string{r.Model, r.Agent, r.ExecutionID})
	assert.Contains(t, r.Output, "Owls")
	assert.Equal(t, r.Output, (*recorded)[len(*recorded)-1].Content)
	tokens := ""
	for _, ev := range seen {
		assert.Equal(t, definition.Name, ev.Agent)
		assert.Equal(t, e.ID(), ev.ExecutionID)
		if ev.Type == event.Token {
			tokens += ev.Text
		}
	}
	assert.Contains(t, tokens, r.Output)

	_, _, err = e.Staff(t.Context(), task.Task{Agent: "nobody"})
	assert.Error(t, err)
}

// TestPrepare: the start frame gives a child its permissions, never more than those of
// its root.
func TestPrepare(t *testing.T) {
	for _, c := range []struct {
		root, job bool
		depth     int
		readOnly  bool
		delegate  bool
	}{
		{depth: 0, delegate: true},
		{depth: 1},
		{root: true, delegate: true, readOnly: true},
		{job: true, delegate: true, readOnly: true},
	} {
		e := newTestWiring(t, func(cfg *wiringConfig) { cfg.ReadOnly = c.root })
		job := task.Job{Task: task.Task{Agent: task.DefaultAgent, ReadOnly: c.job}, Depth: c.depth}
		start, err := e.Prepare(t.Context(), job)
		require.NoError(t, err)
		var setup worker.Setup
		require.NoError(t, json.Unmarshal(start.Setup, &setup))
		assert.Equal(t, models.Extract, setup.Seats[0].Model.Kind)
		assert.Equal(t, c.readOnly, setup.Agent.ReadOnly)
		assert.Equal(t, c.delegate, setup.Agent.CanDelegate)
		assert.Empty(t, setup.Agent.TempDir, "an agent that changes nothing needs none")
		assert.False(t, setup.Events)
	}
}
