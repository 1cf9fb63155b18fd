package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/definitions"
	"qq/pkg/agents"
)

// TestAgentAsItTakesEffect: qq agents show prints what the agent may do in effect, not
// the text of its file.
func TestAgentAsItTakesEffect(t *testing.T) {
	w := newWorld(t)
	w.file(
		".qq/agents/lead.md",
		"---\ndescription: |\n  Leads\n  well.\ntools: Read, Write, mcp__x__y\ndisallowedTools: Grep\n"+
			"can_delegate: true\nrole: information-gathering\nagents: []\nmcp_servers: {x: {command: y}}\n"+
			"model: ollama:m\ntimeout: 90\n---\nLead.\n",
	)
	e := w.run("agents", "show", "lead", "--json", "-q")
	require.Zero(t, e.code, e.errors)
	var shown definitions.ShownAgent
	require.NoError(t, json.Unmarshal([]byte(e.out), &shown))
	assert.Equal(t, []string{"read_file", "write_file", "mcp__x__y"}, shown.Tools)
	assert.Equal(
		t,
		[]string{
			"read_file",
			"delegate_task",
			"run_parallel_tasks",
			"spawn_agent",
			"list_agents",
			"list_children",
			"wait_children",
			"terminate_child",
			"send_message",
			"mcp__x__y",
		},
		shown.EffectiveTools,
	)
	assert.JSONEq(t, `{"x":{"command":"y"}}`, string(shown.MCPServers))

	e = w.run("agents", "show", "lead")
	for _, line := range []string{"description:  Leads well.", "not:          grep_file", "agents:       none",
		"model:        ollama:m",
		"turns:        that of the run", "timeout:      1m30s", `servers:      {"x":{"command":"y"}}`} {
		assert.Contains(t, e.out, line+"\n")
	}
	assert.Contains(t, e.errors, `tool "write_file" changes something`)
	assert.Contains(t, w.run("agents", "show", "worker").out, "tools:        every tool: read_file, ")
	assert.Contains(t, w.run("agents", "show", "worker").out, "template:     a model writes the prompt")
}

// TestAgentNewModes: a new definition has at most file mode 0644; if it cannot be
// written, the error comes with a hint.
func TestAgentNewModes(t *testing.T) {
	w := newWorld(t)
	e := w.run("agents", "new", "mine")
	require.Zero(t, e.code, e.errors)
	path := filepath.Join(w.dir, ".qq", "agents", "mine.md")
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Zero(t, info.Mode().Perm()&^0o644)
	a, err := agents.Read(path)
	require.NoError(t, err)
	assert.Empty(t, a.Warnings)

	w.file("sub/.qq", "a file")
	e = w.run("agents", "new", "mine", "-C", filepath.Join(w.dir, "sub"))
	assert.Equal(t, 1, e.code)
	assert.Contains(t, e.errors, "create ")
	assert.Contains(t, e.errors, "\n  hint: make the folder one that you can write to")

	require.Zero(t, w.run("agents", "new", "--user", "broken").code)
	own := filepath.Join(w.home, "config", "qq", "agents", "broken.md")
	require.NoError(t, os.WriteFile(own, []byte("---\nname: [\n---\n"), 0o600))
	e = w.run("agents", "new", "broken")
	assert.Zero(t, e.code)
	assert.Contains(t, e.errors, "it does not take effect yet: read agent file ")
}
