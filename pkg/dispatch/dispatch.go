// Package dispatch takes intent to results: it checks tasks against what is
// known and allowed, hands them to the supervisor, and makes every start and
// every end a fact that others can see.
//
// It is the one way into the supervisor: the tasks of a batch and the
// delegations of any agent, at any depth, come through here, so a rule that
// stands here holds everywhere.
//
// What a definition says about its agent is put into a task here: the name (a
// task may say "Coder"; its result, its events and its line in the log say
// "coder") and the timeout. So is what a child hands down to those that it asks:
// its folder, out of which they do not get, and that it may only read.
package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"qq/pkg/agents"
	"qq/pkg/event"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// Registry knows the agents.
type Registry interface {
	Lookup(name string) (agents.Agent, error)
}

// Log is the record of children for people.
type Log interface {
	Spawned(id, agent string, depth int, task string)
	Completed(id string, success bool, exit int)
	Failed(id, msg string)
}

// Config is what a Dispatcher needs.
type Config struct {
	Limits   task.Limits
	Depth    int       // of this process; 0 for one that a person started
	Deadline time.Time // of the whole run; zero is none
	Agents   Registry
	Launcher supervisor.Launcher
	Events   *event.Stream // nil drops events
	Log      Log           // nil writes none
	NewID    func() string
}

// Dispatcher runs tasks.
type Dispatcher struct {
	cfg  Config
	sup  *supervisor.Supervisor
	root *supervisor.Scope
}

// New returns a Dispatcher.
func New(cfg Config) *Dispatcher {
	d := &Dispatcher{cfg: cfg}
	d.sup = supervisor.New(supervisor.Config{
		Limits: cfg.Limits, Launcher: vetting{d, cfg.Launcher}, NewID: cfg.NewID, Started: d.started, Ended: d.ended,
	})
	d.root = d.sup.Root(cfg.Depth, cfg.Deadline)
	return d
}

// Check says what is wrong with a task before anything starts.
func (d *Dispatcher) Check(t task.Task) error {
	t = t.Normalized()
	if err := t.Validate(); err != nil {
		return err
	}
	_, err := d.cfg.Agents.Lookup(t.Agent)
	return err
}

// Batch runs a stream of tasks that [Dispatcher.Check] has passed.
func (d *Dispatcher) Batch(ctx context.Context, b supervisor.Batch) error {
	d.cfg.Events.Emit(event.Event{Type: event.BatchStart, BatchID: b.ID, Depth: d.cfg.Depth})
	n := 0
	tasks, deliver := b.Tasks, b.Deliver
	b.Tasks = func(yield func(task.Task, error) bool) {
		for t, err := range tasks {
			if !yield(d.resolved(t), err) {
				return
			}
		}
	}
	b.Deliver = func(r task.Result) error {
		n++
		return deliver(r)
	}
	err := d.root.Run(ctx, b)
	d.cfg.Events.Emit(event.Event{Type: event.BatchComplete, BatchID: b.ID, Depth: d.cfg.Depth, Count: n})
	return err
}

// Delegate runs tasks that the agent of this process asks for.
func (d *Dispatcher) Delegate(ctx context.Context, by agents.Agent, tasks []task.Task) []task.Result {
	return d.vet(ctx, by, task.Task{}, tasks, d.root.Delegate)
}

// Cancel ends one running child and what it started.
func (d *Dispatcher) Cancel(executionID string) bool { return d.sup.Cancel(executionID) }

// vet runs the tasks that by, at work on its own task, may ask for, and refuses
// the others, each in its place.
func (d *Dispatcher) vet(ctx context.Context, by agents.Agent, own task.Task, tasks []task.Task,
	run func(context.Context, []task.Task) []task.Result) []task.Result {
	results := make([]task.Result, len(tasks))
	var allowed []task.Task
	var at []int
	for i, t := range tasks {
		if status, why := d.objection(by, own, t); why != "" {
			results[i] = d.resolved(t).Ended(status, why)
			results[i].Index = i
			continue
		}
		t = d.resolved(t)
		t.WorkingDir = filepath.Join(own.WorkingDir, t.WorkingDir)
		t.ReadOnly = t.ReadOnly || own.ReadOnly
		if limit := d.cfg.Limits.ChildTimeout; limit > 0 {
			t.Timeout = min(t.Timeout, limit.Seconds()) // an agent may ask for less, not for more
		}
		allowed, at = append(allowed, t), append(at, i)
	}
	if len(allowed) == 0 {
		return results // without lending and taking back a slot
	}
	for k, r := range run(ctx, allowed) {
		r.Index = at[k]
		results[at[k]] = r
	}
	return results
}

// objection says why by, at work on its own task, may not have t done, or
// returns "".
func (d *Dispatcher) objection(by agents.Agent, own, t task.Task) (task.Status, string) {
	if err := d.Check(t); err != nil {
		return task.Misused, err.Error()
	}
	to := d.resolved(t).Agent
	named := strings.TrimSpace(t.Agent) != "" // who names nobody wants a hand for general work
	switch {
	case named && to == by.Name:
		return task.Refused, "Cannot delegate to self"
	case !by.AllowsAgent(to):
		return task.Refused, fmt.Sprintf("%s may not delegate to %s (allowed: %s)", by.Name, to, cmp.Or(strings.Join(by.Agents, ", "), "none"))
	case t.WorkingDir != "" && !inside(own.WorkingDir, t.WorkingDir):
		return task.Refused, fmt.Sprintf("working_dir %q is no folder inside of the working directory", t.WorkingDir)
	}
	return "", ""
}

// inside reports whether sub names a folder in dir, links followed; an empty dir
// is that of this process.
func inside(dir, sub string) bool {
	if !filepath.IsLocal(sub) {
		return false
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	real, err := filepath.EvalSymlinks(filepath.Join(dir, sub))
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(root, real)
	if err != nil || !filepath.IsLocal(rel) {
		return false
	}
	info, err := os.Stat(real)
	return err == nil && info.IsDir()
}

// resolved returns t with its agent named as in the definition, and with the
// timeout that stands there unless t has its own or the limit of the run is
// lower.
func (d *Dispatcher) resolved(t task.Task) task.Task {
	t = t.Normalized()
	a, err := d.cfg.Agents.Lookup(t.Agent)
	if err != nil {
		return t // Check and Launch say so
	}
	t.Agent = a.Name
	if limit := d.cfg.Limits.ChildTimeout; t.Timeout == 0 && a.Timeout > 0 && (limit == 0 || a.Timeout < limit) {
		t.Timeout = a.Timeout.Seconds()
	}
	return t
}

// vetting is a Launcher under which a child can delegate only what it may.
type vetting struct {
	d    *Dispatcher
	next supervisor.Launcher
}

var _ supervisor.Launcher = vetting{}

// Launch implements supervisor.Launcher.
func (v vetting) Launch(ctx context.Context, job task.Job) task.Result {
	agent, err := v.d.cfg.Agents.Lookup(job.Agent)
	if err != nil {
		return job.Ended(task.Misused, err.Error())
	}
	return v.next.Launch(ctx, v.d.vetted(agent, job))
}

// vetted is job, which by does, without the right to delegate what it may not.
func (d *Dispatcher) vetted(by agents.Agent, job task.Job) task.Job {
	run := job.Delegate
	job.Delegate = func(ctx context.Context, tasks []task.Task) []task.Result {
		return d.vet(ctx, by, job.Task, tasks, run)
	}
	return job
}

func (d *Dispatcher) started(job task.Job) {
	if d.cfg.Log != nil {
		d.cfg.Log.Spawned(shortID(job.ExecutionID), job.Agent, job.Depth, job.Text)
	}
	if d.cfg.Events.Wanted() {
		e := about(job, event.SubAgentStart)
		e.Task = task.Shorten(job.Text, 100)
		d.cfg.Events.Emit(e)
	}
}

func (d *Dispatcher) ended(job task.Job, r task.Result) {
	if d.cfg.Log != nil {
		d.cfg.Log.Completed(shortID(job.ExecutionID), r.Success, r.ExitCode)
		if !r.Success {
			d.cfg.Log.Failed(shortID(job.ExecutionID), string(r.Status)+": "+r.Err())
		}
	}
	if d.cfg.Events.Wanted() {
		e := about(job, event.SubAgentComplete)
		if !r.Success {
			e.Type, e.Error = event.SubAgentError, r.Err()
		}
		e.Status, e.ExitCode, e.Usage, e.DurationMS = r.Status, &r.ExitCode, &r.Usage, r.DurationMS
		d.cfg.Events.Emit(e)
	}
}

func about(job task.Job, t event.Type) event.Event {
	return event.Event{Type: t, ExecutionID: job.ExecutionID, ParentExecutionID: job.Parent, BatchID: job.BatchID, Agent: job.Agent, Depth: job.Depth}
}

// shortID is how an execution is named in the log: the last 8 characters, for
// the first ones of a time-ordered id are the same for neighbours.
func shortID(id string) string { return id[max(0, len(id)-8):] }
