package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"qq/internal/approval"
	"qq/internal/sandbox"
	"qq/internal/tools/astgrep"
	"qq/internal/tools/delegate"
	"qq/internal/tools/shell"
	"qq/internal/tools/web"
	"qq/pkg/agents"
	"qq/pkg/event"
	"qq/pkg/proc"
	"qq/pkg/tool"
)

// Setup is what the root found out for the whole tree and hands to each agent.
type Setup struct {
	Policy   approval.Policy `json:"policy"`
	Writable []string        `json:"writable,omitempty"` // folders besides the working directory
	WebAllow []string        `json:"web_allow,omitempty"`
	Search   web.Search      `json:"search,omitzero"` // with its key: for agents that search only
	AstGrep  string          `json:"ast_grep,omitempty"`
	TempDir  string          `json:"temp_dir,omitempty"`
	ShellLog string          `json:"shell_log,omitempty"`
}

// Process is the process that an agent runs in.
type Process struct {
	Version string     // of the program
	Dir     string     // the working directory
	Env     []string   // for commands
	Host    *proc.Host // starts them
	Log     *os.File   // of commands, when it had to be opened early
	Box     Box        // that they are put into
	// OneProcessor says that the process was started with one processor and takes more
	// with the first call of a tool.
	OneProcessor *sync.Once
}

// Widen takes all processors with the first call of a tool.
func (p Process) Widen(e event.Event) {
	if p.OneProcessor != nil && e.Type == event.ToolStart {
		p.OneProcessor.Do(runtime.SetDefaultGOMAXPROCS)
	}
}

// Start starts a command of the shell in its box.
func (p Process) Start(c proc.Command) (*proc.Process, error) { return p.Host.Start(p.Box.wrap(c)) }

// Box is what commands are put into: besides what keeps in the process itself.
type Box struct {
	Exe      string // this program
	Confined bool   // the kernel keeps commands from writing where they may not
	// Namespace gives each command a PID namespace: it ends with this process, even by
	// SIGKILL.
	Namespace bool
	Rules     sandbox.Rules
}

// wrap puts c into the box.
func (b Box) wrap(c proc.Command) proc.Command {
	if b.Confined {
		var env string
		c.Path, c.Args, env = sandbox.Wrap(b.Exe, b.Rules, c.Path, c.Args)
		c.Env = append(slices.Clip(c.Env), env)
	}
	c.Namespace = c.Namespace || b.Namespace
	return c
}

// Rules are where the agent and what it starts may write; dir is the working
// directory.
func (a Agent) Rules(dir string) sandbox.Rules {
	if a.ReadOnly || !a.Definition.Changes() {
		return sandbox.Rules{}
	}
	var folders []string
	for _, f := range append([]string{dir, a.Setup.TempDir}, a.Setup.Writable...) {
		if f != "" {
			folders = append(folders, f)
		}
	}
	return sandbox.Rules{Write: folders}
}

// writable says where commands may write.
func (r *run) writable() string {
	a := r.Agent
	if a.Setup.TempDir != "" {
		a.Setup.TempDir = "$TMPDIR" // its path differs by task
	}
	folders := a.Rules("the working directory").Write
	if len(folders) == 0 {
		return "none"
	}
	return strings.Join(folders, ", ")
}

// toolset is the tools of one agent: those that it is offered, and why not the others.
type toolset struct {
	offered  tool.Set
	withheld map[string]approval.Withheld
}

// makeTools makes the tools, and sorts them.
func (r *run) makeTools() toolset {
	all := slices.Concat(r.space.Reading(), r.space.Writing(), r.structural(), r.shell(),
		web.Tools(web.Config{AllowHosts: r.Setup.WebAllow, Search: r.Setup.Search, Version: r.Process.Version}))
	all = append(all, delegate.Tools(r.helpers, r.roster, r.helpers)...)
	t := toolset{withheld: map[string]approval.Withheld{}}
	for _, one := range all {
		s := one.Spec()
		why := r.denyReason(s)
		if why == "" {
			t.offered = append(t.offered, one)
			continue
		}
		t.withheld[s.Name] = approval.Withheld{Effect: s.Effect, Reason: why}
	}
	return t
}

// denyReason says why the agent is not offered a tool, or returns "".
func (r *run) denyReason(s tool.Spec) string {
	handsOn := s.Effect == tool.Delegates || s.Effect == tool.Attends || s.Name == "list_agents"
	switch {
	case handsOn && !r.CanDelegate && (s.Name != "send_message" || !r.started()):
		return "agents at this depth cannot hand on work"
	case r.ReadOnly && s.Effect == tool.Writes:
		return "this agent may only read"
	case r.ReadOnly && s.Effect == tool.Executes && !r.Process.Box.Confined:
		return "this agent may only read, and this system cannot keep a command from writing"
	case slices.Contains(r.Denied, s.Name):
		return "it is denied in this run"
	case !r.Definition.Allows(s.Name):
		return "the definition of " + r.Definition.Name + " does not give it this tool"
	}
	return ""
}

// roster lists the agents that can be asked.
func (r *run) roster() (infos []delegate.AgentInfo) {
	for _, entry := range r.Registry.List() {
		if a := entry.Agent; entry.Err == nil {
			infos = append(infos, delegate.AgentInfo{Name: a.Name, Description: a.Description, Role: a.Role})
		}
	}
	return infos
}

// structural are the tools of the program ast-grep, when there is one.
func (r *run) structural() tool.Set {
	if r.Setup.AstGrep == "" {
		return nil
	}
	reading, writing := astgrep.Tools(astgrep.Config{
		Host: r.Process.Host, Program: r.Setup.AstGrep, Root: r.root,
		Dir: r.Process.Dir, Env: r.Process.Env, Depth: r.job.Depth,
	})
	return append(reading, writing...)
}

func (r *run) shell() tool.Set {
	return shell.Tool(shell.Config{
		Host: r.Process, Dir: r.Process.Dir, Env: r.Process.Env, TempDir: r.Setup.TempDir, Depth: r.job.Depth,
		Log: r.Process.Log, LogPath: r.Setup.ShellLog,
	})
}

// gate is the one place that decides about the calls of the agent.
func (r *run) gate() *approval.Gate {
	return approval.NewGate(approval.GateConfig{
		Offered: r.tools.offered, Withheld: r.tools.withheld,
		ReadOnly: r.ReadOnly, Policy: r.Setup.Policy, Approver: r.parent,
	})
}

var _ Registry = (*agents.Registry)(nil)

// Digest is what a call of a tool came to.
func Digest(r tool.Result) string {
	sum := sha256.Sum256([]byte(r.Content))
	return hex.EncodeToString(sum[:])
}
