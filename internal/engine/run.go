package engine

import (
	"context"
	"encoding/json"
	"slices"

	"qq/internal/toolbox/delegation"
	"qq/pkg/agents"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/runner"
	"qq/pkg/task"
)

// Run is one run of the root's own agent. What is nil is left out.
type Run struct {
	Agent    agents.Agent
	Model    Model
	System   string // replaces the agent's prompt when set
	Schema   json.RawMessage
	MaxTurns int // 0 is what the agent says
	History  []llm.Message
	Record   func(llm.Message)
	Live     Live // shows the answer instead of token events
}

// Live shows what a model writes while it writes.
type Live interface {
	Chunk(llm.Chunk)
	TurnEnd(final bool)
}

// Run runs the root's own agent on text, in this process.
func (e *Engine) Run(ctx context.Context, r Run, text string) (runner.Outcome, error) {
	w := work{
		agent: r.Agent, system: r.System, model: r.Model, dir: e.cfg.Dir, readOnly: e.cfg.ReadOnly, schema: r.Schema,
		maxTurns: r.MaxTurns, history: r.History, record: r.Record, live: r.Live,
	}
	set := e.cfg.Settings
	if set.Depth+1 < set.MaxDepth {
		w.delegator = delegator{e, r.Agent}
		w.roster = func() []delegation.AgentInfo { return roster(e.cfg.Agents) }
	}
	if e.stream.Wanted() {
		w.event = func(ev event.Event) {
			ev.Agent, ev.Depth = r.Agent.Name, set.Depth
			e.stream.Emit(ev)
		}
		if w.live == nil {
			w.live = &tokenEvents{emit: w.event}
		}
	}
	return w.do(ctx, text)
}

// delegator lets the root's own agent hand on work.
type delegator struct {
	e     *Engine
	agent agents.Agent
}

// Delegate implements delegation.Delegator.
func (d delegator) Delegate(ctx context.Context, tasks []task.Task) []task.Result {
	return d.e.Delegate(ctx, d.agent, tasks)
}

// roster lists the agents that can be asked.
func roster(reg *agents.Registry) []delegation.AgentInfo {
	var infos []delegation.AgentInfo
	for _, entry := range reg.List() {
		if entry.Err == nil {
			infos = append(infos, delegation.AgentInfo{Name: entry.Agent.Name, Description: entry.Agent.Description, Role: entry.Agent.Role})
		}
	}
	return slices.Clip(infos)
}
