package app

import (
	"cmp"
	"context"
	"fmt"

	"qq/internal/agent"
	"qq/internal/agent/loop"
	"qq/internal/app/console"
	"qq/internal/app/lastword"
	"qq/internal/app/planning"
	"qq/internal/app/signals"
	"qq/internal/app/staffing"
	"qq/internal/foreign"
	"qq/internal/models"
	"qq/internal/sandbox"
	"qq/pkg/agents"
	"qq/pkg/childproc"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/supervisor"
	"qq/pkg/supervisor/ceiling"
	"qq/pkg/task"
)

// zeroRun describes a run of the root's own agent, which is called job zero.
type zeroRun struct {
	Agent      agents.Agent
	Model      models.Model
	System     string // replaces the agent's prompt when set
	MaxTurns   int    // 0 means the limit of the agent
	History    []llm.Message
	Transcript loop.Transcript
	Screen     loop.Screen       // nil if the answer is not shown while it is written
	Session    string            // id of the transcript
	Signals    *signals.Signals  // may end the run; nil if it handles none
	Plan       *planning.Catcher // keeps the tasks that the agent hands out; nil if they are run
	Typed      *console.Typed    // a command of a person that the agent runs, without a model; nil if there is none
}

// Run runs the root's own agent on t, in this process.
func (w *wiring) Run(ctx context.Context, r zeroRun, t task.Task) (task.Result, error) {
	w.session.Store(&r.Session)
	t.Agent, t.ReadOnly = r.Agent.Name, t.ReadOnly || w.cfg.ReadOnly
	res, err := w.Supervisor.Run(ctx, t, r.Session, here{w, r})
	res.Model = cmp.Or(res.Model, r.Model.String())
	return res, err
}

// here is the launcher of job zero, the run of the root's own agent. It runs the agent in
// this process instead of a child.
type here struct {
	w *wiring
	r zeroRun
}

// Launch implements supervisor.Launcher.
func (h here) Launch(ctx context.Context, job task.Job, p supervisor.Parent) task.Result {
	ctx, cancel := lastword.With(ctx, handBack*4/5)
	defer cancel()
	a := h.w.agent(h.r)
	id := "root-" + task.NewID()
	defer h.w.tidy(id)
	var err error
	if a.Setup, err = h.w.setup(h.r.Agent, h.r.Model, job, id); err != nil {
		return job.Fail(err)
	}
	at, err := h.w.place(h.r.Agent, &a.Setup, a.Process.Env, id)
	if err != nil {
		return job.Fail(err)
	}
	a.OpenJournal()
	if h.r.Agent.Allows("run_pty_cmd") || a.Setup.Checked {
		a.Process.Commands = h.w.box(a, h.w.cfg.Dir, job.ExecutionID)
	}
	a.Screen = &agent.TokenEvents{To: p, Next: a.Screen}
	if h.r.Typed != nil {
		a.Model = h.r.Typed
		return a.Run(ctx, noted{p, h.w}, job)
	}
	if at != nil {
		return foreign.Run(ctx, a, *at, noted{p, h.w}, job)
	}
	seats, err := h.w.Seats(ctx, h.r.Agent, h.r.Model, job.Task)
	if err != nil {
		return job.Fail(err)
	}
	h.w.Live().Use(job.ExecutionID, h.r.Model.String())
	p = noted{p, h.w}
	if h.r.Plan == nil {
		return staffing.Run(ctx, seats, a, p, job)
	}
	a.Setup.Roster.Lines, a.Setup.Roster.More = nil, 0 // those who do the tasks later may change files
	h.w.enrol(&a.Setup, ceiling.Ceiling{Agent: h.r.Agent})
	ctx, p = h.r.Plan.Over(ctx, p)
	res := staffing.Run(ctx, seats, a, p, job)
	res.Agent = job.Agent
	h.r.Plan.Settle(&res)
	return res
}

// Conclude implements supervisor.Concluder: the result of a run that a signal ended names the signal
// as its process does.
func (h here) Conclude(r *task.Result) {
	if h.r.Signals != nil {
		h.r.Signals.Name(r)
	}
}

// noted is the parent of the root's own agent. It also shows progress events to a person.
type noted struct {
	supervisor.Parent
	w *wiring
}

// Emit implements supervisor.Report.
func (n noted) Emit(ev event.Event) {
	if ev.Type == event.SubAgentProgress && ev.Text != "" {
		n.w.cfg.Person.Note("%s", ev.Text)
	}
	n.Parent.Emit(ev)
}

// agent makes the root's own agent. The caller adds its setup and its model.
func (w *wiring) agent(r zeroRun) agent.Agent {
	return agent.Agent{
		Definition: r.Agent, Registry: w.cfg.Agents, System: r.System, MaxTurns: r.MaxTurns,
		History: r.History, Transcript: r.Transcript, Screen: r.Screen,
		Process: agent.Process{
			Version: w.cfg.Version, Dir: w.cfg.Dir, Env: w.rootEnv(), Host: w.host,
			Confined: sandbox.Probe().Enforced(),
		},
	}
}

// rootEnv returns the environment for commands of the root's own agent. It sets the depth
// one level deeper, so that a qq that such a command starts counts as a child.
func (w *wiring) rootEnv() []string {
	set := w.cfg.Settings
	return append(set.Keyless(w.cfg.Environ), fmt.Sprintf("%s=%d", childproc.DepthVar, set.Depth+1),
		"TRACEPARENT="+w.cfg.Trace.Traceparent(w.cfg.ID))
}

// Plan implements batch.Runner: it lists how the text of a task would be cut and
// summarized. The list is empty if the text fits the model.
func (w *wiring) Plan(ctx context.Context, t task.Task) ([]string, error) {
	def, m, err := w.Staff(ctx, t)
	if err != nil {
		return nil, err
	}
	return w.plan(zeroRun{Agent: def, Model: m}, task.Job{Task: t, Depth: w.cfg.Settings.Depth + 1, BatchID: "planned"})
}

// Outline lists how the text of t would be cut in a run of the root's own agent. The list
// is empty if the text fits the model.
func (w *wiring) Outline(r zeroRun, t task.Task) ([]string, error) {
	return w.plan(r, task.Job{Task: t, Depth: w.cfg.Settings.Depth})
}

// plan lists how the text of job would be cut. To measure prompt and tools it makes the
// agent as a run would, but it creates no files and sends no request.
func (w *wiring) plan(r zeroRun, job task.Job) ([]string, error) {
	a := w.agent(r)
	a.Setup = w.plannedSetup(r.Agent, job)
	a.Model = staffing.Connected{Model: r.Model} // no request is sent
	return a.Plan(job)
}
