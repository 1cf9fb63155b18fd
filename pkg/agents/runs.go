package agents

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"qq/pkg/agents/program"
)

// unused are the keys that mean nothing for an agent that another program runs.
var unused = []string{"prompttemplate", "agents", "candelegate", "fallback", "maxrepairs", "mcpservers"}

// runsProgram stores the program that runs an agent.
func (p *parser) runsProgram(n *yaml.Node) string {
	var line string
	if want := text(&line)(n); want != "" {
		return want
	}
	found, err := program.Parse(line)
	if err != nil {
		p.fail("line %d: \"runs\": %v", n.Line, err)
		return ""
	}
	switch found.Name {
	case program.Codex, program.Gemini, program.Qwen: // package foreign has no dialect of theirs
		p.fail("line %d: \"runs\": %s has no dialect of its own yet: if it speaks the Agent Client Protocol, write "+
			"runs: acp with its command line", n.Line, found.Name)
		return ""
	}
	p.agent.Runs = found
	return ""
}

// foreign checks the keys of an agent that another program runs, and settles what it may do. The program has tools of
// its own: from these of the definition follows only whether it may change anything. Rules for some calls could not be
// kept, so they are mistakes.
func (p *parser) foreign() {
	a := &p.agent
	if a.Runs.IsZero() {
		return
	}
	for _, key := range unused {
		if p.agent.Lines[key] > 0 {
			p.remarkAt(key, "%q does nothing here: %s runs this agent", p.spelt(key), a.Runs.Name)
		}
	}
	if len(a.DisallowedTools) > 0 {
		p.fail("line %d: disallowedTools cannot be kept from %s: give it the role %s, or run it with --deny",
			a.Lines["disallowedtools"], a.Runs.Name, Gathering)
	}
	if len(a.Within) > 0 {
		p.fail("line %d: %s is not held to some calls of a tool (%s): name whole tools", a.Lines["tools"], a.Runs.Name,
			strings.Join(a.Within, ", "))
	}
	if a.Tools != nil {
		p.remarkAt("tools", "%s has tools of its own: from this list follows only that the role is %s", a.Runs.Name,
			a.Role)
	}
	no := false
	a.Tools, a.Agents, a.CanDelegate, a.Fallback = nil, nil, &no, nil
	a.PromptTemplate, a.MCPServers, a.MaxRepairs = "", nil, 0
}

// spelt returns the key as definitions have it.
func (p *parser) spelt(squashed string) string {
	if i := slices.IndexFunc(keys, func(k string) bool { return squash(k) == squashed }); i >= 0 {
		return keys[i]
	}
	return squashed
}
