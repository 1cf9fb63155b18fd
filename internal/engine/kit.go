package engine

import (
	"context"
	"os"
	"slices"

	"qq/internal/approval"
	"qq/internal/sandbox"
	"qq/internal/tools/astgrep"
	"qq/internal/tools/delegate"
	"qq/internal/tools/files"
	"qq/internal/tools/shell"
	"qq/internal/tools/web"
	"qq/pkg/agents"
	"qq/pkg/proc"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Setup is what the root found out for the whole tree and hands to each child.
type Setup struct {
	Model    Model           `json:"model"`
	Policy   approval.Policy `json:"policy"`
	Writable []string        `json:"writable,omitempty"` // folders besides the working directory
	WebAllow []string        `json:"web_allow,omitempty"`
	Search   web.Search      `json:"search,omitzero"` // with its key: for agents that search only
	AstGrep  string          `json:"ast_grep,omitempty"`
	TempDir  string          `json:"temp_dir,omitempty"`
	ShellLog string          `json:"shell_log,omitempty"`
}

// ceiling is what an agent may do, as its root decided.
type ceiling struct {
	readOnly bool
	denied   []string // tools
	// confined says that the kernel keeps what the agent starts from writing where
	// it may not.
	confined bool
}

// kit is the tools of one agent: those that it is offered, and why not the
// others.
type kit struct {
	offered  tool.Set
	withheld map[string]approval.Withheld
}

// sort decides which of all an agent is offered.
func (l ceiling) sort(agent agents.Agent, all tool.Set) kit {
	k := kit{withheld: map[string]approval.Withheld{}}
	for _, t := range all {
		s := t.Spec()
		if why := l.objection(agent, s); why != "" {
			k.withheld[s.Name] = approval.Withheld{Effect: s.Effect, Reason: why}
			continue
		}
		k.offered = append(k.offered, t)
	}
	return k
}

// objection says why agent is not offered a tool, or returns "".
func (l ceiling) objection(agent agents.Agent, s tool.Spec) string {
	switch {
	case l.readOnly && s.Effect == tool.Writes:
		return "this agent may only read"
	case l.readOnly && s.Effect == tool.Executes && !l.confined:
		return "this agent may only read, and this system cannot keep a command from writing"
	case slices.Contains(l.denied, s.Name):
		return "it is denied in this run"
	case !agent.Allows(s.Name):
		return "the definition of " + agent.Name + " does not give it this tool"
	}
	return ""
}

// withhold says why those of all are not there that are not offered.
func (k *kit) withhold(all tool.Set, why string) {
	for _, s := range all.Specs() {
		if _, ok := k.offered.Lookup(s.Name); ok {
			continue
		}
		k.withheld[s.Name] = approval.Withheld{Effect: s.Effect, Reason: why}
	}
}

// toolmaker makes the tools of one agent in one process.
type toolmaker struct {
	setup   Setup
	version string // of the program
	agent   agents.Agent
	limits  ceiling
	dir     string
	env     []string // of this process, for commands
	root    *os.Root
	host    *proc.Host
	depth   int
	log     *os.File // of commands, when it had to be opened early
	// wrap puts a command behind what keeps it in, besides what keeps in this process.
	wrap func(proc.Command) proc.Command

	delegator delegate.Delegator // nil where it may not delegate
	family    task.Family
	roster    func() []delegate.AgentInfo
}

// kit makes the tools.
func (m toolmaker) kit(space *files.Workspace) kit {
	all := slices.Concat(space.Reading(), space.Writing(), m.structural(), m.shell(),
		web.Tools(web.Config{AllowHosts: m.setup.WebAllow, Search: m.setup.Search, Version: m.version}))
	all = append(all, delegate.Tools(m.delegator, m.roster, m.family)...)
	k := m.limits.sort(m.agent, all)
	if m.delegator == nil {
		k.withhold(delegate.Tools(nobody{}, nil, m.family), "agents at this depth cannot hand on work")
	}
	return k
}

// nobody stands for those whom an agent cannot ask.
type nobody struct{ delegate.Delegator }

func (m toolmaker) structural() tool.Set {
	if m.setup.AstGrep == "" {
		return nil
	}
	reading, writing := astgrep.Tools(astgrep.Config{
		Host: m.host, Program: m.setup.AstGrep, Root: m.root, Dir: m.dir, Env: m.env, Depth: m.depth,
	})
	return append(reading, writing...)
}

func (m toolmaker) shell() tool.Set {
	return shell.Tool(shell.Config{
		Host: m, Dir: m.dir, Env: m.env, TempDir: m.setup.TempDir, Depth: m.depth, Log: m.log, LogPath: m.setup.ShellLog,
	})
}

// Start starts a command of the shell behind what keeps it in.
func (m toolmaker) Start(c proc.Command) (*proc.Process, error) {
	if m.wrap != nil {
		c = m.wrap(c)
	}
	return m.host.Start(c)
}

// rules are where an agent and what it starts may write.
func (l ceiling) rules(agent agents.Agent, dir string, s Setup) sandbox.Rules {
	if l.readOnly || !agent.Changes() {
		return sandbox.Rules{}
	}
	var folders []string
	for _, f := range append([]string{dir, s.TempDir}, s.Writable...) {
		if f != "" {
			folders = append(folders, f)
		}
	}
	return sandbox.Rules{Write: folders}
}

// gate is the one place that decides about the calls of an agent.
func (k kit) gate(l ceiling, p approval.Policy, ask func(context.Context, tool.Intent) tool.Decision) *approval.Gate {
	return approval.NewGate(approval.GateConfig{Offered: k.offered, Withheld: k.withheld, ReadOnly: l.readOnly, Policy: p, Ask: ask})
}
