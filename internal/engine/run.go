package engine

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"qq/internal/sandbox"
	"qq/internal/tools/delegate"
	"qq/pkg/agents"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/proc"
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
	Live     Live   // shows the answer instead of token events
	Session  string // id of the transcript
}

// Live shows what a model writes while it writes.
type Live interface {
	Chunk(llm.Chunk)
	TurnEnd(final bool)
}

// Run runs the root's own agent on t, in this process.
func (e *Engine) Run(ctx context.Context, r Run, t task.Task) (Outcome, error) {
	t.Agent, t.ReadOnly = r.Agent.Name, t.ReadOnly || e.cfg.ReadOnly
	if err := e.record.Begin(t, r.Session, r.Model.String(), e.cfg.Settings.Depth); err != nil {
		return Outcome{}, err
	}
	out, err := e.work(ctx, r, t)
	if why := e.LimitReached(); err == nil && why != "" && out.Status == task.Completed {
		out.Status, out.Err = task.Limit, errors.New(why+"\nhint: raise QQ_MAX_CHILDREN or QQ_SPAWN_RATE; what could be done without is there")
	}
	if err != nil { // whoever called has nothing to print
		_ = e.record.End(t.Ended(task.Failed, err.Error()))
	}
	return out, err
}

// work is Run without its record.
func (e *Engine) work(ctx context.Context, r Run, t task.Task) (Outcome, error) {
	set := e.cfg.Settings
	place := e.Root(r.Agent, t)
	defer place.End() // for the ways out of here before the run has begun
	readOnly := e.cfg.ReadOnly || r.Agent.Gathers()
	setup, err := e.setup(r.Agent, r.Model, "root-"+task.NewID(), readOnly)
	if err != nil {
		return Outcome{}, err
	}
	defer setup.clean()
	w := work{
		toolmaker: toolmaker{
			setup: setup, version: e.cfg.Version, agent: r.Agent, dir: e.cfg.Dir, env: e.rootEnv(), depth: set.Depth, host: e.host,
			limits: ceiling{readOnly: readOnly, denied: set.Deny, confined: sandbox.Probe().Enforced()},
		},
		system: r.System, schema: r.Schema, maxTurns: r.MaxTurns, history: r.History, record: r.Record, live: r.Live,
		ask: place, inbox: place.Messages,
		admission: e.gate, retries: set.Retries, repeated: e.repeated(r), note: e.cfg.Note, lookup: e.Agent,
	}
	if idle := e.Idle(task.Job{Task: t}); idle > 0 {
		w.watch = &watch{gate: e.gate, idle: idle}
		w.admission = w.watch
	}
	confined := func(c proc.Command) proc.Command { return c }
	if w.limits.confined {
		confined = w.confined(e.exe)
	}
	w.wrap = func(c proc.Command) proc.Command {
		c = confined(c)
		c.Namespace = true // it ends with the root, even by SIGKILL, as what a child starts does
		return c
	}
	tree := &tally{family: place}
	if set.Depth+1 < set.MaxDepth {
		w.delegator, w.family, w.pending = tree, tree, tree.unfinished
		w.roster = func() []delegate.AgentInfo { return roster(e.cfg.Agents) }
		w.summaries = summaries(tree.Delegate, r.Model.String())
	}
	if e.stream.Wanted() {
		w.event = func(ev event.Event) {
			ev.ExecutionID, ev.Agent, ev.Depth = e.id, r.Agent.Name, set.Depth
			e.stream.Emit(ev)
		}
		if w.live == nil {
			w.live = &tokenEvents{emit: w.event}
		}
	}
	out, err := w.do(ctx, llm.WithContext(t.Text, t.Context))
	place.End()
	out.ChangedFiles, out.Warnings = place.ChangedFiles(out.ChangedFiles), append(out.Warnings, tree.warnings()...)
	return out, err
}

// repeated tells a person that a request of the root's own agent is sent again.
// What stood there of an answer that broke off is none.
func (e *Engine) repeated(r Run) func(int, time.Duration, error) {
	return func(n int, wait time.Duration, err error) {
		if r.Live != nil {
			r.Live.TurnEnd(false)
		}
		ev := repeatedEvent(n, wait, err)
		ev.ExecutionID, ev.Agent, ev.Depth = e.id, r.Agent.Name, e.cfg.Settings.Depth
		e.stream.Emit(ev)
		e.cfg.Note("%s", ev.Text)
	}
}

// confined returns what puts the commands of the root's own agent into the
// sandbox that a child puts itself into: the root itself has to write elsewhere.
func (w work) confined(exe string) func(proc.Command) proc.Command {
	rules := w.limits.rules(w.agent, w.dir, w.setup)
	return func(c proc.Command) proc.Command {
		var env string
		c.Path, c.Args, env = sandbox.Wrap(exe, rules, c.Path, c.Args)
		c.Env = append(slices.Clip(c.Env), env)
		return c
	}
}

// roster lists the agents that can be asked.
func roster(reg *agents.Registry) []delegate.AgentInfo {
	var infos []delegate.AgentInfo
	for _, entry := range reg.List() {
		if entry.Err == nil {
			infos = append(infos, delegate.AgentInfo{Name: entry.Agent.Name, Description: entry.Agent.Description, Role: entry.Agent.Role})
		}
	}
	return slices.Clip(infos)
}
