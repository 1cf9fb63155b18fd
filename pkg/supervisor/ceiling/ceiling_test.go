package ceiling

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"qq/pkg/agents"
	"qq/pkg/picture"
	"qq/pkg/task"
)

// What only qq batch says about a task, an agent cannot say: its offsets could lie outside of the text.
func TestRestrictDropsWhatIsOfABatch(t *testing.T) {
	asked := task.Task{Text: "x", File: "a", OtherFiles: []string{"b"}, Slots: []int{99}, Broken: "no",
		Images: []picture.Image{{Name: "a"}}}
	got := Ceiling{}.Restrict(asked)
	assert.Equal(t, "x", got.Text)
	assert.Empty(t, got.File)
	assert.Empty(t, got.OtherFiles)
	assert.Empty(t, got.Images)
	assert.Empty(t, got.Slots)
	assert.Empty(t, got.Broken)
}

// Who chose the model of a task is kept all the way down: a model that a person named stays that, whoever passes it on.
func TestRestrictSaysWhoChoseTheModel(t *testing.T) {
	c := Ceiling{Agent: agents.Agent{Name: "middle"}}
	for _, row := range []struct {
		own       task.Task // of the agent that asks
		model, by string
	}{
		{task.Task{}, "", ""},
		{task.Task{}, "big", "middle"},
		{task.Task{Model: "big"}, "", ""},
		{task.Task{Model: "big"}, "big", ""}, // a person named it
		{task.Task{Model: "big"}, "other", "middle"},
		{task.Task{Model: "big", ModelBy: "top"}, "big", "top"},
	} {
		c.Task = row.own
		assert.Equal(t, row.by, c.Restrict(task.Task{Model: row.model}).ModelBy, "%v %q", row.own, row.model)
	}
	c.Task = task.Task{}
	assert.Empty(t, c.Restrict(task.Task{Model: "big", Part: true}).ModelBy)
}

// known finds the agents of a test.
type known map[string]agents.Agent

func (k known) Lookup(name string) (agents.Agent, error) { return k[name], nil }

// A check that an agent gives is a command of the agent that gets the task: who may only read, or runs no commands, has
// none, and it is never taken for that of a person.
func TestChecksOfAgents(t *testing.T) {
	all := known{
		"coder":  {Name: "coder"},
		"writer": {Name: "writer", Tools: []string{"edit_file"}},
		"looker": {Name: "looker", Tools: []string{"read_file", "run_pty_cmd"}, Role: agents.Gathering},
	}
	lead := agents.Agent{Name: "lead", Tools: []string{"delegate_task"}}
	given := func(t task.Task) task.Task {
		t.Text, t.Check = "x", "make"
		return t
	}
	const reads, noShell = "may only read", "agent without run_pty_cmd"
	for name, c := range map[string]struct {
		c    Ceiling
		task task.Task
		why  string
	}{
		"one that runs commands": {Ceiling{Agent: lead}, given(task.Task{Agent: "coder"}), ""},
		"no commands":            {Ceiling{Agent: lead}, given(task.Task{Agent: "writer"}), noShell},
		"gathers":                {Ceiling{Agent: lead}, given(task.Task{Agent: "looker"}), reads},
		"read only":              {Ceiling{Agent: lead}, given(task.Task{Agent: "coder", ReadOnly: true}), reads},
		"the run is read only":   {Ceiling{Agent: lead, ReadOnly: true}, given(task.Task{Agent: "coder"}), reads},
		"taken from the lead": {Ceiling{Agent: agents.Agent{Name: "lead", DisallowedTools: []string{"run_pty_cmd"}}},
			given(task.Task{Agent: "coder"}), noShell},
		"taken further up": {Ceiling{Agent: lead, Task: task.Task{Denied: []string{"run_pty_cmd"}}},
			given(task.Task{Agent: "coder"}), noShell},
		"temporary, of one without": {Ceiling{Agent: lead}, given(task.Task{Temporary: &task.Temporary{}}), noShell},
		"temporary": {Ceiling{Agent: agents.Agent{Name: "lead"}},
			given(task.Task{Temporary: &task.Temporary{}}), ""},
		"temporary without": {Ceiling{Agent: agents.Agent{Name: "lead"}},
			given(task.Task{Temporary: &task.Temporary{Tools: []string{"edit_file"}}}), noShell},
	} {
		status, why := c.c.DenyReason(c.task, all)
		if c.why == "" {
			assert.Empty(t, why, name)
			continue
		}
		assert.Contains(t, why, c.why, name)
		assert.Equal(t, task.Misused, status, name)
	}
	got := Ceiling{Agent: lead}.Restrict(task.Task{Check: "make", RequireChange: true})
	assert.True(t, got.CheckAsked, "a model wrote it")
	assert.False(t, got.HasGivenCheck())
	assert.False(t, got.RequireChange, "only a person asks for that")
}

// TestHardTargets: a target that would take long to match is refused.
func TestHardTargets(t *testing.T) {
	for target, ok := range map[string]bool{
		"src/**/{a,b}/**/*.{go,mod}":          true,
		strings.Repeat("{a,b}", 6) + "/x":     true,
		strings.Repeat("{a,b}", 7) + "/x":     false,
		strings.Repeat("**/", 30) + "x":       true,
		"{src/**,test}/x":                     true,
		"{" + strings.Repeat("a,", 64) + "}":  false,
		"{a,{b,{c,{d,e}}}}":                   true,
		`\{` + strings.Repeat("a,", 64) + "b": true,
		strings.Repeat("a/", 30) + "{x,y}.go": true,
	} {
		err := Check(task.Task{Text: "x", Targets: []string{target}})
		assert.Equal(t, ok, err == nil, "%s: %v", target, err)
	}
}
