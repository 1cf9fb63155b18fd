// Package agents holds the definitions of agents: who may be asked to do a
// task, with which prompt, tools and limits.
//
// A definition is a Markdown file: YAML front matter between two lines of ---,
// and below it the body, which is the system prompt. [Parse] reads one,
// [Load] gives a [Registry] over folders of them and over the built-in ones,
// which are embedded. Earlier folders win; nothing is read before the first
// look-up, and a look-up reads the files that are named like the agent before
// any other. So a file whose own name is the name of the agent goes before one
// that only claims it with "name:".
//
// [Agent.Allows] decides what an agent may do: its tools, minus the disallowed
// ones, minus those that change files when its role is information-gathering. Such
// an agent and its children are read-only ([Agent.Gathers]). Unknown tools are left
// out with a warning.
//
// Two kinds of agents have another prompt than the body of their file: one with a
// prompt_template can have it written by a model ([Agent.Template]), and
// [Temporary] makes an agent that another agent defines, with no more tools than
// that one has.
//
// Names are compared without regard to case and to - and _. A name is letters,
// digits, - and _: it cannot leave the folder of its file.
//
// Not promised: a file that changes during a run is not read again (a run sees one
// version of each agent), and a tool that is named may be missing on this machine.
// Whoever runs a call enforces [Agent.Allows], and keeps the shell of a read-only
// agent from writing.
package agents

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Roles of agents.
const (
	// Gathering agents only look: several may run at once.
	Gathering = "information-gathering"
	// Modifying agents may change something.
	Modifying = "content-modification"
)

// BuiltIn is the Source of an agent that comes with the program.
const BuiltIn = "built-in"

// Agent is one definition. As JSON it travels to child processes.
type Agent struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Tools are the tools that it may use: nil means every tool, empty none.
	Tools           []string `json:"tools"`
	DisallowedTools []string `json:"disallowed_tools,omitempty"`
	// Model is empty for the model of the run.
	Model string `json:"model,omitempty"`
	// Role is [Gathering] or [Modifying].
	Role string `json:"role"`
	// MaxTurns, Timeout and IdleTimeout are 0 for the limits of the run.
	MaxTurns    int           `json:"max_turns,omitempty"`
	Timeout     time.Duration `json:"timeout_ns,omitempty"`
	IdleTimeout time.Duration `json:"idle_timeout_ns,omitempty"`
	// PromptTemplate asks a model for the system prompt: see [Agent.Template].
	PromptTemplate string          `json:"prompt_template,omitempty"`
	MCPServers     json.RawMessage `json:"mcp_servers,omitempty"` // as written, an object or a list
	// CanDelegate overrides what Tools says about delegation, unless nil.
	CanDelegate *bool `json:"can_delegate,omitempty"`
	// Agents are those that it may delegate to: nil means any, empty none.
	Agents []string `json:"agents"`
	// Schema is a JSON Schema of its answers, or nil.
	Schema json.RawMessage `json:"schema,omitempty"`
	// Prompt is the system prompt.
	Prompt string `json:"prompt"`
	// Source is [BuiltIn], the path of the file, or who made it up.
	Source string `json:"source,omitempty"`
	// Warnings are remarks on a definition that works all the same.
	Warnings []string `json:"warnings,omitempty"`
}

// Allows reports whether a may use the tool of that name. A gathering agent may
// use none that changes files, whatever its list says.
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

// Toolset returns the tools that a may use: those of this program, and those of
// MCP servers that it names.
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

// AllowsAgent reports whether a may delegate to the agent of that name, as far
// as its list of agents goes.
func (a Agent) AllowsAgent(name string) bool {
	return a.Agents == nil || slices.ContainsFunc(a.Agents, func(s string) bool { return fold(s) == fold(name) })
}

// Gathers reports whether a only looks: then whoever runs it takes away what
// could change something, from a and from those that it asks.
func (a Agent) Gathers() bool { return a.Role == Gathering }

// Changes reports whether a itself can change something: it has a tool that
// does, or one that is not known, and is no gathering agent. What those do that
// it asks is not counted.
func (a Agent) Changes() bool { return !a.Gathers() && a.has(changes, runs, unknown) }

// has reports whether a may use a tool of one of kinds.
func (a Agent) has(kinds ...kind) bool {
	if a.Tools == nil && !slices.Contains(a.DisallowedTools, everyTool) {
		return true // also those that are not known
	}
	return slices.ContainsFunc(a.Toolset(), func(t string) bool { return slices.Contains(kinds, kindOf(t)) })
}

// role is the role that the tools of a say. One that delegates is no gathering
// agent, because those that it asks may change something.
func (a Agent) role() string {
	if a.has(changes, runs, delegates, unknown) {
		return Modifying
	}
	return Gathering
}

// fold maps names that count as the same name to one string.
func fold(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), "_", "-")
}

// maxName is the longest name of an agent, in bytes.
const maxName = 64

func validName(s string) bool {
	return s != "" && len(s) <= maxName && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '-' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}
