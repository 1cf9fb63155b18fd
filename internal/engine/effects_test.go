package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/approval"
	"qq/internal/models"
	"qq/internal/standin"
	"qq/pkg/agents"
	"qq/pkg/proc"
	"qq/pkg/task"
)

// TestEffectsOfReading: a command of an agent that may only read can do something
// to the world all the same, for it has the network; to read does nothing.
func TestEffectsOfReading(t *testing.T) {
	const command = `<tool_call>{"name":"run_pty_cmd","arguments":{"command":"echo done"}}</tool_call>`
	for call, want := range map[string]int{
		`<tool_call>{"name":"list_directory","arguments":{"path":"."}}</tool_call>`: 0,
		command:           1,
		command + command: 1,
	} {
		server := standin.Start(t, standin.Reply(func(p standin.Prompt) string {
			if got := p.Last("tool"); got != "" {
				return got
			}
			return call
		}))
		host := proc.NewHost()
		told := 0
		w := work{
			toolmaker: toolmaker{
				setup: Setup{
					Model:  Model{Kind: models.Ollama, Host: server.URL, Name: standin.DefaultModel, Context: 8192, Tools: true},
					Policy: approval.Policy{Mode: approval.Auto},
				},
				agent: agents.Agent{Name: "reader"}, dir: t.TempDir(), host: host, limits: ceiling{readOnly: true, confined: true},
			},
			effects: func() error { told++; return nil },
		}
		out, err := w.do(t.Context(), "do it")
		host.Close()
		require.NoError(t, err)
		assert.Equal(t, task.Completed, out.Status, out.Err)
		assert.NotContains(t, out.Text, "Error")
		assert.Equal(t, want, told, "%s: %s", call, out.Text)
	}
}
