// Package outline says what a plan has to know of a task: what the agent can do under its ceiling, and the real
// paths of the targets.
package outline

import (
	"cmp"
	"slices"

	"qq/pkg/supervisor/ceiling"
	"qq/pkg/supervisor/plan"
	"qq/pkg/supervisor/targets"
	"qq/pkg/task"
)

// Paths finds real paths.
type Paths interface {
	// Targets returns the real paths for the paths and globs of a task that works in dir.
	Targets(dir string, texts []string) []targets.Target
	// Root returns the working directory as targets have it.
	Root() string
}

// Outliner makes outlines of tasks.
type Outliner struct {
	Paths
	agents   *ceiling.Agents
	readOnly bool     // no agent may change anything
	denied   []string // tools that no agent may use
}

// New returns an Outliner for tasks of the agents that are known.
func New(known ceiling.Registry, paths Paths, readOnly bool, denied []string) *Outliner {
	return &Outliner{Paths: paths, agents: &ceiling.Agents{Registry: known}, readOnly: readOnly, denied: denied}
}

// Planned implements planned.Runner. A task of an agent that is not known may do anything.
func (o *Outliner) Planned(t task.Task) plan.Task {
	t = t.Normalized()
	def, err := o.agents.Agent(t.Agent)
	c := ceiling.Ceiling{Agent: def, Task: t, ReadOnly: o.readOnly}
	c.Task.Denied = slices.Concat(t.Denied, o.denied)
	p := plan.Task{
		ID: t.ID, Agent: cmp.Or(def.Name, t.Agent), Role: c.Role(), Effect: c.Effect(), Needs: t.Needs,
		Priority: t.Priority,
	}
	if err != nil {
		p.Effect = targets.Writes
	}
	if len(t.Targets) > 0 {
		p.Targets = o.Targets(cmp.Or(t.Dir, t.WorkingDir), t.Targets)
	}
	return p
}
