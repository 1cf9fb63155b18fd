package staffing

import (
	"qq/internal/config/trust"
	"qq/pkg/agents"
)

// Registry finds the agents of the working directory of the root, for a child. It reads the directory at each look-up,
// because most children never look one up.
type Registry struct {
	Dir     string     // of the root
	Config  string     // the folder with the configuration of the user
	Trusted trust.Sums // files in Dir that may replace agents of the user
}

func (r Registry) load() *agents.Registry {
	return agents.Load(agents.Dirs(r.Dir, r.Config, r.Trusted))
}

// Lookup implements agent.Registry.
func (r Registry) Lookup(name string) (agents.Agent, error) { return r.load().Lookup(name) }

// List implements agent.Registry.
func (r Registry) List() []agents.Entry { return r.load().List() }
