// Package outline says what a plan has to know of a task: what the agent can do under its ceiling, and the real
// paths of the targets.
package outline

import (
	"cmp"
	"slices"

	"qq/pkg/supervisor/ceiling"
	"qq/pkg/supervisor/plan"
	"qq/pkg/supervisor/targets"
	"qq/pkg/supervisor/targets/realpath"
	"qq/pkg/task"
)

// Outliner makes outlines of the tasks of one batch. Only one goroutine may use it at a time.
type Outliner struct {
	agents   *ceiling.Agents
	readOnly bool     // no agent may change anything
	denied   []string // tools that no agent may use
	dir      string
	paths    *realpath.Resolver // nil until a task has targets
}

// New returns an Outliner for tasks that work in dir and in its folders.
func New(known ceiling.Registry, dir string, readOnly bool, denied []string) *Outliner {
	return &Outliner{
		agents: &ceiling.Agents{Registry: known}, readOnly: readOnly, denied: denied, dir: dir,
	}
}

// Planned implements planned.Outliner. A task of an agent that is not known may do anything.
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
	for _, text := range t.Targets {
		p.Targets = append(p.Targets, o.real(cmp.Or(t.Dir, t.WorkingDir), text)...)
	}
	return p
}

// real returns the real paths for a target. If there is no working directory any more, the target may be anything.
func (o *Outliner) real(dir, text string) []targets.Target {
	if o.paths == nil {
		var err error
		if o.paths, err = realpath.New(o.dir, realpath.Folds(o.dir)); err != nil {
			return []targets.Target{{}}
		}
	}
	return o.paths.Targets(dir, text)
}

// Root returns the working directory as targets have it.
func (o *Outliner) Root() string {
	real := o.real("", ".")
	return real[len(real)-1].String()
}
