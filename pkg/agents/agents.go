// Package agents holds the definitions of agents: which agents there are, and the
// prompt, tools and limits of each.
//
// A definition is a Markdown file: YAML front matter between two lines of ---, then the
// body, which is the system prompt. [Parse] reads one. [Load] returns a [Registry] of
// the definitions in several folders, and of the built-in ones. A definition in an
// earlier folder replaces one of the same name in a later folder. The first look-up
// reads the files, those named like the agent first: a file of that name has priority
// over one that only has "name:" in it. A file of a checkout replaces a definition of the
// user or a built-in one only if its content is trusted ([Trust]).
//
// [Agent.Allows] decides what an agent may do: its tools, minus the disallowed ones,
// minus those that change files if its role is information-gathering. A tool in a list
// may be restricted to some calls, as Bash(git log:*) or edit_file(src/**). Such an agent and
// its children are read-only ([Agent.Gathers]). Unknown tools are left out with a
// warning.
//
// The prompt of two kinds of agents is not the body of a file: with a prompt_template a
// model can write it ([Agent.Template]), and [Temporary] returns an agent that another
// agent defines, with no more tools than that one has.
//
// Names are compared without regard to case, and - and _ are the same. A name consists
// of letters, digits, - and _, so it cannot lead out of a folder. Those that strangers and
// models choose are also [Plain], where it matters.
//
// Not promised: that a changed file is read again during a run (a run sees one version
// of each agent), and that a named tool exists on this machine. The code that runs a
// tool call enforces [Agent.Allows], and keeps the shell of a read-only agent from
// writing.
package agents

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"

	"qq/pkg/agents/program"
)

// Roles of agents.
const (
	// Gathering agents only read, so several may run at once.
	Gathering = "information-gathering"
	// Modifying agents may change files or run commands.
	Modifying = "content-modification"
)

// BuiltIn is the Source of an agent whose definition is part of the program.
const BuiltIn = "built-in"

// Agent is the definition of one agent. A child process receives that of its agent as JSON.
type Agent struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Tools are the tools that the agent may use: nil means every tool, empty means none.
	Tools []string `json:"tools"`
	// Within restricts tools that the agent has to some of their calls: "run_pty_cmd(git log *)". Other
	// calls of these tools are refused.
	Within []string `json:"within,omitempty"`
	// DisallowedTools are tools, or some calls of a tool, that the agent and those that it asks may not use.
	DisallowedTools []string `json:"disallowed_tools,omitempty"`
	// Model is the name of its model; empty means the model of the run.
	Model string `json:"model,omitempty"`
	// Fallback are the models that are asked instead if Model cannot be had; nil means those of the run.
	Fallback []string `json:"fallback,omitempty"`
	// Role is [Gathering] or [Modifying].
	Role string `json:"role"`
	// MaxTurns, Timeout and IdleTimeout are its limits; 0 means the limit of the run.
	MaxTurns    int           `json:"max_turns,omitempty"`
	Timeout     time.Duration `json:"timeout_ns,omitempty"`
	IdleTimeout time.Duration `json:"idle_timeout_ns,omitempty"`
	// MaxRepairs is how often it may hand out changes again after it had commands run, such as tests; 0 means no limit.
	MaxRepairs int `json:"max_repairs,omitempty"`
	// PromptTemplate asks a model to write the system prompt for each task: see [Agent.Template].
	// Empty means that Prompt is used.
	PromptTemplate string          `json:"prompt_template,omitempty"`
	MCPServers     json.RawMessage `json:"mcp_servers,omitempty"` // as written, an object or a list
	// CanDelegate decides whether the agent may delegate, whatever Tools says; nil means that Tools
	// decides.
	CanDelegate *bool `json:"can_delegate,omitempty"`
	// Agents are the agents that it may delegate to: nil means any, empty means none.
	Agents []string `json:"agents"`
	// Schema is a JSON Schema that its answers must satisfy, or nil.
	Schema json.RawMessage `json:"schema,omitempty"`
	// Runs is the other agent program that does the work of the agent; zero means that qq does it.
	Runs program.Program `json:"runs,omitzero"`
	// Prompt is the system prompt.
	Prompt string `json:"prompt"`
	// Source is where the definition came from: [BuiltIn], the path of a file, or the agent
	// that defined it.
	Source string `json:"source,omitempty"`
	// Untrusted says that the definition is in a file of a checkout that the user does not trust.
	Untrusted bool `json:"untrusted,omitempty"`
	// Warnings describe problems of the definition that do not keep it from being used.
	Warnings []string `json:"warnings,omitempty"`
	// Harmless are those of Warnings that only say what of the file does nothing. The agent may do no
	// more than its author meant.
	Harmless []string `json:"-"`
	// Lines are the lines of the keys in the file, by their names in lower case, without - and _.
	Lines map[string]int `json:"-"`
	// Sum is the SHA-256 of the file, in hexadecimal digits; "" if the definition is in no file.
	Sum string `json:"-"`
}

// Allows reports whether a may use the tool of that name. A read-only agent may not use a tool that
// changes files, even if Tools contains it.
func (a Agent) Allows(tool string) bool {
	k := kindOf(tool)
	switch {
	case slices.Contains(a.DisallowedTools, tool), slices.Contains(a.DisallowedTools, everyTool):
		return false
	case k == changes && a.Gathers():
		return false
	case a.CanDelegate != nil && (k == delegates || k == attends || k == talks && *a.CanDelegate):
		return *a.CanDelegate
	}
	return a.Tools == nil || slices.Contains(a.Tools, tool)
}

// Toolset returns the names of the tools that a may use: tools of this program, and tools of MCP
// servers that Tools names.
func (a Agent) Toolset() []string {
	tools := []string{}
	for _, t := range KnownTools() {
		if a.Allows(t) {
			tools = append(tools, t)
		}
	}
	for _, t := range a.Tools {
		if kindOf(t) == unknown && a.Allows(t) {
			tools = append(tools, t)
		}
	}
	return tools
}

// Delegates reports whether a may hand on tasks.
func (a Agent) Delegates() bool {
	return slices.ContainsFunc([]string{"delegate_task", "run_parallel_tasks", "spawn_agent"}, a.Allows)
}

// ActsItself reports whether a has a tool that does something itself: it reads, changes or runs something. The others
// only concern other agents.
func (a Agent) ActsItself() bool { return a.has(looks, changes, runs, unknown) }

// AllowsAgent reports whether a may delegate to the agent of that name, as far as its Agents say.
// It does not check whether a may delegate at all.
func (a Agent) AllowsAgent(name string) bool {
	return a.Agents == nil || slices.ContainsFunc(a.Agents, func(s string) bool { return fold(s) == fold(name) })
}

// Gathers reports whether a is read-only. Its children must be read-only too.
func (a Agent) Gathers() bool { return a.Role == Gathering }

// Changes reports whether a itself can change something: it is not read-only, and has a
// tool that changes files, runs commands or is unknown. What its children do does not
// count.
func (a Agent) Changes() bool { return !a.Gathers() && a.has(changes, runs, unknown) }

// Edits reports whether a itself has a tool that changes files, or one that is unknown.
func (a Agent) Edits() bool { return !a.Gathers() && a.has(changes, unknown) }

// has reports whether a may use a tool of one of these kinds.
func (a Agent) has(kinds ...kind) bool {
	if a.Tools == nil && !slices.Contains(a.DisallowedTools, everyTool) {
		return true // also those that are not known
	}
	return slices.ContainsFunc(a.Toolset(), func(t string) bool { return slices.Contains(kinds, kindOf(t)) })
}

// role returns the role that follows from the tools of a. An agent that delegates is not
// read-only, because its children may change something.
func (a Agent) role() string {
	if a.has(changes, runs, delegates, unknown) {
		return Modifying
	}
	return Gathering
}

// fold returns the form of an agent name in which names are compared: names that count as the same
// have the same form.
func fold(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), "_", "-")
}

// maxName is the longest name of an agent, in bytes.
const maxName = 64

// Plain reports whether the name of an agent is a word of ASCII letters, digits, - and _ that does not begin with -. It
// looks like no other name and like no flag.
func Plain(name string) bool {
	wide := func(r rune) bool { return r > unicode.MaxASCII }
	return validName(name) && name[0] != '-' && !strings.ContainsFunc(name, wide)
}

func validName(s string) bool {
	return s != "" && len(s) <= maxName && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '-' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}
