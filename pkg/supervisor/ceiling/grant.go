package ceiling

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"qq/pkg/task"
)

// Asker is an agent that asks for tasks.
type Asker struct {
	Ceiling
	Known *Agents
	Parts *Parts // that it has had summarized
	// Trusted says that its requests are what the code of this process sent.
	Trusted bool
}

// Grant returns t limited to what the agent may delegate. If t defines a temporary agent, Grant registers it. If the
// agent may not delegate t, the second result is the result of t, which says why; otherwise it is nil.
func (a Asker) Grant(ctx context.Context, t task.Task) (task.Task, *task.Result) {
	refuse := func(status task.Status, why string) (task.Task, *task.Result) {
		r := a.Known.Resolved(t).Ended(status, why)
		return t, &r
	}
	t = Relative(t, filepath.Join(a.Task.WorkingDir, t.WorkingDir))
	if status, why := a.DenyReason(t, a.Known); why != "" {
		return refuse(status, why)
	}
	if t.Part {
		t = a.Part(t, a.Known, a.Trusted)
		if !a.Trusted && !a.Parts.Take() {
			return refuse(task.Limit, fmt.Sprintf("%s has had %d parts of texts summarised, which is the most",
				a.Agent.Name, MaxParts))
		}
	}
	if t.Temporary != nil {
		var err error
		if t, err = a.Known.Register(a.Agent, t); err != nil {
			return refuse(task.Misused, err.Error())
		}
	}
	t, why := a.Settle(ctx, a.Known.Resolved(t))
	if why != "" {
		return refuse(task.Misused, why)
	}
	return t, nil
}

// Resolved returns t with the name of its agent spelled as in the definition. If there is no such agent, only the
// defaults of t are filled in.
func (a *Agents) Resolved(t task.Task) task.Task {
	t = t.Normalized()
	if found, err := a.Agent(t.Agent); err == nil { // else who starts the task says so
		t.Agent = found.Name
	}
	return t
}

// WithSchemas returns the tasks, with the schemas of their agents where they have none.
func (a *Agents) WithSchemas(tasks []task.Task) []task.Task {
	tasks = slices.Clone(tasks)
	for i, t := range tasks {
		if def, err := a.Agent(t.Normalized().Agent); err == nil && len(t.Schema) == 0 {
			tasks[i].Schema = def.Schema
		}
	}
	return tasks
}
