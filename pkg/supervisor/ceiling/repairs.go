package ceiling

import (
	"slices"
	"sync"

	"qq/pkg/agents"
	"qq/pkg/task"
)

// Repairs counts how often an agent repairs: it hands out changes of files again, after commands that it handed out,
// such as tests. Several goroutines may use it.
type Repairs struct {
	mu      sync.Mutex
	changed bool
	ran     bool // commands, since the last changes
	made    int
}

// Check returns an error if the agent by has repaired as often as it may, so that it may not hand out tasks.
func (r *Repairs) Check(by agents.Agent, known *Agents, tasks []task.Task) error {
	return r.take(by, known, tasks, false)
}

// Take notes that the agent by hands out tasks in one call. The error is that of Check: then they must not start.
func (r *Repairs) Take(by agents.Agent, known *Agents, tasks []task.Task) error {
	return r.take(by, known, tasks, true)
}

func (r *Repairs) take(by agents.Agent, known *Agents, tasks []task.Task, counts bool) error {
	if by.MaxRepairs == 0 {
		return nil
	}
	edits, runs := false, false
	for _, t := range tasks {
		def, err := known.Agent(t.Agent)
		edit := err != nil || !t.ReadOnly && known.edits(t.Agent, t.Denied, map[string]bool{})
		edits, runs = edits || edit, runs || !edit && def.Changes()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if edits && r.ran && r.made == by.MaxRepairs {
		return &task.Error{Status: task.Limit, Hint: "say in the answer what is left",
			Problem: "it has repaired as often as it may (max_repairs of " + by.Name + ")"}
	}
	if !counts {
		return nil
	}
	if edits && r.ran {
		r.made++
	}
	r.changed = r.changed || edits
	r.ran = r.changed && (runs || r.ran && !edits) // before the first changes, they look
	return nil
}

// edits reports whether the agent of that name, or one that it may ask, changes files. Nobody has the denied tools.
// Those in seen are not looked at.
func (a *Agents) edits(name string, denied []string, seen map[string]bool) bool {
	def, err := a.Agent(name)
	if err != nil || seen[def.Name] {
		return err != nil
	}
	seen[def.Name] = true
	def.DisallowedTools = slices.Concat(def.DisallowedTools, denied)
	switch {
	case def.Gathers() || def.Edits():
		return def.Edits()
	case !def.Delegates() || def.Agents == nil:
		return def.Delegates()
	}
	return slices.ContainsFunc(def.Agents, func(to string) bool { return a.edits(to, def.DisallowedTools, seen) })
}
