package ceiling

import (
	"fmt"
	"sync"

	"qq/pkg/agents"
	"qq/pkg/task"
)

// Registry knows the registered agents.
type Registry interface {
	// Lookup returns the definition of that name, or an error that says who is known.
	Lookup(name string) (agents.Agent, error)
}

// Agents are the agents of one run: the registered ones, and temporary ones that other
// agents made. They may be used by several goroutines at once.
type Agents struct {
	Registry

	mu        sync.Mutex
	temporary map[string]agents.Agent // by name
}

// Register gives the temporary agent that by has made for t a name of its own, and
// returns t with that name.
func (a *Agents) Register(by agents.Agent, t task.Task) (task.Task, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	name := ""
	for i := len(a.temporary) + 1; ; i++ {
		name = fmt.Sprintf("temporary-%d", i)
		_, taken := a.temporary[name]
		if _, err := a.Lookup(name); !taken && err != nil { // one of a checkout may have that name
			break
		}
	}
	made, err := agents.Temporary(by, name, t.Temporary.Prompt, t.Temporary.Tools, t.ReadOnly)
	if err != nil {
		return t, err
	}
	if a.temporary == nil {
		a.temporary = map[string]agents.Agent{}
	}
	a.temporary[name] = made
	t.Agent, t.Temporary = name, nil
	return t, nil
}

// Agent returns the definition of that name: a registered one, or one that was made
// in this run.
func (a *Agents) Agent(name string) (agents.Agent, error) {
	if made, ok := a.Made(name); ok {
		return made, nil
	}
	return a.Lookup(name)
}

// Made returns the agent of that name that was made in this run.
func (a *Agents) Made(name string) (agents.Agent, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	made, ok := a.temporary[name]
	return made, ok
}
