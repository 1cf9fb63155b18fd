package ceiling

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"qq/pkg/agents"
	"qq/pkg/supervisor/targets"
	"qq/pkg/task"
)

func TestEffect(t *testing.T) {
	known := agents.Load(nil)
	builtIn := func(name string) agents.Agent {
		a, err := known.Lookup(name)
		assert.NoError(t, err)
		return a
	}
	no := agents.Agent{Tools: []string{"read_file", "delegate_task"}, Role: agents.Modifying}
	with := func(tool string) agents.Agent {
		return agents.Agent{Tools: []string{"read_file", tool}, Role: agents.Modifying}
	}
	edits := with("edit_file")
	given := no
	given.Lines = map[string]int{"role": 3}
	for name, row := range map[string]struct {
		c      Ceiling
		effect targets.Effect
		role   string
	}{
		"default":         {Ceiling{Agent: builtIn("default")}, targets.Reads, agents.Modifying}, // its children may
		"coder":           {Ceiling{Agent: builtIn("coder")}, targets.Writes, agents.Modifying},
		"explorer":        {Ceiling{Agent: builtIn("explorer")}, targets.Reads, agents.Gathering},
		"summarizer":      {Ceiling{Agent: builtIn("summarizer")}, targets.Reads, agents.Gathering},
		"unknown agent":   {Ceiling{}, targets.Writes, agents.Modifying},
		"hands on":        {Ceiling{Agent: no}, targets.Reads, agents.Gathering},
		"role given":      {Ceiling{Agent: given}, targets.Reads, agents.Modifying},
		"shell":           {Ceiling{Agent: with("run_pty_cmd")}, targets.Writes, agents.Modifying},
		"writes":          {Ceiling{Agent: edits}, targets.Writes, agents.Modifying},
		"unknown tool":    {Ceiling{Agent: with("mcp__x__y")}, targets.Writes, agents.Modifying},
		"read-only task":  {Ceiling{Agent: given, Task: task.Task{ReadOnly: true}}, targets.Reads, agents.Gathering},
		"read-only run":   {Ceiling{Agent: builtIn("coder"), ReadOnly: true}, targets.Reads, agents.Gathering},
		"a given check":   {Ceiling{Agent: no, Task: task.Task{Check: "make"}}, targets.Writes, agents.Modifying},
		"an asked check":  {Ceiling{Agent: no, Task: checkOf("make")}, targets.Reads, agents.Gathering},
		"role of task":    {Ceiling{Task: task.Task{Role: agents.Gathering}}, targets.Writes, agents.Gathering},
		"denied":          {Ceiling{Agent: edits, Task: denied("edit_file")}, targets.Reads, agents.Gathering},
		"part of a text":  {Ceiling{Agent: edits, Task: task.Task{Part: true}}, targets.None, agents.Gathering},
		"broken":          {Ceiling{Agent: edits, Task: task.Task{Broken: "x"}}, targets.None, agents.Gathering},
		"denied in part":  {Ceiling{Agent: edits, Task: denied("edit_file(x)")}, targets.Writes, agents.Modifying},
		"denied with all": {Ceiling{Agent: with("x"), Task: denied("*")}, targets.Reads, agents.Gathering},
	} {
		assert.Equal(t, row.effect, row.c.Effect(), name)
		assert.Equal(t, row.role, row.c.Role(), name)
	}
}

// checkOf is a task whose check needs an approval: it is a command of its agent, or refused.
func checkOf(check string) task.Task { return task.Task{Check: check, CheckAsked: true} }

func denied(tool string) task.Task { return task.Task{Denied: []string{tool}} }
