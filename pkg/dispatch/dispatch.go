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
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"qq/pkg/agents"
	"qq/pkg/event"
	"qq/pkg/supervisor"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Registry knows the agents.
type Registry interface {
	Lookup(name string) (agents.Agent, error)
}

// Desk decides about calls that a person may have to be asked about.
type Desk interface {
	// Needs reports whether somebody would be asked.
	Needs(in tool.Intent) bool
	Ask(ctx context.Context, q tool.Question) tool.Decision
}

// Log is the record of children for people.
type Log interface {
	Spawned(id, agent string, depth int, task string)
	Completed(id string, success bool, exit int)
	Failed(id, msg string)
}

// Config is what a Dispatcher needs.
type Config struct {
	Limits task.Limits
	// DefaultTimeout says that nobody has set Limits.ChildTimeout: the definition
	// of an agent may say more.
	DefaultTimeout bool
	// DefaultIdle says the same of Limits.IdleTimeout.
	DefaultIdle bool
	// ID is the execution id of this process, the parent of what its agent starts.
	ID string
	// Recorder keeps what is done; nil keeps nothing.
	Recorder supervisor.Recorder
	Depth    int       // of this process; 0 for one that a person started
	Deadline time.Time // of the whole run; zero is none
	ReadOnly bool      // everybody may only read
	Agents   Registry
	Desk     Desk // decides about calls; nil allows all of them
	Launcher supervisor.Launcher
	Events   *event.Stream // nil drops events
	Log      Log           // nil writes none
	NewID    func() string
}

// Dispatcher runs tasks.
type Dispatcher struct {
	cfg   Config
	sup   *supervisor.Supervisor
	root  *supervisor.Scope // of a batch
	agent *supervisor.Scope // of the agent of this process

	places places
	hired  struct { // agents that other agents made up
		sync.Mutex
		agents map[string]agents.Agent
	}
}

// New returns a Dispatcher.
func New(cfg Config) *Dispatcher {
	d := &Dispatcher{cfg: cfg, places: places{byID: map[string]*Place{}}}
	d.sup = supervisor.New(supervisor.Config{
		Limits: cfg.Limits, Launcher: vetting{d, cfg.Launcher}, NewID: cfg.NewID, Started: d.started, Ended: d.ended,
		Recorder: cfg.Recorder, Idle: d.Idle,
	})
	d.root = d.sup.Root("", cfg.Depth, cfg.Deadline)
	d.agent = d.sup.Root(cfg.ID, cfg.Depth, cfg.Deadline)
	return d
}

// Check says what is wrong with a task before anything starts.
func (d *Dispatcher) Check(t task.Task) error {
	if err := d.check(t); err != nil {
		return err
	}
	_, err := d.cfg.Agents.Lookup(t.Normalized().Agent)
	return err
}

// check is Check without a look at who does it.
func (d *Dispatcher) check(t task.Task) error {
	if err := t.Validate(); err != nil {
		return err
	}
	for _, target := range t.Targets {
		if !filepath.IsLocal(filepath.FromSlash(target)) || !doublestar.ValidatePattern(target) {
			return fmt.Errorf("target %q is no path or glob inside of the working directory", target)
		}
	}
	return nil
}

// Batch runs a stream of tasks that [Dispatcher.Check] has passed.
func (d *Dispatcher) Batch(ctx context.Context, b supervisor.Batch) error {
	d.cfg.Events.Emit(event.Event{Type: event.BatchStart, BatchID: b.ID, Depth: d.cfg.Depth, Count: b.Count})
	n, failed := 0, 0
	tasks, deliver := b.Tasks, b.Deliver
	b.Tasks = func(yield func(task.Task, error) bool) {
		for t, err := range tasks {
			if !yield(d.resolved(t), err) {
				return
			}
		}
	}
	b.Deliver = func(r task.Result) error {
		if n++; !r.Success {
			failed++
		}
		return deliver(r)
	}
	err := d.root.Run(ctx, b)
	d.cfg.Events.Emit(event.Event{Type: event.BatchComplete, BatchID: b.ID, Depth: d.cfg.Depth, Count: n, FailedTasks: failed})
	return err
}

// Cancel ends one running child and what it started.
func (d *Dispatcher) Cancel(executionID string) bool { return d.sup.Cancel(executionID) }

// LimitReached says which limit of the whole tree kept agents from starting a
// child; empty is none.
func (d *Dispatcher) LimitReached() string { return d.sup.LimitReached() }

// resolved returns t with its agent named as in the definition, and with the
// timeout that stands there unless t has its own or the limit of the run is
// lower.
func (d *Dispatcher) resolved(t task.Task) task.Task {
	t = t.Normalized()
	a, err := d.Agent(t.Agent)
	if err != nil {
		return t // Check and Launch say so
	}
	t.Agent = a.Name
	if t.Timeout == 0 && a.Timeout > 0 {
		t.Timeout = d.limit(a.Name).Seconds()
	}
	return t
}

// Idle is the time without any activity after which job is ended; 0 is no limit.
// What the definition of its agent says goes before the default of the run, not
// before a limit that a person has set.
func (d *Dispatcher) Idle(job task.Job) time.Duration {
	limit := d.cfg.Limits.IdleTimeout
	a, err := d.Agent(job.Agent)
	switch {
	case err != nil || a.IdleTimeout == 0:
		return limit
	case limit == 0 || d.cfg.DefaultIdle:
		return a.IdleTimeout
	}
	return min(a.IdleTimeout, limit)
}

// vetting is a Launcher under which a child can delegate only what it may.
type vetting struct {
	d    *Dispatcher
	next supervisor.Launcher
}

var _ supervisor.Launcher = vetting{}

// Launch implements supervisor.Launcher.
func (v vetting) Launch(ctx context.Context, job task.Job) task.Result {
	return v.d.launch(ctx, v.next, job)
}

// launch runs job with next, under the rules of its agent.
func (d *Dispatcher) launch(ctx context.Context, next supervisor.Launcher, job task.Job) task.Result {
	agent, err := d.Agent(job.Agent)
	if err != nil {
		return job.Ended(task.Misused, err.Error())
	}
	at := d.place(agent, &job)
	d.places.put(job.ExecutionID, at)
	defer d.places.put(job.ExecutionID, nil)
	r := next.Launch(ctx, job)
	at.End() // what it did not wait for is part of what it did
	r.ChangedFiles = at.ChangedFiles(r.ChangedFiles)
	if unread := len(at.messages); unread > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d messages to it were not read", unread))
	}
	if strays := outside(job.Targets, r.ChangedFiles); len(strays) > 0 {
		r.Warnings = append(r.Warnings, "files were changed outside of the targets: "+strings.Join(strays, ", "))
	}
	at.relocate(r.ChangedFiles)
	at.report(r.ChangedFiles)
	return r
}

// relocate makes paths in the folder of the agent paths in that of whoever asked
// for its work.
func (p *Place) relocate(files []string) {
	base := ""
	if p.parent != nil {
		base = p.parent.own.WorkingDir
	}
	if p.own.WorkingDir == base {
		return
	}
	from, err := filepath.Abs(base)
	if err != nil {
		return
	}
	to, err := filepath.Abs(p.own.WorkingDir)
	if err != nil {
		return
	}
	rel, err := filepath.Rel(from, to)
	if err != nil || rel == "." {
		return
	}
	for i, f := range files {
		files[i] = path.Join(filepath.ToSlash(rel), f)
	}
}

// outside lists the changed files that no target covers. Without targets none is
// outside.
func outside(targets, changed []string) (strays []string) {
	for _, file := range changed {
		if len(targets) > 0 && !slices.ContainsFunc(targets, func(t string) bool { return covers(t, file) }) {
			strays = append(strays, file)
		}
	}
	return strays
}

// covers reports whether file is the target, in it, or matched by it.
func covers(target, file string) bool {
	target = path.Clean(target)
	matched, err := doublestar.Match(target, file)
	return err == nil && matched || target == "." || strings.HasPrefix(file, target+"/")
}

func (d *Dispatcher) started(job task.Job) {
	if d.cfg.Log != nil {
		d.cfg.Log.Spawned(task.ShortID(job.ExecutionID), job.Agent, job.Depth, job.Text)
	}
	if d.cfg.Events.Wanted() {
		e := about(job, event.SubAgentStart)
		e.Task = task.Shorten(job.Text, 100)
		d.cfg.Events.Emit(e)
	}
}

func (d *Dispatcher) ended(job task.Job, r task.Result) {
	if d.cfg.Log != nil {
		d.cfg.Log.Completed(task.ShortID(job.ExecutionID), r.Success, r.ExitCode)
		if !r.Success {
			d.cfg.Log.Failed(task.ShortID(job.ExecutionID), string(r.Status)+": "+r.Err())
		}
		if r.Unrecorded {
			d.cfg.Log.Failed(task.ShortID(job.ExecutionID), unrecorded)
		}
	}
	if d.cfg.Events.Wanted() {
		e := about(job, event.SubAgentComplete)
		if !r.Success {
			e.Type, e.Error = event.SubAgentError, r.Err()
		}
		e.Status, e.ExitCode, e.Usage, e.DurationMS = r.Status, &r.ExitCode, &r.Usage, r.DurationMS
		if r.Unrecorded && r.Success {
			e.Error = unrecorded
		}
		if r.Attempts > 1 {
			e.Attempt = r.Attempts
		}
		d.cfg.Events.Emit(e)
	}
}

// unrecorded is said of a result that is not durable.
const unrecorded = "its result could not be recorded"

func about(job task.Job, t event.Type) event.Event {
	return event.Event{Type: t, ExecutionID: job.ExecutionID, ParentExecutionID: job.Parent, BatchID: job.BatchID, Agent: job.Agent, Depth: job.Depth}
}
