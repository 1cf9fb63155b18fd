package ceiling

import (
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

// Take notes that the agent by hands out tasks in one call. The error says that it has repaired as often as it may:
// then they must not start.
func (r *Repairs) Take(by agents.Agent, known *Agents, tasks []task.Task) error {
	if by.MaxRepairs == 0 {
		return nil
	}
	edits, runs := false, false
	for _, t := range tasks {
		def, err := known.Agent(t.Agent)
		edit := err != nil || def.Edits() && !t.ReadOnly
		edits, runs = edits || edit, runs || !edit && def.Changes()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if edits && r.ran {
		if r.made == by.MaxRepairs {
			return &task.Error{Status: task.Limit, Hint: "say in the answer what is left",
				Problem: "it has repaired as often as it may (max_repairs of " + by.Name + ")"}
		}
		r.made++
	}
	r.changed = r.changed || edits
	r.ran = r.changed && (runs || r.ran && !edits) // before the first changes, they look
	return nil
}
