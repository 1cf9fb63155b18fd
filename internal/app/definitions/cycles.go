package definitions

import (
	"slices"
	"strings"

	"qq/pkg/agents"
)

// endless returns the agents from a back to one of them, if a can do nothing but hand on, and every agent that its
// tasks can reach is the same: whatever they are asked goes round until a limit ends it. It returns nil if one of them
// can do something itself.
func endless(reg *agents.Registry, a agents.Agent) (cycle []string) {
	seen := map[string]bool{}
	var visit func(a agents.Agent, path []string) bool
	visit = func(a agents.Agent, path []string) bool {
		path = append(slices.Clone(path), a.Name)
		if at := slices.Index(path, a.Name); at < len(path)-1 {
			if cycle == nil {
				cycle = path[at:]
			}
			return true
		}
		if seen[a.Name] {
			return true
		}
		seen[a.Name] = true
		if a.ActsItself() || !a.Delegates() || len(a.Agents) == 0 {
			return false
		}
		for _, name := range a.Agents {
			if to, err := reg.Lookup(name); err == nil && !visit(to, path) {
				return false
			}
		}
		return true
	}
	if !visit(a, nil) {
		return nil
	}
	return cycle
}

// round returns a defect of a definition whose tasks go round, or nil. See endless.
func round(reg *agents.Registry, a agents.Agent) []defect {
	cycle := endless(reg, a)
	if cycle == nil {
		return nil
	}
	return []defect{{isWarning, a.Lines["agents"], "agents leads only to agents that can do nothing but hand on: " +
		strings.Join(cycle, " → ") + "; give one of them a tool, or name an agent that has some"}}
}
