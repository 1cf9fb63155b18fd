package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/agent"
	"qq/internal/standin"
	"qq/pkg/agents"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/task"
)

// paragraphs is a text of n paragraphs of about 100 characters each.
func paragraphs(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(
			&b,
			"Paragraph %d tells of matter %d, of which nothing else in this text tells, at some length.\n\n",
			i,
			i,
		)
	}
	return b.String()
}

// TestPlan: the plan is made with the same tools, prompt and history as the run.
func TestPlan(t *testing.T) {
	narrow := standin.Models(standin.Model{Name: standin.DefaultModel, Context: 4096})
	e, _ := served(t, func(c *wiringConfig) { c.Settings.MaxDepth = 3 }, narrow)
	explorer, m, err := e.Staff(t.Context(), task.Task{Agent: "explorer"})
	require.NoError(t, err)
	bare := agents.Agent{Name: "bare", Tools: []string{}}
	long := task.Task{Text: "What is it about?", Context: paragraphs(200), Agent: "explorer"}
	head := func(lines []string, err error) string {
		require.NoError(t, err)
		require.NotEmpty(t, lines)
		return lines[0]
	}
	plain := head(e.Outline(zeroRun{Agent: bare, Model: m}, long))
	own := head(e.Outline(zeroRun{Agent: explorer, Model: m}, long))
	assert.NotEqual(t, plain, own, "tools and a prompt take room")
	assert.Equal(t, own, head(e.Plan(t.Context(), long)), "the agent is that of the task")
	assert.Equal(t, own, head(e.Outline(zeroRun{Agent: explorer, Model: m, System: explorer.Prompt}, long)))
	talked := zeroRun{Agent: bare, Model: m, History: []llm.Message{{Role: llm.User, Content: paragraphs(20)}}}
	assert.NotEqual(t, plain, head(e.Outline(talked, long)), "and so does what was said before")

	lines, err := e.Outline(zeroRun{Agent: explorer, Model: m}, task.Task{Text: "short"})
	assert.NoError(t, err)
	assert.Empty(t, lines)
	lines, err = e.Outline(zeroRun{Agent: explorer, Model: m}, task.Task{Text: "Translate it.\n\n" + paragraphs(200)})
	require.NoError(t, err)
	assert.Contains(t, lines[len(lines)-1], "its beginning was kept as the request")
	_, err = e.Plan(t.Context(), task.Task{Text: "x", Agent: "nobody"})
	assert.Error(t, err)
	assert.Empty(t, e.scratch.Made(), "nothing is left of it")

	e.cfg.Settings.MaxDepth = 1
	_, err = e.Outline(zeroRun{Agent: explorer, Model: m}, long)
	assert.ErrorContains(t, err, "agents at this depth cannot have it summarised")
}

// TestIdleOfTheAgent: the idle timeout of a definition also holds for the root's own
// agent.
func TestIdleOfTheAgent(t *testing.T) {
	stall := &standin.Fault{Break: standin.Stall, After: 1}
	server := standin.Start(t, standin.Scripts(standin.Script{Start: "[[stall]]", Text: "a b c", Fault: stall}))
	folder := t.TempDir()
	definition := "---\nname: hasty\ndescription: waits for nobody\ntools: []\nidle_timeout: 1\n---\nYou answer.\n"
	require.NoError(t, os.WriteFile(filepath.Join(folder, "hasty.md"), []byte(definition), 0o600))
	e := newTestWiring(t, func(c *wiringConfig) {
		c.Settings.OllamaHost, c.Settings.Model, c.Settings.MaxParallel = server.URL, "ollama:"+standin.DefaultModel, 1
		c.Agents = agents.Load([]agents.Dir{{Path: folder}})
	})
	hasty, m, err := e.Staff(t.Context(), task.Task{Agent: "hasty"})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := e.Run(
		ctx,
		zeroRun{Agent: hasty, Model: m, Transcript: agent.Nobody{}},
		task.Task{Text: "Say it. [[stall]]"},
	)
	require.NoError(t, err)
	assert.Equal(t, task.Idle, r.Status, r.Err())
	assert.Equal(t, "a", r.Output)
}

// TestProgressIsNoted: progress of the root's own agent is printed for a person and sent
// as events.
func TestProgressIsNoted(t *testing.T) {
	var seen []string
	e, notes := served(t, func(c *wiringConfig) {
		c.Settings.Retries = 1
		c.Sinks = []event.Sink{event.SinkFunc(func(ev event.Event) {
			if ev.Type == event.SubAgentProgress && ev.Phase == "" {
				seen = append(seen, ev.Text)
			}
		})}
	}, standin.Faulty("/api/chat", standin.Fault{Status: 503, Times: 1}))
	def, m, err := e.Staff(t.Context(), task.Task{Agent: task.DefaultAgent})
	require.NoError(t, err)
	r, err := e.Run(t.Context(), zeroRun{Agent: def, Model: m, Transcript: agent.Nobody{}}, task.Task{Text: "Say it."})
	require.NoError(t, err)
	assert.Equal(t, task.Completed, r.Status, r.Err())
	assert.Equal(t, 2, r.Attempts)
	require.Len(t, *notes, 1)
	assert.Contains(t, (*notes)[0], "request to the model repeated (1) in ")
	assert.Equal(t, *notes, seen)
}
