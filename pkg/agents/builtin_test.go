package agents

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBuiltIn keeps the definitions that come with the program to what is said
// about them, and their prompts to the tools that they have.
func TestBuiltIn(t *testing.T) {
	roles := map[string]string{
		"default": Modifying, "coder": Modifying, "executor": Modifying, "worker": Modifying, "database": Modifying,
		"planner":    Modifying,
		"researcher": Gathering, "explorer": Gathering, "analyzer": Gathering, "summarizer": Gathering,
		"security": Gathering,
	}
	limits := map[string][2]int{"default": {25, 900}, "worker": {30, 900}, "explorer": {15, 600}}
	word := regexp.MustCompile(`[a-z]+(_[a-z]+)+|ast_grep`)
	entries := Load(nil).List()
	assert.Len(t, entries, len(roles))
	for _, e := range entries {
		a := e.Agent
		t.Run(a.Name, func(t *testing.T) {
			require.NoError(t, e.Err)
			assert.Empty(t, a.Warnings)
			assert.Equal(t, BuiltIn, a.Source)
			assert.Equal(t, roles[a.Name], a.Role)
			assert.NotContains(t, a.Description, "\n")
			assert.LessOrEqual(t, len(a.Description), 200)
			assert.True(t, a.MaxTurns >= 15 && a.MaxTurns <= 30, "turns %d", a.MaxTurns)
			assert.True(t, a.Timeout >= 600*time.Second && a.Timeout <= 900*time.Second, "timeout %s", a.Timeout)
			assert.Zero(t, a.IdleTimeout, "that of the run counts")
			if want, ok := limits[a.Name]; ok {
				assert.Equal(t, want, [2]int{a.MaxTurns, int(a.Timeout.Seconds())})
			}
			assert.True(t, len(a.Prompt) >= 500 && len(a.Prompt) <= 2100, "prompt of %d bytes", len(a.Prompt))
			assert.Regexp(t, `\n\n(1\.|-) `, a.Prompt, "how to work")
			assert.Regexp(t, `\n\n(Your answer, read by a program or another agent: first|Answer with the) `, a.Prompt)
			for _, name := range word.FindAllString(a.Prompt, -1) {
				if kindOf(name) != unknown {
					assert.True(t, a.Allows(name), "the prompt names %s", name)
				}
			}
			for _, other := range a.Agents {
				_, err := Load(nil).Lookup(other)
				assert.NoError(t, err)
			}
			assert.NotContains(t, a.Agents, a.Name)
		})
	}
}

// TestBuiltInTools: who may do what.
func TestBuiltInTools(t *testing.T) {
	r := Load(nil)
	who := func(tool string) (names []string) {
		for _, e := range r.List() {
			if e.Agent.Allows(tool) {
				names = append(names, e.Agent.Name)
			}
		}
		return names
	}
	everyone := who("read_file")
	assert.Len(t, everyone, 11)
	assert.Equal(t, []string{"coder", "database", "worker"}, who("edit_file"))
	assert.Equal(t, []string{"coder", "worker"}, who("delete_file"))
	assert.Equal(t, []string{"coder", "worker"}, who("ast_grep_replace"))
	assert.Equal(t, []string{"coder", "database", "executor", "worker"}, who("run_pty_cmd"))
	assert.Equal(t, []string{"researcher", "worker"}, who("web_search"))
	assert.Equal(t, []string{"coder", "default", "planner", "researcher", "worker"}, who("delegate_task"))
	assert.Equal(t, []string{"worker"}, who("spawn_agent"))
	assert.Equal(t, []string{"worker"}, who("anything"))
	for _, name := range everyone {
		a, err := r.Lookup(name)
		require.NoError(t, err)
		assert.Equal(t, slices.Contains([]string{"coder", "database", "executor", "worker"}, name), a.Changes(), name)
	}
	researcher, err := r.Lookup("researcher")
	require.NoError(t, err)
	for _, name := range everyone {
		assert.Equal(t, name == "explorer" || name == "analyzer" || name == "summarizer", researcher.AllowsAgent(name),
			name)
	}
}

// TestWorkerTemplate: only the worker has its prompt written, and the request is
// short enough for any model.
func TestWorkerTemplate(t *testing.T) {
	for _, e := range Load(nil).List() {
		request, ok := e.Agent.Template("Sort {context} by date.", strings.Repeat("ä", 5000))
		assert.Equal(t, e.Agent.Name == "worker", ok, e.Agent.Name)
		if ok {
			assert.Contains(t, request, "\nSort {context} by date.\n")
			assert.Contains(t, request, "ä\n[3000 more characters]\n</context>")
			assert.NotContains(t, request, "{task}")
			assert.Less(t, len(request), 6000)
		}
	}
}
