package agents

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestTemporary(t *testing.T) {
	yes := true
	parent := Agent{
		Name: "lead", Description: "Leads.", Tools: []string{"read_file", "write_file", "run_pty_cmd", "mcp__x__y"},
		DisallowedTools: []string{"web_fetch"}, Within: []string{"run_pty_cmd(git log *)"},
		Model: "ollama:m", Role: Modifying, MaxTurns: 7, Timeout: time.Minute, IdleTimeout: time.Second,
		PromptTemplate: "{task}",
		CanDelegate:    &yes, Agents: []string{"explorer"}, Schema: []byte(`{}`), Prompt: "Lead.", Source: BuiltIn,
		Warnings: []string{"w"},
	}
	a, err := Temporary(parent, "", "", nil, false)
	require.NoError(t, err)
	assert.Equal(t, Agent{
		Name: "temporary", Description: "Made up by lead for one task.", Tools: parent.Tools,
		DisallowedTools: parent.DisallowedTools, Within: parent.Within, Model: "ollama:m",
		Role: Modifying, MaxTurns: 7, Timeout: time.Minute, IdleTimeout: time.Second, CanDelegate: &yes,
		Agents: []string{"explorer"},
		Prompt: generalPrompt, Source: "made up by lead",
	}, a)

	a, err = Temporary(parent, " sorter ", " Sort. ", []string{"Read", "mcp__x__y", "read_file", "delegate_task"},
		false)
	require.NoError(t, err)
	assert.Equal(t, "sorter", a.Name)
	assert.Equal(t, "Sort.", a.Prompt)
	assert.Equal(t, []string{"read_file", "mcp__x__y", "delegate_task"}, a.Tools)
	assert.False(t, a.Allows("spawn_agent"), "a list says all that there is")

	a, err = Temporary(parent, "", "", []string{"read_file"}, false)
	require.NoError(t, err)
	assert.Equal(t, Gathering, a.Role, "the tools say")

	a, err = Temporary(parent, "", "", nil, true)
	require.NoError(t, err)
	assert.True(t, a.Gathers())
	assert.False(t, a.Allows("write_file"))
	a, err = Temporary(Agent{Name: "everything"}, "", "", []string{"*"}, false)
	require.NoError(t, err)
	assert.Nil(t, a.Tools)
}

func TestTemporaryErrors(t *testing.T) {
	parent := Agent{Name: "lead", Tools: []string{"read_file", "write_file"}, DisallowedTools: []string{"write_file"},
		Role: Modifying}
	all := Agent{Name: "all", Role: Modifying}
	for _, test := range []struct {
		parent       Agent
		name, prompt string
		tools        []string
		readOnly     bool
		want         string
	}{
		{parent, "", "", []string{"Bash"}, false,
			`tool "Bash" is none that you have: choose from read_file, or leave tools out for all of them`},
		{parent, "", "", []string{"write_file"}, false,
			`tool "write_file" is none that you have: choose from read_file, `},
		{all, "", "", []string{"fly"}, false, `tool "fly" is none that you have: choose from read_file, `},
		{all, "", "", []string{"Bash(git:*)"}, false, `tool "Bash(git:*)" is none that you have`},
		{all, "", "", []string{"Write"}, true,
			`tool "Write" changes something, and the agent may only read: leave it out`},
		{Agent{Name: "g", Role: Gathering}, "", "", []string{"Write"}, false, `tool "Write" changes something`},
		{Agent{Name: "none", Tools: []string{}}, "", "", []string{"Read"}, false, `choose from none,`},
		{all, "../x", "", nil, false, `name "../x": use letters, digits, - and _, at most 64`},
		{all, "", strings.Repeat("x", MaxPrompt+1), nil, false,
			`the system prompt has 65537 bytes, at most 65536 are taken`},
		{all, "", "a\x00", nil, false, `is no UTF-8 text`},
		{all, "", "a\xff", nil, false, `is no UTF-8 text`},
	} {
		_, err := Temporary(test.parent, test.name, test.prompt, test.tools, test.readOnly)
		assert.ErrorContains(t, err, test.want)
	}
}

// TestTemporaryNeverWidens: whatever is asked for, no agent makes one that may
// do more than itself.
func TestTemporaryNeverWidens(t *testing.T) {
	names := []string{"mcp__x__y", "fly", "Bash", "Write(x)", everyTool}
	for _, k := range known {
		names = append(names, k.name)
	}
	some := rapid.SliceOfN(rapid.SampledFrom(names), 0, 6)
	rapid.Check(t, func(t *rapid.T) {
		parent := Agent{Name: "p", DisallowedTools: some.Draw(t, "disallowed"),
			Role: rapid.SampledFrom([]string{Gathering, Modifying}).Draw(t, "role")}
		if rapid.Bool().Draw(t, "list") {
			parent.Tools = slices.DeleteFunc(some.Draw(t, "tools"), func(n string) bool { return n == everyTool })
		}
		if rapid.Bool().Draw(t, "delegation") {
			may := rapid.Bool().Draw(t, "may")
			parent.CanDelegate = &may
		}
		a, err := Temporary(parent, "", "", some.Draw(t, "asked"), rapid.Bool().Draw(t, "read-only"))
		if err != nil {
			return
		}
		for _, n := range names {
			if a.Allows(n) && !parent.Allows(n) {
				t.Fatalf("%s: %+v", n, a)
			}
		}
		if a.Changes() && !parent.Changes() || parent.Gathers() && !a.Gathers() {
			t.Fatalf("%+v", a)
		}
	})
}

func TestTemplate(t *testing.T) {
	a := Agent{PromptTemplate: "For {task} with {context} do {other}; {task}"}
	for _, test := range []struct{ task, context, want string }{
		{"a", "b", "For a with b do {other}; a"},
		{"{context}", "{task}", "For {context} with {task} do {other}; {context}"},
		{"a", " \n", "For a with (none) do {other}; a"},
		{"a", strings.Repeat("é", 2000), "For a with " + strings.Repeat("é", 2000) + " do {other}; a"},
		{"a", strings.Repeat("é", 2001), "For a with " + strings.Repeat("é", 2000) +
			"\n[1 more characters] do {other}; a"},
		{"", "\xff", "For  with \xff do {other}; "},
	} {
		got, ok := a.Template(test.task, test.context)
		assert.True(t, ok)
		assert.Equal(t, test.want, got)
	}
	long, _ := a.Template(strings.Repeat("x", 1<<20), "")
	assert.Less(t, len(long), 17000)
	_, ok := Agent{Prompt: "p"}.Template("a", "b")
	assert.False(t, ok)
}
