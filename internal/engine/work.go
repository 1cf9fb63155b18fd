package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"qq/internal/config"
	"qq/internal/toolbox/delegation"
	filetools "qq/internal/toolbox/files"
	"qq/pkg/agents"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/runner"
	"qq/pkg/tool"
)

// defaultTurns is the turn limit of an agent that states none.
const defaultTurns = 25

// work is one agent with all that it needs: the same for the root's own agent
// and for a child.
type work struct {
	agent     agents.Agent
	system    string // replaces the agent's prompt when set
	model     Model
	dir       string
	readOnly  bool
	schema    json.RawMessage
	maxTurns  int                  // 0 is what the agent says
	delegator delegation.Delegator // nil where it may not delegate
	roster    func() []delegation.AgentInfo
	history   []llm.Message
	record    func(llm.Message)
	event     func(event.Event)
	live      Live // nil where nobody looks on
}

// do runs the agent on text.
func (w work) do(ctx context.Context, text string) (runner.Outcome, error) {
	backend, done, err := w.model.backend()
	if err != nil {
		return runner.Outcome{}, err
	}
	defer done()
	files, err := os.OpenRoot(w.dir)
	if err != nil {
		return runner.Outcome{}, &config.Error{
			Problem: fmt.Sprintf("open the working directory: %v", err),
			Hint:    "run qq in a directory that exists, or name one with -C",
		}
	}
	defer files.Close()
	schema := w.schema
	if len(schema) == 0 {
		schema = w.agent.Schema
	}
	tools := w.tools(files)
	cfg := runner.Config{
		Backend: backend, System: w.prompt(tools), Tools: tools, Schema: schema, Record: w.record, Event: w.event,
		MaxTurns: cmp.Or(w.maxTurns, w.agent.MaxTurns, defaultTurns),
	}
	if w.live != nil {
		cfg.Chunk, cfg.TurnEnd = w.live.Chunk, w.live.TurnEnd
	}
	return runner.Run(ctx, cfg, w.history, text), nil
}

// tools are what the agent may call, and nothing else.
func (w work) tools(files *os.Root) tool.Set {
	if !w.model.tools() {
		return nil
	}
	all := filetools.Tools(files, filetools.Options{})
	if w.delegator != nil {
		all = append(all, delegation.Tools(w.delegator, w.roster)...)
	}
	return slices.DeleteFunc(all, func(t tool.Tool) bool {
		s := t.Spec()
		return !w.agent.Allows(s.Name) || w.readOnly && s.Effect != tool.Reads && s.Effect != tool.Delegates
	})
}

// prompt is the system prompt.
func (w work) prompt(tools tool.Set) string {
	prompt := w.agent.Prompt
	if w.system != "" {
		prompt = w.system
	}
	var b strings.Builder
	b.WriteString(strings.TrimSpace(prompt))
	fmt.Fprintf(&b, "\n\nWorking directory: %s", w.dir)
	if w.readOnly {
		b.WriteString("\nYou may only read: nothing may be changed.")
	}
	if len(tools) > 0 && !slices.ContainsFunc(tools, func(t tool.Tool) bool { return t.Spec().Effect == tool.Delegates }) {
		b.WriteString("\nYou cannot hand work to other agents.")
	}
	return b.String()
}
