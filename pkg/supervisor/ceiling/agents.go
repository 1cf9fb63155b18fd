package ceiling

import (
	"fmt"
	"sync"

	"qq/pkg/agents"
	"qq/pkg/task"
)

// Registry finds the definitions of registered agents.
type Registry interface {
	// Lookup returns the definition of the agent with that name. The error for an unknown name
	// lists the known ones.
	Lookup(name string) (agents.Agent, error)
}

// Agents finds the agents of one run: the registered ones, and temporary ones that other agents
// define. Several goroutines may use it at once.
type Agents struct {
	Registry

	mu        sync.Mutex
	temporary map[string]agents.Agent // by name
}

// Register adds the temporary agent that t defines, under a name that no other agent has. It
// returns t with that name as its agent. The agent by is the one that delegates t; the new agent
// may do no more than that one. The error says what is wrong with the definition.
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

// Agent returns the definition of the agent with that name, temporary or registered.
func (a *Agents) Agent(name string) (agents.Agent, error) {
	if made, ok := a.Made(name); ok {
		return made, nil
	}
	return a.Lookup(name)
}

// Made returns the temporary agent with that name. false means that this run has none of that name.
func (a *Agents) Made(name string) (agents.Agent, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	made, ok := a.temporary[name]
	return made, ok
}
