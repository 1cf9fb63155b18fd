package app

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

// zeroRun is one run of the agent of this process.
type zeroRun struct {
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
func (w *wiring) Run(ctx context.Context, r zeroRun, t task.Task) (task.Result, error) {
	t.Agent, t.ReadOnly = r.Agent.Name, t.ReadOnly || w.cfg.ReadOnly
	res, err := w.Supervisor.Run(ctx, t, r.Session, here{w, r})
	res.Model = r.Model.String()
	return res, err
}

// here launches the agent of this process in this process.
type here struct {
	w *wiring
	r zeroRun
}

// Launch implements supervisor.Launcher.
func (h here) Launch(ctx context.Context, job task.Job, p supervisor.Parent) task.Result {
	a := h.w.agent(h.r, job)
	id := "root-" + task.NewID()
	defer h.w.tidy(id)
	var err error
	if a.Setup, err = h.w.setup(h.r.Agent, h.r.Model, id, a.ReadOnly); err != nil {
		return job.Fail(err)
	}
	backend, done, err := h.r.Model.Connect()
	if err != nil {
		return job.Fail(err)
	}
	defer done()
	a.Model = connected{h.r.Model, backend}
	a.Process.Box.Rules = a.Rules(h.w.cfg.Dir)
	switch {
	case a.Screen != nil:
	case h.w.stream.Wanted():
		a.Screen = &agent.TokenEvents{To: p}
	default:
		a.Screen = agent.Nobody{}
	}
	return a.Run(ctx, noted{p, h.w}, job)
}

// noted is the parent of the agent of this process: a person reads its progress.
type noted struct {
	supervisor.Parent
	w *wiring
}

// Emit implements supervisor.Report.
func (n noted) Emit(ev event.Event) {
	if ev.Type == event.SubAgentProgress {
		n.w.cfg.Note("%s", ev.Text)
	}
	n.Parent.Emit(ev)
}

// agent is the agent of this process, without what is made for one run.
func (w *wiring) agent(r zeroRun, job task.Job) agent.Agent {
	set := w.cfg.Settings
	return agent.Agent{
		Definition: r.Agent, Registry: w.cfg.Agents, System: r.System, MaxTurns: r.MaxTurns, Retries: set.Retries,
		ReadOnly: w.cfg.ReadOnly || r.Agent.Gathers(), Denied: set.Deny, CanDelegate: job.Depth+1 < set.MaxDepth,
		History: r.History, Transcript: r.Transcript, Screen: r.Screen,
		Process: agent.Process{
			Version: w.cfg.Version, Dir: w.cfg.Dir, Env: w.rootEnv(), Host: w.host,
			Box: agent.Box{Exe: w.exe, Confined: sandbox.Probe().Enforced(), Namespace: true},
		},
	}
}

// rootEnv is the environment of the commands of the root's own agent: a qq among
// them is one level deeper, as a child would be.
func (w *wiring) rootEnv() []string {
	return append(slices.Clone(w.cfg.Environ), fmt.Sprintf("%s=%d", childproc.DepthVar, w.cfg.Settings.Depth+1),
		"TRACEPARENT="+w.cfg.Trace.Traceparent(w.cfg.ID))
}

// Plan says how a task of a batch would be worked on whose text is too long for
// the model; nothing for one that fits.
func (w *wiring) Plan(ctx context.Context, t task.Task) ([]string, error) {
	def, m, err := w.Staff(ctx, t)
	if err != nil {
		return nil, err
	}
	return w.plan(zeroRun{Agent: def, Model: m}, task.Job{Task: t, Depth: w.cfg.Settings.Depth + 1, BatchID: "planned"})
}

// Outline is as Plan for what Run would do.
func (w *wiring) Outline(r zeroRun, t task.Task) ([]string, error) {
	return w.plan(r, task.Job{Task: t, Depth: w.cfg.Settings.Depth})
}

// plan says how job would be worked on. It makes what the agent would be asked with,
// and leaves nothing behind.
func (w *wiring) plan(r zeroRun, job task.Job) ([]string, error) {
	a := w.agent(r, job)
	a.ReadOnly = a.ReadOnly || job.ReadOnly
	a.Setup = w.treeSetup(r.Agent)
	a.Model = connected{r.Model, nil} // nothing is asked
	return a.Plan(job)
}
