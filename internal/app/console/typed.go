package console

import (
	"context"
	"encoding/json"

	"qq/internal/agent/loop"
	"qq/pkg/agents"
	"qq/pkg/llm"
	"qq/pkg/tool"
)

// shellTool is the tool that runs commands.
const shellTool = "run_pty_cmd"

// Typed is a command that a person has typed. It is the model of an agent that calls the shell tool once, so that the
// command has the sandbox, the approvals, the clocks and the record of any other. It implements agent.Model, and is the
// transcript and the screen of that agent.
type Typed struct {
	line   string
	asked  bool
	done   bool
	output string
	failed bool
}

var _ loop.Transcript = (*Typed)(nil)

// Only returns a as an agent with the shell tool alone.
func (t *Typed) Only(a agents.Agent) agents.Agent {
	a.Tools, a.DisallowedTools, a.Within = []string{shellTool}, nil, nil
	a.Role, a.PromptTemplate, a.Schema, a.Prompt = agents.Modifying, "", nil, "Run the command."
	return a
}

// Done reports whether the command was run, or refused.
func (t *Typed) Done() bool { return t.done }

// Chat implements llm.Backend.
func (t *Typed) Chat(context.Context, llm.Request, func(llm.Chunk)) (llm.Response, error) {
	if t.asked {
		return llm.Response{Message: llm.Message{Content: "done"}, Stop: llm.StopEnd}, nil
	}
	t.asked = true
	args, err := json.Marshal(map[string]string{"command": t.line})
	if err != nil {
		return llm.Response{}, err
	}
	call := tool.Call{ID: "typed", Name: shellTool, Arguments: args}
	return llm.Response{Message: llm.Message{Calls: []tool.Call{call}}, Stop: llm.StopEnd}, nil
}

// Append implements loop.Transcript: it keeps what the command has printed.
func (t *Typed) Append(e llm.Entry) {
	if e.Role == llm.ToolRole {
		t.done, t.output, t.failed = true, e.Content, e.Failed
	}
}

// Chunk implements loop.Screen.
func (t *Typed) Chunk(llm.Chunk) {}

// TurnEnd implements loop.Screen.
func (t *Typed) TurnEnd(bool) {}

// String implements agent.Model.
func (t *Typed) String() string { return "none" }

// Served implements agent.Model.
func (t *Typed) Served() (string, bool) { return "", false }

// BuiltIn implements agent.Model.
func (t *Typed) BuiltIn() bool { return true }

// CallsTools implements agent.Model.
func (t *Typed) CallsTools() bool { return true }

// Sees implements agent.Model.
func (t *Typed) Sees() bool { return false }

// Blind implements agent.Model.
func (t *Typed) Blind() bool { return true }

// Tokens implements agent.Model.
func (t *Typed) Tokens(text string) int { return len(text) / 4 }

// Room implements agent.Model.
func (t *Typed) Room(llm.Request) int { return 0 }
