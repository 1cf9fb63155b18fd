package ceiling

import (
	"slices"

	"qq/pkg/agents"
	"qq/pkg/supervisor/targets"
)

// Effect returns what the agent itself can do to files: it writes if it has a tool that changes files, runs commands
// or is unknown, and that nobody has taken away. What its children do does not count. A shell of an agent that may only
// read is there only where the kernel keeps it from writing.
func (c Ceiling) Effect() targets.Effect {
	if c.Task.Part || c.Task.Broken != "" { // it has its text already, or nothing is done
		return targets.None
	}
	a := c.Agent
	a.DisallowedTools = slices.Concat(a.DisallowedTools, c.Task.Denied)
	if !c.MayOnlyRead() && a.Changes() {
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
