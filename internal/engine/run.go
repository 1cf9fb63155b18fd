package engine

import (
	"context"
	"fmt"
	"slices"

	"qq/internal/agent"
	"qq/internal/agent/loop"
	"qq/internal/models"
	"qq/internal/sandbox"
	"qq/pkg/agents"
	"qq/pkg/childproc"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// Run is one run of the agent of this process.
type Run struct {
	Agent      agents.Agent
	Model      models.Model
	System     string // replaces the agent's prompt when set
	MaxTurns   int    // 0 is what the agent says
	History    []llm.Message
	Transcript loop.Transcript
	Screen     loop.Screen // nil where nobody looks on
	Session    string      // id of the transcript
}

// Run runs the agent of this process on t: job zero.
func (e *Engine) Run(ctx context.Context, r Run, t task.Task) (task.Result, error) {
	t.Agent, t.ReadOnly = r.Agent.Name, t.ReadOnly || e.cfg.ReadOnly
	res, err := e.Supervisor.Run(ctx, t, r.Session, here{e, r})
	res.Model = r.Model.String()
	return res, err
}

// here launches the agent of this process in this process.
type here struct {
	e *Engine
	r Run
}

// Launch implements supervisor.Launcher.
func (h here) Launch(ctx context.Context, job task.Job, p supervisor.Parent) task.Result {
	a := h.e.agent(h.r, job)
	id := "root-" + task.NewID()
	defer h.e.tidy(id)
	setup, err := h.e.setup(h.r.Agent, h.r.Model, id, a.ReadOnly)
	if err != nil {
		return job.Fail(err)
	}
	a.Setup = setup
	backend, done, err := h.r.Model.Connect()
	if err != nil {
		return job.Fail(err)
	}
	defer done()
	a.Model = connected{h.r.Model, backend}
	a.Process.Box.Rules = a.Rules(h.e.cfg.Dir)
	switch {
	case a.Screen != nil:
	case h.e.stream.Wanted():
		a.Screen = &agent.TokenEvents{To: p}
	default:
		a.Screen = agent.Nobody{}
	}
	return a.Run(ctx, noted{p, h.e}, job)
}

// noted is the parent of the agent of this process: a person reads its progress.
type noted struct {
	supervisor.Parent
	e *Engine
}

// Emit implements supervisor.Report.
func (n noted) Emit(ev event.Event) {
	if ev.Type == event.SubAgentProgress {
		n.e.cfg.Note("%s", ev.Text)
	}
	n.Parent.Emit(ev)
}

// agent is the agent of this process, without what is made for one run.
func (e *Engine) agent(r Run, job task.Job) agent.Agent {
	set := e.cfg.Settings
	return agent.Agent{
		Definition: r.Agent, Registry: e.cfg.Agents, System: r.System, MaxTurns: r.MaxTurns, Retries: set.Retries,
		ReadOnly: e.cfg.ReadOnly || r.Agent.Gathers(), Denied: set.Deny, CanDelegate: job.Depth+1 < set.MaxDepth,
		History: r.History, Transcript: r.Transcript, Screen: r.Screen,
		Process: agent.Process{
			Version: e.cfg.Version, Dir: e.cfg.Dir, Env: e.rootEnv(), Host: e.host,
			Box: agent.Box{Exe: e.exe, Confined: sandbox.Probe().Enforced(), Namespace: true},
		},
	}
}

// rootEnv is the environment of the commands of the root's own agent: a qq among
// them is one level deeper, as a child would be.
func (e *Engine) rootEnv() []string {
	return append(slices.Clone(e.cfg.Environ), fmt.Sprintf("%s=%d", childproc.DepthVar, e.cfg.Settings.Depth+1),
		"TRACEPARENT="+e.cfg.Trace.Traceparent(e.id))
}

// Plan says how a task of a batch would be worked on whose text is too long for
// the model; nothing for one that fits.
func (e *Engine) Plan(ctx context.Context, t task.Task) ([]string, error) {
	def, m, err := e.Staff(ctx, t)
	if err != nil {
		return nil, err
	}
	return e.plan(Run{Agent: def, Model: m}, task.Job{Task: t, Depth: e.cfg.Settings.Depth + 1, BatchID: "planned"})
}

// Outline is as [Engine.Plan] for what [Engine.Run] would do.
func (e *Engine) Outline(r Run, t task.Task) ([]string, error) {
	return e.plan(r, task.Job{Task: t, Depth: e.cfg.Settings.Depth})
}

// plan says how job would be worked on. It makes what the agent would be asked with,
// and leaves nothing behind.
func (e *Engine) plan(r Run, job task.Job) ([]string, error) {
	set := e.cfg.Settings
	a := e.agent(r, job)
	a.ReadOnly = a.ReadOnly || job.ReadOnly
	a.Setup = agent.Setup{Policy: policy(set), Writable: set.Writable, WebAllow: set.WebAllow, AstGrep: e.astGrep(), Search: e.cfg.Search}
	a.Model = connected{r.Model, nil} // nothing is asked
	return a.Plan(job)
}
