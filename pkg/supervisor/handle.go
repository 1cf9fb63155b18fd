package supervisor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"qq/pkg/agents"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/supervisor/ceiling"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// maxUnread is how many messages may wait for an agent that does not read them.
const maxUnread = 64

// handle is one agent at work: what it may ask of the supervisor, what it may do, and
// who its parent is. Each attempt of a job has its own. Above the tasks of a batch
// stands one without an agent, which only starts them.
type handle struct {
	s     *Supervisor
	exec  *execution // nil above the tasks of a batch
	agent agents.Agent
	job   task.Job
	chain []string    // the agents from the root to this one
	inbox chan string // from other agents
	// latest is when all must have ended that is started here, whatever their clocks
	// say: the deadline of the run does not wait for anybody. Zero is none.
	latest     time.Time
	background background
	effects    atomic.Bool // a descendant had side effects

	mu      sync.Mutex
	changed map[string]struct{} // files, by those who worked for it
	parts   int                 // of documents that were summarised for it
}

var _ Parent = (*handle)(nil)

// newHandle is the handle of a job whose agent is a. It is known by its id until
// close.
func (x *execution) newHandle(a agents.Agent) *handle {
	h := &handle{
		s: x.s, exec: x, agent: a, job: x.job, chain: []string{a.Name}, latest: x.latest,
		inbox: make(chan string, maxUnread),
	}
	if p := h.parent(); p != nil {
		h.chain = append(slices.Clone(p.chain), a.Name)
	}
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	x.s.handles[h.job.ExecutionID] = h
	return h
}

// close ends the children in the background that were not collected. From then on
// nobody finds the handle.
func (h *handle) close() {
	h.endBackground()
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	delete(h.s.handles, h.job.ExecutionID)
}

// parent is the handle of the agent that asked for the job; nil for job zero and for
// the tasks of a batch.
func (h *handle) parent() *handle {
	if h.exec == nil || h.exec.parent.exec == nil {
		return nil
	}
	return h.exec.parent
}

// Delegate implements [task.Delegator]: it runs those of tasks that the agent may
// hand on, and refuses the others, each in its place.
func (h *handle) Delegate(ctx context.Context, tasks []task.Task) []task.Result {
	results := make([]task.Result, len(tasks))
	var allowed []task.Task
	var at []int
	for i, t := range tasks {
		granted, refused := h.grant(t)
		if refused != nil {
			results[i] = *refused
			results[i].Index = i
			continue
		}
		allowed, at = append(allowed, granted), append(at, i)
	}
	if len(allowed) == 0 {
		return results // without lending and taking back a slot
	}
	if d := h.decide(ctx, h.s.agents.Intent(allowed)); !d.Allowed {
		for k, t := range allowed {
			results[at[k]] = t.Ended(task.Refused, d.Reason)
			results[at[k]].Index = at[k]
		}
		return results
	}
	for k, r := range h.delegate(ctx, allowed) {
		r.Index = at[k]
		results[at[k]] = r
	}
	return results
}

// Enter implements [llm.Admission]. While the request waits for its turn, neither the
// clocks of the agent nor those of its ancestors that wait for it run.
func (h *handle) Enter(ctx context.Context, model string, again bool) (p llm.Permit, err error) {
	if h.s.cfg.Gate == nil {
		return activePermit{freePermit{}, h}, nil
	}
	h.queue(func() { p, err = h.s.cfg.Gate.Enter(ctx, model, again, h) })
	if err != nil {
		return nil, err
	}
	return activePermit{p, h}, nil
}

// First is a permit for the first request of the agent if one is free now, else nil.
// Who starts the agent in another process spares it a question with it.
func (h *handle) First() llm.Permit {
	if h.s.cfg.Gate == nil {
		return nil
	}
	p := h.s.cfg.Gate.First(h.job.Task, h)
	if p == nil {
		return nil
	}
	return activePermit{p, h}
}

// activePermit is a permit whose activity is that of its agent.
type activePermit struct {
	llm.Permit
	h *handle
}

// Active implements [llm.Permit].
func (p activePermit) Active() {
	p.h.Active()
	p.Permit.Active()
}

// freePermit is one of a tree without a gate.
type freePermit struct{}

func (freePermit) Active()          {}
func (freePermit) Leave(llm.Report) {}

// Behind gives back the last d, which a request of the agent has spent waiting for
// others at the server.
func (h *handle) Behind(d time.Duration) {
	h.giveBack(d)
	h.Active()
}

// Approve implements [Report].
func (h *handle) Approve(ctx context.Context, in tool.Intent) tool.Decision {
	switch {
	case h.s.handle(h.job.ExecutionID) != h:
		return tool.Decision{Reason: errGone.Error()}
	case !h.agent.Allows(in.Tool):
		return tool.Decision{Reason: "the definition of " + h.agent.Name + " does not give it this tool"}
	}
	return h.decide(ctx, in)
}

// decide decides about what the agent wants to do. While somebody is asked, its slot
// is lent.
func (h *handle) decide(ctx context.Context, in tool.Intent) tool.Decision {
	approvals := h.s.cfg.Approve
	if approvals == nil {
		return tool.Decision{Allowed: true}
	}
	q := tool.Question{
		ExecutionID: h.job.ExecutionID, BatchID: h.job.BatchID, Depth: h.job.Depth, Chain: h.chain,
		Dir: h.job.WorkingDir, Intent: in,
	}
	if p := h.parent(); p != nil {
		q.ParentExecutionID = p.job.ExecutionID
	}
	if !approvals.Needs(in) {
		return approvals.Ask(ctx, q)
	}
	var d tool.Decision
	h.pause(ctx, func() { d = approvals.Ask(ctx, q) })
	return d
}

// Changed implements [Report].
func (h *handle) Changed(paths []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changed == nil {
		h.changed = map[string]struct{}{}
	}
	for _, p := range paths {
		h.changed[p] = struct{}{}
	}
}

// Effects implements [Report].
func (h *handle) Effects() error {
	if h.s.cfg.Record == nil {
		return nil
	}
	return h.s.cfg.Record.Effects(h.job)
}

// Emit implements [Report].
func (h *handle) Emit(e event.Event) {
	a := about(h.job, e.Type)
	e.ExecutionID, e.ParentExecutionID, e.BatchID = a.ExecutionID, a.ParentExecutionID, a.BatchID
	e.Agent, e.Depth = a.Agent, a.Depth
	h.s.cfg.Events.Emit(e)
}

// Inbox implements [Report].
func (h *handle) Inbox() <-chan string { return h.inbox }

// Send implements [task.Family].
func (h *handle) Send(_ context.Context, to, text string) error {
	if len(text) > task.MaxMessage {
		return fmt.Errorf("the message has %d bytes, at most %d: put it into a file", len(text), task.MaxMessage)
	}
	receiver, from := h.parent(), fmt.Sprintf("child %s (%s)", h.job.ExecutionID, h.agent.Name)
	if to == task.Parent && receiver == nil {
		return errors.New("this agent has no parent that could read a message")
	}
	if to != task.Parent {
		receiver, from = h.s.handle(to), "parent"
		if to == "" || receiver == nil || receiver.parent() != h {
			return fmt.Errorf("no child %s of this agent is running", to)
		}
	}
	select {
	case receiver.inbox <- "[message from your " + from + "]\n" + text:
		return nil
	default:
		return errors.New("too many messages are unread: wait until some were read")
	}
}

// Spawn implements [task.Family].
func (h *handle) Spawn(ctx context.Context, t task.Task) (task.Child, error) {
	granted, refused := h.grant(t)
	if refused != nil && refused.Status == task.Refused {
		return task.Child{}, &tool.RefusedError{Tool: "spawn_agent", Reason: refused.Err()}
	}
	if refused != nil {
		return task.Child{}, errors.New(refused.Err())
	}
	in := h.s.agents.Intent([]task.Task{granted})
	in.Tool = "spawn_agent"
	if d := h.decide(ctx, in); !d.Allowed {
		return task.Child{}, &tool.RefusedError{Tool: in.Tool, Reason: d.Reason}
	}
	return h.spawn(ctx, granted)
}

// conclude completes the result of the job with what is known here: what was changed
// by those who worked for it, messages that it has not read, files outside of its
// targets. Its parent learns what was changed.
func (h *handle) conclude(r *task.Result) {
	r.ChangedFiles = h.changedFiles(r.ChangedFiles)
	if unread := len(h.inbox); unread > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d messages to it were not read", unread))
	}
	if strays := ceiling.Outside(h.job.Targets, r.ChangedFiles); len(strays) > 0 {
		r.Warnings = append(r.Warnings, "files were changed outside of the targets: "+strings.Join(strays, ", "))
	}
	r.Effects = r.Effects || h.effects.Load()
	if h.isZero() {
		return
	}
	ceiling.Relocate(h.exec.parent.job.WorkingDir, h.job.WorkingDir, r.ChangedFiles)
	if p := h.parent(); p != nil {
		p.Changed(r.ChangedFiles)
	}
}

// changedFiles are files and those that were reported, sorted, each once.
func (h *handle) changedFiles(files []string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.changed) == 0 {
		return files
	}
	all := append(slices.Collect(maps.Keys(h.changed)), files...)
	slices.Sort(all)
	return slices.Compact(all)
}

// pause runs f while the slot of the agent is lent. Its idle clock pauses until it has
// a slot again.
func (h *handle) pause(ctx context.Context, f func()) {
	x := h.exec
	if x == nil {
		f()
		return
	}
	x.idle.Pause()
	defer x.idle.Resume()
	x.blocked.Wait(func() {
		x.loan.Lend()
		f()
		_ = x.loan.Resume(ctx, x.job.Depth) // fails only when the agent is being ended
	})
}

// queue runs f, which waits for others than its own children: neither the clocks of
// the agent nor those of its ancestors that wait for it run.
func (h *handle) queue(f func()) {
	if h.exec == nil {
		f()
		return
	}
	h.exec.idle.Pause()
	defer h.exec.idle.Resume()
	h.exec.blocked.Queue(f)
}

// giveBack gives back the last d, which the agent has spent waiting for others, to it
// and to its ancestors that wait for it: to each of them at most once.
func (h *handle) giveBack(d time.Duration) {
	x := h.exec
	if x == nil {
		return
	}
	d = x.clock.GiveBack(d)
	for x = x.parent.exec; x != nil && x.blocked.Waiting(); x = x.parent.exec {
		d = x.clock.GiveBack(d)
	}
}

// Active implements [Admission]: the agent and its ancestors do something.
func (h *handle) Active() {
	for x := h.exec; x != nil; x = x.parent.exec {
		x.idle.Reset()
	}
}

// margin is what a parent keeps of its own time to use the results of its children.
func margin(left time.Duration) time.Duration { return min(left/10, 5*time.Second) }

// allowance is how long a child that starts now may run, and when it must have ended
// although its clock was paused; zero is without bound.
func (h *handle) allowance(t task.Task, now time.Time) (allowed time.Duration, latest time.Time) {
	allowed = t.Deadline(h.s.cfg.Limits.ChildTimeout)
	shrink := func(left time.Duration) time.Duration {
		left = max(left-margin(left), time.Nanosecond)
		if allowed == 0 || left < allowed {
			allowed = left
		}
		return left
	}
	if h.exec != nil {
		if left, bounded := h.exec.clock.Left(); bounded {
			shrink(left)
		}
	}
	if !h.latest.IsZero() {
		latest = now.Add(shrink(h.latest.Sub(now)))
	}
	return allowed, latest
}

// newJob gives t a place below h.
func (h *handle) newJob(t task.Task) task.Job {
	return task.Job{Task: t, ExecutionID: h.s.cfg.NewID(), Parent: h.job.ExecutionID, Depth: h.job.Depth + 1}
}

// admit says why a child of h may not start, or returns "".
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
