package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"qq/pkg/agents"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/supervisor/ceiling"
	"qq/pkg/supervisor/changes"
	"qq/pkg/supervisor/family"
	"qq/pkg/supervisor/limits"
	"qq/pkg/supervisor/needs"
	"qq/pkg/supervisor/tally"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// handle is one running agent as the supervisor sees it: what it may do and who its parent is. It
// implements [Parent], the requests of the agent to the supervisor. Each attempt of a job has a
// handle of its own. The tasks of a batch have one handle above them, which has no agent and only
// starts them.
type handle struct {
	s     *Supervisor
	exec  *execution // nil above the tasks of a batch
	agent agents.Agent
	job   task.Job
	given string        // the text that it works on; "" is that of job
	chain []string      // names of the agents from the root to this one
	inbox <-chan string // messages from other agents
	// latest is when all children of this agent must have ended, even if their clocks were paused:
	// the deadline of the run is fixed. Zero means that there is none.
	latest     time.Time
	background family.Family
	effects    atomic.Bool   // a descendant had side effects
	gone       atomic.Bool   // the attempt has ended
	changed    changes.Files // by the agent or its descendants
	tally      tally.Tally   // of the tasks that it hands on and waits for
	phases     event.Phases  // what it does, for those who watch it
	parts      ceiling.Parts // of documents that were summarized for it
	repairs    ceiling.Repairs
}

// parallelTool is the tool whose calls are batches of their own in events.
const parallelTool = "run_parallel_tasks"

// newHandle returns a handle for the next attempt of x, whose agent is a. The caller must close it.
func (x *execution) newHandle(a agents.Agent) *handle {
	h := &handle{
		s: x.s, exec: x, agent: a, job: x.job, chain: []string{a.Name}, latest: x.time.Latest(),
		inbox: x.mail.Open(), phases: event.Phases{Stream: x.s.cfg.Events, Job: x.job},
	}
	if p := h.parent(); p != nil {
		h.chain = append(slices.Clone(p.chain), a.Name)
	}
	return h
}

// close ends the background children whose results were not collected. Calls of the agent are
// refused from now on.
func (h *handle) close() {
	h.background.End(task.ErrAbandoned)
	h.gone.Store(true)
	h.phases.End()
}

// Settle runs f, which finds out what the agent and its descendants changed, and may wait for other jobs. All of them
// have ended then, and r, the result of the agent, says whether a limit was in their way. changed is what they said,
// and is forgotten. Other jobs can use the slot, and the clocks pause. A launcher calls it at its end.
func (h *handle) Settle(r *task.Result, f func(changed []string)) {
	h.background.End(task.ErrAbandoned)
	h.exec.limit(r)
	h.exec.loan.Lend()
	defer h.exec.loan.Retake() // other attempts may follow
	h.queue(func() { f(h.changed.Take()) })
}

// Await runs wait, in which the agent that Settle is called for waits until it may join its changes. Other jobs can use
// its lease.
func (h *handle) Await(wait func()) {
	h.s.jobs.Ready(h.job.ExecutionID)
	h.exec.lease.Lend()
	defer h.exec.lease.Resume(h.exec.ctx) // fails only when the agent is being ended
	wait()
}

// parent returns the handle of the agent that started this one. It is nil for job zero and for a
// task of a batch, which no agent started.
func (h *handle) parent() *handle {
	if h.exec == nil || h.exec.parent.exec == nil {
		return nil
	}
	return h.exec.parent
}

// Delegate implements [task.Delegator]. It runs the tasks that the agent may delegate and refuses
// the others. The results are in the order of tasks.
func (h *handle) Delegate(ctx context.Context, tasks []task.Task) []task.Result {
	results := make([]task.Result, len(tasks))
	granted := make([]task.Task, len(tasks))
	for i, t := range tasks {
		var refused *task.Result
		if granted[i], refused = h.grant(ctx, t); refused != nil {
			results[i] = *refused
		}
	}
	needs.Deprive(granted, results)
	var allowed []task.Task
	var at []int
	for i, t := range granted {
		if results[i].Index = i; results[i].Status == "" {
			allowed, at = append(allowed, t), append(at, i)
		}
	}
	if len(allowed) == 0 {
		return results // without lending and taking back a slot
	}
	refuse := func(err error) []task.Result {
		for k, t := range allowed {
			results[at[k]] = t.Fail(err)
			results[at[k]].Index = at[k]
		}
		return results
	}
	planned, err := h.plan(allowed)
	if err == nil {
		err = h.repairs.Check(h.agent, h.s.agents, allowed)
	}
	if err != nil {
		return refuse(err) // and nobody is asked
	}
	if d := h.decide(ctx, h.s.agents.Intent(allowed)); !d.Allowed {
		return refuse(&task.Error{Status: task.Refused, Problem: d.Reason, Hint: d.Hint})
	}
	if err = h.repairs.Take(h.agent, h.s.agents, allowed); err != nil {
		return refuse(err) // of several calls at once
	}
	h.dispatched(allowed...)
	group, end := "", func([]task.Result) {}
	if call := tool.CallOf(ctx); call.Name == parallelTool {
		group = h.s.cfg.NewID()
		end = h.s.cfg.Events.Group(h.job, group, call.ID, len(tasks))
	}
	for k, r := range h.delegate(ctx, allowed, planned, group) {
		r.Index = at[k]
		results[at[k]] = r
	}
	end(results)
	return results
}

// longWait is how long a request waits for its permit before it is told that it waits.
const longWait = time.Second

// Enter implements [llm.Admission]. While the request waits for a permit, the clocks of the agent
// pause, and so do the run clocks of its ancestors that wait for it.
func (h *handle) Enter(ctx context.Context, model string, again bool) (p llm.Permit, err error) {
	if h.s.cfg.Gate == nil {
		return freePermit{h}, nil
	}
	enter := func() { p, err = h.s.cfg.Gate.Enter(ctx, model, again, h) }
	watch := h.exec.loan.Watch(h)
	h.queue(func() { h.phases.Wait(event.AwaitsServer, longWait, enter) })
	watch.Stop()
	if err != nil {
		return nil, err
	}
	return h.sending(p), nil
}

// Keeps implements [limits.Keeper]: while the server of the agent keeps its requests waiting, jobs that need another
// server can use its slot.
func (h *handle) Keeps() bool { return h.s.cfg.Gate.Ready(h.job.Task) > 0 }

// First returns a permit for the first request of the agent if one is free now, and nil otherwise.
// A launcher can pass the permit to the process of the agent, which then need not ask for one.
func (h *handle) First() llm.Permit {
	if h.s.cfg.Gate != nil {
		if p := h.s.cfg.Gate.First(h.job.Task, h); p != nil {
			return h.sending(p)
		}
	}
	return nil
}

// sending returns the permit p for a request that is sent now. While the server is silent, jobs that need another one
// can use the slot of the agent.
func (h *handle) sending(p llm.Permit) llm.Permit {
	h.s.jobs.Ask(h.job.ExecutionID)
	return activePermit{p, h, h.exec.loan.Watch(h)}
}

// activePermit is a permit that also counts each sign of activity from the server as activity of
// the agent.
type activePermit struct {
	llm.Permit
	h     *handle
	watch *limits.Watch
}

// Active implements [llm.Permit].
func (p activePermit) Active() {
	p.watch.Stop()
	p.h.s.jobs.Stream(p.h.job.ExecutionID)
	p.h.Active()
	p.Permit.Active()
}

// Leave implements [llm.Permit].
func (p activePermit) Leave(r llm.Report) {
	p.watch.Stop()
	p.h.s.jobs.Answer(p.h.job.ExecutionID, r.Usage)
	p.Permit.Leave(r)
}

// freePermit is the permit for any request if the supervisor has no Gate.
type freePermit struct{ *handle }

func (freePermit) Allowed(llm.Allowance) {}
func (freePermit) Leave(llm.Report)      {}

// Behind implements [Waiter]. It does not count the last d as run time of the agent, because a
// request of the agent waited behind others at the server.
func (h *handle) Behind(d time.Duration) {
	h.exec.time.GiveBack(d)
	h.Active()
}

// Approve implements [Report]. If the agent has ended, or if its definition does not allow the
// tool, the call is refused and nobody is asked.
func (h *handle) Approve(ctx context.Context, in tool.Intent) tool.Decision {
	switch {
	case h.gone.Load():
		return tool.Decision{Reason: "the child is gone"}
	case !h.agent.Allows(in.Tool):
		return tool.Decision{Reason: "the definition of " + h.agent.Name + " does not give it this tool"}
	}
	return h.decide(ctx, in)
}

// Given says that the agent works on text and not on that of its job. A launcher calls it before it starts the agent.
// Whoever is asked about a call of the agent reads text.
func (h *handle) Given(text string) { h.given = text }

// decide returns whether the agent may do what in describes. Without Approvals everything is
// allowed. While a person is asked, other jobs may use the slot of the agent.
func (h *handle) decide(ctx context.Context, in tool.Intent) tool.Decision {
	approvals := h.s.cfg.Approve
	if approvals == nil {
		return tool.Decision{Allowed: true}
	}
	q := tool.Question{
		ExecutionID: h.job.ExecutionID, ParentExecutionID: h.job.Parent,
		BatchID: cmp.Or(h.job.BatchID, h.job.Group), CallID: tool.CallOf(ctx).ID, Depth: h.job.Depth,
		Chain: h.chain, Dir: h.job.WorkingDir, Folder: h.job.Dir, Task: cmp.Or(h.given, h.job.Text), Intent: in,
	}
	top := h
	for top.parent() != nil {
		top = top.parent()
	}
	if top.job.BatchID != "" {
		q.Number, q.Input = top.job.Index+1, cmp.Or(top.job.File, top.given, top.job.Text)
	}
	if !approvals.Needs(q) {
		return approvals.Ask(ctx, q)
	}
	var d tool.Decision
	ask := func() { h.lend(ctx, func() { d = approvals.Ask(ctx, q) }) }
	h.queue(func() { h.phases.Wait("for an approval", 0, ask) }) // a person's time is not the agent's
	return d
}

// Changed implements [Report].
func (h *handle) Changed(paths []string) {
	h.s.jobs.Change(h.job.ExecutionID, paths)
	h.changed.Add(paths)
}

// Effects implements [Report].
func (h *handle) Effects() error {
	if h.s.cfg.Record == nil {
		return nil
	}
	return h.s.cfg.Record.Effects(h.job)
}

// Inbox implements [Report].
func (h *handle) Inbox() <-chan string { return h.inbox }

// Send implements [task.Family]. A child that is queued reads the text when it starts. If the
// receiver has too many unread messages, Send returns an error and does not wait.
func (h *handle) Send(_ context.Context, to, text string) error {
	return h.s.jobs.Send(h.job.ExecutionID, to, text)
}

// Spawn implements [task.Family]. The error is a [tool.RefusedError] if the agent may not start
// this child.
func (h *handle) Spawn(ctx context.Context, t task.Task) (task.Child, error) {
	granted, refused := h.grant(ctx, t)
	if len(t.Needs) > 0 {
		return task.Child{}, task.Hinted("wait for those first, or give all to run_parallel_tasks",
			"a child in the background cannot need other tasks")
	}
	if refused != nil && refused.Status == task.Refused {
		return task.Child{}, &tool.RefusedError{Tool: "spawn_agent", Reason: refused.Err()}
	}
	if refused != nil {
		return task.Child{}, errors.New(refused.Err())
	}
	in := h.s.agents.Intent([]task.Task{granted})
	in.Tool = "spawn_agent"
	if d := h.decide(ctx, in); !d.Allowed {
		return task.Child{}, &tool.RefusedError{Tool: in.Tool, Reason: d.Reason, Hint: d.Hint}
	}
	h.dispatched(granted)
	return h.spawn(ctx, granted)
}

// conclude completes the result of the agent with what the supervisor knows: the files that its
// descendants changed, whether they had side effects, and warnings about messages that it did not
// read and about files outside of its targets. It also reports the changed files to the parent of
// the agent.
func (h *handle) conclude(r *task.Result) {
	r.ChangedFiles = h.changed.With(r.ChangedFiles)
	if unread := len(h.inbox); unread > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("messages to it that were not read: %d", unread))
	}
	unsaid := h.exec.lease.Unnamed(r.Unsaid, cmp.Or(h.job.Dir, h.job.WorkingDir), h.s.cfg.Paths)
	r.Warnings = append(r.Warnings, changes.Warnings(h.job.Targets, r.ChangedFiles, unsaid)...)
	r.Effects = r.Effects || h.effects.Load()
	changes.Relocate(h.exec.parent.job.WorkingDir, h.job.WorkingDir, r.ChangedFiles)
	if p := h.parent(); p != nil {
		p.Changed(r.ChangedFiles)
	}
}

// pause runs f, in which the agent waits for its children (see [limits.Timing.Wait]), with its slot and its lease
// lent.
func (h *handle) pause(ctx context.Context, f func()) {
	x := h.exec
	if x == nil {
		f()
		return
	}
	x.time.Wait(func() { h.lend(ctx, f) })
}

// lend runs f. Until f returns, other jobs may use the slot and the lease of the agent; then lend waits for both
// again.
func (h *handle) lend(ctx context.Context, f func()) {
	if h.exec == nil {
		f()
		return
	}
	h.exec.lend()
	defer h.exec.resume(ctx) // fails only when the agent is being ended
	f()
}

// queue runs f, in which the agent waits for something other than its children, such as a permit or a person.
// Until f returns, the clocks of the agent pause, and so do the run clocks of its ancestors that
// wait for it.
func (h *handle) queue(f func()) {
	if h.exec == nil {
		f()
		return
	}
	h.exec.time.Queue(f)
}

// Active implements [Admission]. It resets the idle clocks of the agent and of all its ancestors.
func (h *handle) Active() {
	h.exec.time.Active()
}

// newJob returns a job for t with a new id, as a child of the agent of h. ctx is that of the call
// that starts it.
func (h *handle) newJob(ctx context.Context, t task.Task) task.Job {
	return task.Job{
		Task: t, ExecutionID: h.s.cfg.NewID(), Parent: h.job.ExecutionID, Depth: h.job.Depth + 1,
		Call: tool.CallOf(ctx).ID, Queued: time.Now(),
	}
}

// admit returns why h may not start another child, or "" if it may. byAgent says that the child
// counts towards the limits on the number and the rate of children.
func (h *handle) admit(byAgent bool) string {
	if most := h.s.cfg.Limits.MaxDepth; h.job.Depth+1 >= most {
		return fmt.Sprintf("Error: Maximum recursion depth (%d) exceeded", most)
	}
	if !byAgent {
		return ""
	}
	refusal := h.s.budget.Take(time.Now())
	if refusal != "" && h.exec != nil {
		h.exec.limited.CompareAndSwap(nil, &refusal)
	}
	return refusal
}
