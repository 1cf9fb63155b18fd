package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"qq/internal/approval"
	"qq/internal/approval/rules"
	"qq/internal/sandbox"
	"qq/internal/tools/astgrep"
	"qq/internal/tools/delegate"
	"qq/internal/tools/shell"
	"qq/internal/tools/web"
	"qq/internal/undo"
	"qq/pkg/agents"
	"qq/pkg/event"
	"qq/pkg/proc"
	"qq/pkg/supervisor/ceiling"
	"qq/pkg/supervisor/changes"
	"qq/pkg/tool"
)

// Setup is the part of an agent that the root decides and sends to each child: rights,
// folders, and where optional programs and services are.
type Setup struct {
	Policy      approval.Policy `json:"policy"`
	ReadOnly    bool            `json:"read_only,omitempty"` // the agent may change nothing
	CanDelegate bool            `json:"can_delegate,omitempty"`
	Roster      delegate.Roster `json:"roster,omitzero"`      // the agents that it may ask
	Retries     int             `json:"retries,omitempty"`    // of a failed request to the model
	Repairs     int             `json:"repairs,omitempty"`    // how often work that fails its check goes back
	Checked     bool            `json:"checked,omitempty"`    // the task has a check that a person gave
	KeepReads   bool            `json:"keep_reads,omitempty"` // the result lists the calls of reading tools
	Writable    []string        `json:"writable,omitempty"`   // folders, besides the working directory
	WebAllow    []string        `json:"web_allow,omitempty"`
	Search      web.Search      `json:"search,omitzero"` // with its key: only for agents that may search
	AstGrep     string          `json:"ast_grep,omitempty"`
	TempDir     string          `json:"temp_dir,omitempty"`
	State       string          `json:"state,omitempty"` // folder of the program that runs the agent
	ShellLog    string          `json:"shell_log,omitempty"`
	Private     []string        `json:"private,omitempty"` // folders of qq itself: their files need an approval
	Guide       string          `json:"guide,omitempty"`   // what AGENTS.md says, for the end of the prompt
	Bounds      changes.Bounds  `json:"bounds,omitempty"`  // what targets let the agent change
	Joined      int             `json:"joined,omitempty"`  // how many of Bounds, the first ones, only the join keeps
	Journal     string          `json:"journal,omitempty"` // of what file tools change; may be empty
}

// Process describes the process that an agent runs in, and starts the commands of the
// agent.
type Process struct {
	Version string       // of the program
	Dir     string       // the working directory
	Env     []string     // for commands
	Host    *proc.Host   // starts programs that are not commands of the agent
	Log     *os.File     // log of commands; nil unless it had to be opened before the sandbox was applied
	Journal *undo.Keeper // keeps what file tools change; nil unless [Agent.OpenJournal] has opened it
	// Commands starts the commands of the agent. Confined says that the kernel limits where these write.
	Commands shell.Starter
	Confined bool
	// OneProcessor is set if the process was started with GOMAXPROCS=1: the first tool
	// call then takes all processors.
	OneProcessor *sync.Once
}

// Widen lets this process use all processors when e is the start of its first tool call.
func (p Process) Widen(e event.Event) {
	if p.OneProcessor != nil && e.Type == event.ToolStart {
		p.OneProcessor.Do(runtime.SetDefaultGOMAXPROCS)
	}
}

// OpenJournal opens the journal of the setup, before the sandbox is applied. If it cannot be opened, nothing is kept of
// what the agent changes, and [undo.Book] says so. Run closes it.
func (a *Agent) OpenJournal() {
	if a.Setup.Journal != "" {
		a.Process.Journal, _ = undo.Open(a.Setup.Journal)
	}
}

// Rules returns the sandbox rules: the folders that the agent and its commands may write
// to. There are none for an agent that may not change anything. dir is the working
// directory.
func (a Agent) Rules(dir string) sandbox.Rules {
	if a.Setup.ReadOnly || !a.Definition.Changes() {
		return sandbox.Rules{}
	}
	return a.writing(dir)
}

// CommandRules returns the sandbox rules of the commands of the agent. A check that a person gave may write where an
// agent that changes files may, whatever tools the agent has.
func (a Agent) CommandRules(dir string) sandbox.Rules {
	r := a.Rules(dir)
	if a.Setup.Checked && !a.Setup.ReadOnly {
		r = a.writing(dir)
	}
	if a.Setup.State != "" {
		r.Write = append(r.Write, a.Setup.State)
	}
	return r
}

// writing returns the sandbox rules of an agent that changes files.
func (a Agent) writing(dir string) sandbox.Rules {
	folders := []string{dir}
	for _, f := range append([]string{a.Setup.TempDir}, a.Setup.Writable...) {
		// What is in the working directory is writable with it, or named there to be allowed: see package box.
		if rel, err := filepath.Rel(dir, f); f != "" && (err != nil || !filepath.IsLocal(rel)) {
			folders = append(folders, f)
		}
	}
	return sandbox.Rules{Write: folders}
}

// writable says where commands may write, for the system prompt.
func (r *run) writable() string {
	a := r.Agent
	if a.Setup.TempDir != "" {
		a.Setup.TempDir = "$TMPDIR" // its path differs by task
	}
	folders := a.Rules("the working directory").Write
	if len(folders) == 0 { // who may only read has no folder
		return "none. A refusal is intended."
	}
	more := ""
	n := len(a.Setup.Bounds)
	switch boxed := r.boxed(); {
	case boxed != nil:
		folders[0] = "targets that exist (of " + strings.Join(boxed, ", ") + ")"
		more = " " + r.strict.instead()
	case n > 0:
		more = " Of what they change in the working directory, only this is kept: " +
			strings.Join(a.Setup.Bounds[n-1].Targets, ", ") + "."
	}
	return strings.Join(folders, ", ") + ". A refusal elsewhere is intended." + more
}

// toolset has the tools that an agent is offered, and for each other tool the reason why
// not.
type toolset struct {
	offered  tool.Set
	withheld map[string]approval.Withheld
}

// makeTools makes all tools and decides which of them the agent is offered.
func (r *run) makeTools() toolset {
	all := slices.Concat(r.space.Reading(), r.space.Writing(), r.structural(), r.commands,
		web.Tools(web.Config{AllowHosts: r.Setup.WebAllow, Search: r.Setup.Search, Version: r.Process.Version}))
	all = append(all, delegate.Tools(r.helpers, r.Setup.Roster, r.askable)...)
	t := toolset{withheld: map[string]approval.Withheld{}}
	for _, one := range all {
		s := one.Spec()
		w := r.withheld(s)
		if w.Reason == "" {
			t.offered = append(t.offered, one)
			continue
		}
		t.withheld[s.Name] = w
	}
	return t
}

// withheld returns why the agent is not offered the tool s; without a reason it is offered.
func (r *run) withheld(s tool.Spec) approval.Withheld {
	denied := func(why string) approval.Withheld { return approval.Withheld{Denied: true, Reason: why} }
	handsOn := s.Effect == tool.Delegates || s.Effect == tool.Attends || s.Name == "list_agents"
	switch {
	case handsOn && !r.Setup.CanDelegate && (s.Name != "send_message" || !r.isDelegated()):
		return approval.Withheld{Reason: "agents at this depth cannot hand on work"}
	case !r.Definition.Allows(s.Name) && !(s.Name == "list_agents" && r.looksUp()):
		return approval.Withheld{Reason: "the definition of " + r.Definition.Name + " does not give it this tool"}
	case r.Setup.ReadOnly && s.Effect == tool.Writes:
		return denied("this agent may only read")
	case r.Setup.ReadOnly && s.Effect == tool.Executes && !r.Process.Confined:
		return denied("this agent may only read, and this system cannot keep a command from writing")
	case slices.Contains(r.Setup.Policy.Deny, rules.Rule{Tool: s.Name}), slices.Contains(r.job.Denied, s.Name):
		return denied("it is denied in this run")
	}
	return approval.Withheld{}
}

// looksUp reports whether the agent gets list_agents even if its definition does not name it: it may
// delegate, and there are more agents than the text of delegate_task names.
func (r *run) looksUp() bool {
	return r.Setup.Roster.More > 0 && r.Definition.Allows("delegate_task") &&
		!slices.Contains(r.Definition.DisallowedTools, "list_agents")
}

// askable lists the agents that the agent may delegate to.
func (r *run) askable() (infos []delegate.AgentInfo) {
	c := ceiling.Ceiling{Agent: r.Definition, Task: r.job.Task, ReadOnly: r.Setup.ReadOnly}
	for _, entry := range r.Registry.List() {
		if info, ok := delegate.Describe(entry.Agent); ok && entry.Err == nil && c.MayAsk(entry.Agent) {
			infos = append(infos, info)
		}
	}
	return infos
}

// structural returns the tools that run the program ast-grep; none if it is not installed.
func (r *run) structural() tool.Set {
	if r.Setup.AstGrep == "" {
		return nil
	}
	reading, writing := astgrep.Tools(astgrep.Config{
		Host: r.Process.Host, Program: r.Setup.AstGrep, Root: r.root,
		Dir: r.Process.Dir, Env: r.Process.Env, Depth: r.job.Depth, Private: r.Setup.Private,
		Taken: r.taken(),
	})
	return append(reading, writing...)
}

// shell returns the tool that runs shell commands.
func (r *run) shell() tool.Set {
	return shell.Tool(shell.Config{
		Host: r.Process.Commands, Dir: r.Process.Dir, Env: r.Process.Env, TempDir: r.Setup.TempDir, Depth: r.job.Depth,
		Activity: r.parent, Log: r.Process.Log, LogPath: r.Setup.ShellLog, Show: r.helpers.named,
		Untrusted: append([]string{r.Setup.Policy.Root}, r.Setup.Writable...), Ruled: r.ruled(), Bound: r.bound(),
	})
}

// ruled reports whether a rule with a pattern may allow commands: one of the run or of the definition or, where a
// person is asked, one that answers for that person.
func (r *run) ruled() bool {
	p := r.Setup.Policy
	return p.Mode != approval.Auto && p.Mode != approval.Deny ||
		slices.ContainsFunc(slices.Concat(p.Allow, read(r.Definition.Within)), func(rule rules.Rule) bool {
			return rule.Tool == "run_pty_cmd" && rule.Pattern != ""
		})
}

// gate returns the gate that allows, asks about or denies each tool call of the agent.
func (r *run) gate() *approval.Gate {
	policy := r.Setup.Policy
	policy.Deny = append(slices.Clip(policy.Deny), rules.Taken(r.job.Denied)...)
	if r.Setup.ReadOnly { // its commands change nothing
		policy.Home = ""
	}
	cfg := approval.GateConfig{
		Offered: r.tools.offered, Withheld: r.tools.withheld,
		ReadOnly: r.Setup.ReadOnly, Policy: policy, Approver: r.parent,
		Within: read(r.Definition.Within), Without: rules.Taken(r.Definition.DisallowedTools), Bounds: r.Setup.Bounds,
	}
	if len(policy.Allow)+len(policy.Deny)+len(cfg.Within)+len(cfg.Without) > 0 {
		var err error
		if cfg.Dir, err = filepath.EvalSymlinks(r.Process.Dir); err != nil {
			cfg.Dir = r.Process.Dir // no pattern of paths matches
		}
	}
	return approval.NewGate(cfg)
}

// taken returns globs of the files that the definitions of this agent and of those above it take from its reading
// tools, by their absolute paths.
func (r *run) taken() []string {
	return rules.Unreadable(rules.Taken(slices.Concat(r.Definition.DisallowedTools, r.job.Denied)), r.Setup.Policy.Root)
}

// read returns the rules that a definition has.
func read(texts []string) (list []rules.Rule) {
	for _, text := range texts {
		list = append(list, rules.Of(text))
	}
	return list
}

var _ Registry = (*agents.Registry)(nil)

// Digest returns a hash of the result of a tool call. It shows later whether the same call
// still has the same result.
func Digest(r tool.Result) string {
	content := r.Content
	for i := range r.Images {
		content += "\x00" + r.Images[i].Sum
	}
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}
