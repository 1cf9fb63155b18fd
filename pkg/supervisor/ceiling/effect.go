package ceiling

import (
	"cmp"
	"slices"

	"qq/pkg/agents"
	"qq/pkg/supervisor/targets"
	"qq/pkg/task"
)

// Effect returns what the agent itself can do to files: it writes if it has a tool that changes files, runs commands
// or is unknown, and that nobody has taken away, or if a person gave its task a check, which is a command. What its
// children do does not count. A shell of an agent that may only
// read is there only where the kernel keeps it from writing.
func (c Ceiling) Effect() targets.Effect {
	if c.Task.Part || c.Task.Broken != "" { // it has its text already, or nothing is done
		return targets.None
	}
	a := c.Agent
	a.DisallowedTools = slices.Concat(a.DisallowedTools, c.Task.Denied)
	if !c.MayOnlyRead() && (a.Changes() || c.Task.HasGivenCheck()) {
		return targets.Writes
	}
	return targets.Reads
}

// Role returns what the task is for: what the task says, else what the definition of the agent says, else what
// follows from the tools of the agent.
func (c Ceiling) Role() string {
	switch {
	case c.Task.Role != "":
		return c.Task.Role
	case c.Agent.Lines["role"] > 0 && !c.MayOnlyRead():
		return c.Agent.Role
	case c.Effect() == targets.Writes:
		return agents.Modifying
	}
	return agents.Gathering
}

// Outline returns the agent of t, the role of t and its effect, of which the run allows what it allows any task. An
// agent that is not known may do anything.
func (a *Agents) Outline(t task.Task, readOnly bool, denied []string) (agent, role string, effect targets.Effect) {
	def, err := a.Agent(t.Agent)
	c := Ceiling{Agent: def, Task: t, ReadOnly: readOnly}
	c.Task.Denied = slices.Concat(t.Denied, denied)
	if err != nil {
		return t.Agent, cmp.Or(t.Role, agents.Modifying), targets.Writes
	}
	return def.Name, c.Role(), c.Effect()
}
