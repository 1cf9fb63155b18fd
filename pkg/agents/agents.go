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
// Names are compared without regard to case and to - and _. A name is letters,
// digits, - and _: it cannot leave the folder of its file.
//
// Not promised: that a file that changes during a run is read again (a run
// sees one version of each agent), and that a tool named here exists. Whether
// an agent may use a tool is said by [Agent.Allows]; keeping to it is the
// business of whoever runs the call.
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
	MaxTurns       int             `json:"max_turns,omitempty"`
	Timeout        time.Duration   `json:"timeout_ns,omitempty"`
	IdleTimeout    time.Duration   `json:"idle_timeout_ns,omitempty"`
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
	// Source is [BuiltIn] or the path of the file.
	Source string `json:"source,omitempty"`
	// Warnings are remarks on a definition that works all the same.
	Warnings []string `json:"warnings,omitempty"`
}

// Allows reports whether a may use the tool of that name.
func (a Agent) Allows(tool string) bool {
	switch {
	case slices.Contains(a.DisallowedTools, tool), slices.Contains(a.DisallowedTools, everyTool):
		return false
	case a.CanDelegate != nil && kindOf(tool) == delegates:
		return *a.CanDelegate
	}
	return a.Tools == nil || slices.Contains(a.Tools, tool)
}

// AllowsAgent reports whether a may delegate to the agent of that name, as far
// as its list of agents goes.
func (a Agent) AllowsAgent(name string) bool {
	return a.Agents == nil || slices.ContainsFunc(a.Agents, func(s string) bool { return fold(s) == fold(name) })
}

// ReadOnly reports whether a has only tools that look. An agent that delegates
// is not read-only, because those that it asks may write; nor is one with a
// tool that is not known.
func (a Agent) ReadOnly() bool {
	if a.CanDelegate != nil && *a.CanDelegate && a.Allows("delegate_task") {
		return false
	}
	if a.Tools == nil {
		return slices.Contains(a.DisallowedTools, everyTool)
	}
	return !slices.ContainsFunc(a.Tools, func(t string) bool { return a.Allows(t) && kindOf(t) != looks })
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
