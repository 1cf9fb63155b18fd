package ceiling

import (
	"errors"
	"fmt"
	"strings"
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

// Register adds the temporary agent that t defines, under a name that no other agent has: the one
// that t gives it, with a number if a temporary agent has it already. It returns t with that name as
// its agent. The agent by is the one that delegates t; the new agent may do no more than that one.
// The error says what is wrong with the definition.
func (a *Agents) Register(by agents.Agent, t task.Task) (task.Task, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	made, err := agents.Temporary(by, t.Temporary.Name, t.Temporary.Prompt, t.Temporary.Tools, t.ReadOnly)
	if err != nil {
		return t, err
	}
	name, stem, next := made.Name, made.Name, 2
	if t.Temporary.Name == "" {
		name, next = "", len(a.temporary)+1
	} else if a.registered(name) {
		return t, fmt.Errorf("name %q is that of a registered agent: take another one, or ask that agent", name)
	}
	for ; name == "" || a.taken(name); next++ {
		stem = strings.ToValidUTF8(stem[:min(len(stem), maxStem)], "")
		name = fmt.Sprintf("%s-%d", stem, next)
	}
	made.Name = name
	if a.temporary == nil {
		a.temporary = map[string]agents.Agent{}
	}
	a.temporary[name] = made
	t.Agent, t.Temporary = name, nil
	return t, nil
}

// maxStem leaves room for a number in the longest name of an agent, in bytes.
const maxStem = 50

// taken reports whether an agent has that name.
func (a *Agents) taken(name string) bool {
	_, made := a.temporary[name]
	return made || a.registered(name)
}

// registered reports whether a registered agent has that name, also one whose definition is broken.
func (a *Agents) registered(name string) bool {
	_, err := a.Lookup(name)
	_, missing := errors.AsType[*agents.NotFoundError](err)
	return !missing
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
