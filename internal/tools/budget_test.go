// Package tools_test keeps what the built-in agents send before the user's word
// within a budget: on a slow processor each token of it is time that people wait.
package tools_test

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
	"qq/internal/tools/astgrep"
	"qq/internal/tools/delegate"
	"qq/internal/tools/files"
	"qq/internal/tools/shell"
	"qq/internal/tools/web"
	"qq/pkg/agents"
	"qq/pkg/tool"
)

// envelope is what a request takes besides: the names of its fields, the model,
// options, the working directory and what an agent is told about its limits.
const envelope = 260

// budgets are the bytes of the first request of each agent, with all of its tools
// and without the user's word. Four bytes count as a token.
var budgets = map[string]int{
	"default": 800 * 4, "summarizer": 350 * 4,
	"explorer": 2900, "analyzer": 3050, "security": 3550, "executor": 3400,
	"researcher": 4970, "database": 4800, "coder": 7080, "worker": 9630, "planner": 5000,
}

type anybody struct {
	delegate.Parent
}

// everything makes all tools that there are.
func everything(root *os.Root) tool.Set {
	space := files.Open(root)
	reading, writing := astgrep.Tools(astgrep.Config{Root: root, Dir: root.Name()})
	set := append(space.Reading(), space.Writing()...)
	set = append(append(set, reading...), writing...)
	set = append(set, shell.Tool(shell.Config{Dir: root.Name(), Env: os.Environ()})...)
	set = append(set, web.Tools(web.Config{Search: web.Search{Engine: "brave", Key: "k"}})...)
	var roster delegate.Roster
	for _, a := range agents.Load(nil).Glance() {
		roster.Add(a)
	}
	return append(set, delegate.Tools(anybody{}, roster, nil)...)
}

// functions returns the tools in the form in which a chat request lists them.
func functions(t testing.TB, set tool.Set) []byte {
	type function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	type entry struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	var list []entry
	for _, s := range set.Specs() {
		list = append(list, entry{"function", function{s.Name, s.Description, s.Parameters}})
	}
	text, err := json.Marshal(list)
	require.NoError(t, err)
	return text
}

func openRoot(t testing.TB) *os.Root {
	root, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	return root
}

func TestBudget(t *testing.T) {
	all := everything(openRoot(t))
	entries := agents.Load(nil).List()
	require.Len(t, entries, len(budgets))
	for _, e := range entries {
		a := e.Agent
		var own tool.Set
		for _, s := range all {
			if a.Allows(s.Spec().Name) {
				own = append(own, s)
			}
		}
		prompt, err := json.Marshal(a.Prompt)
		require.NoError(t, err)
		size := envelope + len(prompt) + len(functions(t, own))
		assert.LessOrEqual(t, size, budgets[a.Name], "%s: bytes sent before the user's word", a.Name)
		t.Logf("%s: %d bytes, %d tokens", a.Name, size, size/4)
		assert.Greater(t, size, budgets[a.Name]*4/5, "%s: lower its budget to what it needs, %d bytes", a.Name, size)
	}
}

// TestSchemas: what a tool says that it accepts is what its schema says, and each
// tool with arguments has an example of a call with those that are required.
func TestSchemas(t *testing.T) {
	set := everything(openRoot(t))
	for _, s := range set.Specs() {
		var schema struct {
			Type       string
			Required   []string
			Properties map[string]json.RawMessage
		}
		require.NoError(t, json.Unmarshal(s.Parameters, &schema), "%s: %s", s.Name, s.Parameters)
		assert.Equal(t, "object", schema.Type, s.Name)
		assert.NotNil(t, schema.Properties, "%s: null upsets templates", s.Name)
		assert.NotEmpty(t, s.Effect, s.Name)
		assert.NotContains(t, s.Description+string(s.Parameters), "<", "%s: < is sent as six bytes", s.Name)
		checkArguments(t, set, s.Name, slices.Sorted(maps.Keys(schema.Properties)))
		if len(schema.Properties) > 0 {
			_, text, _ := strings.Cut(s.Description, "Example: ")
			var example map[string]json.RawMessage
			require.NoError(t, json.NewDecoder(strings.NewReader(text)).Decode(&example), "%s: %s", s.Name, text)
			assert.Subset(t, slices.Collect(maps.Keys(example)), schema.Required, s.Name)
			assert.Subset(t, slices.Collect(maps.Keys(schema.Properties)), slices.Collect(maps.Keys(example)), s.Name)
		}
	}
}

// checkArguments compares the arguments of a schema with those that the tool says
// it accepts.
func checkArguments(t *testing.T, set tool.Set, name string, properties []string) {
	t.Helper()
	_, accepted, _ := strings.Cut(standin.CallTool(t, set, name, `{"no such":1}`).Content, "(accepted: ")
	names := strings.Split(strings.TrimSuffix(accepted, ")"), ", ")
	switch name {
	case "delegate_task": // pkg/task says what it accepts
	case "run_parallel_tasks": // takes the list as text as well
		assert.Equal(t, append(properties, "tasks_json"), names)
	default:
		if len(properties) == 0 {
			properties = []string{"none"}
		}
		assert.Equal(t, properties, names, name)
	}
}

// BenchmarkTools makes all tools of an agent and writes them for a request. The
// aim is 50 µs.
func BenchmarkTools(b *testing.B) {
	root := openRoot(b)
	b.ReportAllocs()
	for b.Loop() {
		functions(b, everything(root))
	}
}
