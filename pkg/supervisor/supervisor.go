// Package supervisor runs a tree of jobs. It decides when a task may run, for how long,
// how often and with which rights, and what its end means. It owns the one cap on jobs
// that run at once in the whole tree, the clocks, the limits of depth, number and rate,
// the ceilings of agents, and the order of results.
//
// To begin, give [New] a [Launcher] and a registry of agents, and call
// [Supervisor.Batch] with tasks. Package childproc has a Launcher that starts a process
// for each job.
//
// Vocabulary: a job is a task with an id and a place in the tree. An agent does it. What
// the agent may ask of the supervisor, such as to delegate a task, goes through its
// [Parent]. Job zero is the agent of this process ([Supervisor.Run]); it has a Parent
// like any other. A slot is the right to run. A job that waits for its own children
// lends its slot, so that a cap of 1 cannot deadlock. A Launcher runs one job somewhere
// and knows nothing of all this. A [Recorder] keeps what happened.
//
// Flow: a task comes from a batch, from an agent that delegates, or it is that of job
// zero. What an agent delegates is first checked against its ceiling. A task then waits
// for its lease and a slot, is claimed in the record, and is launched. When its process dies it is
// launched again, unless it has had side effects. At its end the slot becomes free, and
// the result is recorded, announced as an event, and delivered.
//
// A lease says which paths a job may touch (package lease). Jobs whose leases conflict do not run at once, wherever in
// the tree they are. A job lends its lease where it lends its slot, and gives it back when its process is gone.
//
// A job has two clocks. The run clock counts from the first start to the end of the last
// attempt. It pauses while the job waits for the model server, for a person, or for its lease or a slot to
// go on; the run clocks of its ancestors that wait for it pause too. That of job zero
// also pauses while the job waits for its children. Time that a request spent
// in the queue of the server is given back to each of these clocks, once. The idle clock
// resets with each sign of activity of the job or its descendants, and pauses while the
// job waits for anybody.
//
// Promises: exactly one result per task, in input order, each delivered as soon as all
// before it are there; a free slot takes the next task at once; a child's deadline lies
// before that of its parent and that of the run; a child never has more rights than its parent; with a
// Recorder, nothing starts unclaimed, and a result is delivered after it was recorded or
// says that it could not be. Not promised: the order in which tasks run; that a job ends
// exactly when its idle time is over, because activity is reported with a delay of up to
// a twentieth of that time (at most 5 s).
//
// The package reads the clock, but starts no process and opens no file.
package supervisor

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"qq/pkg/agents"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/supervisor/access"
	"qq/pkg/supervisor/ceiling"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/supervisor/limits"
	"qq/pkg/supervisor/order"
	"qq/pkg/supervisor/tally"
	"qq/pkg/supervisor/targets"
	"qq/pkg/task"
)

// Launcher runs one job to its end, in a child process for example. When ctx is done it ends the
// job early. It always returns a result, with what the job had produced until then. If the result
// is Hindered, the job is launched again later.
type Launcher interface {
	Launch(ctx context.Context, job task.Job, p Parent) task.Result
}

// Stager is a Launcher that can prepare for a job before the job has a slot.
type Stager interface {
	Launcher
	// Stage prepares for job, whose deadline is not known yet. It returns nil if it cannot; the job
	// is then launched without preparation.
	Stage(job task.Job) Staged
}

// Staged is prepared for one job. The caller must either launch that job with it or discard it.
type Staged interface {
	Launcher
	// Discard frees what was prepared, such as a process. Launch must not be called after it.
	Discard()
}

// Config is what a Supervisor needs. Launcher, Agents and the limits have no default.
type Config struct {
	Limits Limits
	// ID is the execution id of job zero, and so the parent id of the children of its agent. Only
	// [Supervisor.Run] needs it.
	ID       string
	Depth    int  // of this process; 0 for one that a person started
	ReadOnly bool // every agent may only read
	Launcher Launcher
	Agents   ceiling.Registry
	Folders  ceiling.Folders // where agents may have others work; nil means anywhere
	Models   ceiling.Models  // what those may use; nil means any
	Gate     Gate            // nil lets every request pass
	Approve  Approvals       // nil allows every call
	Plan     access.Mode     // which jobs are held apart that may touch the same paths
	Paths    Paths           // finds these paths; nil holds no jobs apart
	Copies   bool            // a job that can write, of a parent in no copy, works in a copy of the files
	Denied   []string        // tools that no agent may use
	Record   Recorder        // nil keeps nothing
	Events   *event.Stream   // nil drops events
	Log      tally.Log       // nil writes none
	Notes    limits.Notes    // nil tells nobody
	// FaultWait is how long a fault of the machine may last ([task.MachineFault]) before jobs end
	// because of it; 0 means that they end at once.
	FaultWait time.Duration
	NewID     func() string // makes execution ids; nil is [task.NewID]
}

// Paths makes targets of what tasks say that they will touch. Several goroutines may use it at once.
type Paths interface {
	// Targets returns the real paths for the paths and globs of a task that works in dir, the folder of the task.
	Targets(dir string, texts []string) []targets.Target
}

// Limits are the limits of a run. Apart from job zero, a job starts only at a depth below MaxDepth.
// With MaxChildren 0 agents can start no children. MaxParallel is at least 1. The supervisor does
// not enforce MaxOutput and MaxTokens.
type Limits = limits.Limits

// Supervisor runs the jobs of one tree.
type Supervisor struct {
	cfg       Config
	slots     *limits.Slots
	budget    *limits.Budget
	staging   atomic.Int64  // jobs that are staged and wait for their slots
	lead      int           // how many jobs may be staged at once
	finishing chan struct{} // holds one for each result on its way to the record
	machine   *limits.Machine
	agents    *ceiling.Agents
	leases    *access.Tree // nil if no jobs are held apart

	jobs jobs.Table // all that have not ended
}

// New returns a Supervisor. It starts nothing.
func New(cfg Config) *Supervisor {
	cfg.Limits.MaxParallel = max(cfg.Limits.MaxParallel, 1)
	if cfg.NewID == nil {
		cfg.NewID = task.NewID
	}
	slots := limits.NewSlots(cfg.Limits.MaxParallel)
	s := &Supervisor{
		cfg: cfg, slots: slots, budget: limits.NewBudget(cfg.Limits.Limits),
		machine:   limits.NewMachine(slots, cfg.FaultWait, cfg.Notes),
		lead:      min(cfg.Limits.MaxParallel, 2*runtime.NumCPU()),
		agents:    &ceiling.Agents{Registry: cfg.Agents},
		finishing: make(chan struct{}, maxFinishing),
	}
	if cfg.Paths != nil && cfg.Plan != access.Off {
		s.leases = &access.Tree{}
	}
	return s
}

// top returns the handle that starts job zero or the tasks of a batch. It has no agent. What it
// starts ends before the deadline of ctx.
func (s *Supervisor) top(ctx context.Context) *handle {
	h := &handle{s: s, job: task.Job{Depth: s.cfg.Depth}}
	h.latest, _ = ctx.Deadline()
	return h
}

// ErrCancelled is the cause with which a task is cancelled by a person or an agent. Users and scripts rely on its text.
var ErrCancelled = &task.Error{Status: task.Cancelled, Problem: "Sub-agent cancelled by user."}

// Check returns what is wrong with t, such as an agent that does not exist, or nil. It starts
// nothing.
func (s *Supervisor) Check(t task.Task) error {
	if err := ceiling.Check(t); err != nil {
		return err
	}
	_, err := s.agents.Lookup(t.Normalized().Agent)
	return err
}

// Run runs t as job zero, with the agent of this process. l launches the job, and session is the id
// of its transcript. The job has the clocks, the record and the Parent of any other job, but takes
// no slot. A ChildTimeout that is only a default does not limit it. It ends with ctx, and its
// children end before the deadline of ctx. An error says that the job could not be recorded. If the
// status of the result is empty as well, the job was not started because of this error.
func (s *Supervisor) Run(ctx context.Context, t task.Task, session string, l Launcher) (task.Result, error) {
	job := task.Job{Task: t, ExecutionID: s.cfg.ID, Depth: s.cfg.Depth, Session: session, Queued: time.Now()}
	z := &single{launcher: l}
	x := s.top(ctx).newExecution(ctx, job, z)
	x.loan = limits.NoSlot()
	x.run(l)
	return z.result, z.err
}

// Concluder is a [Launcher] for [Supervisor.Run] that completes the result of job zero before it is
// recorded, for example with the signal that ended the program.
type Concluder interface {
	Launcher
	Conclude(r *task.Result)
}

// single is the owner of job zero. It keeps the result for Run.
type single struct {
	launcher Launcher
	result   task.Result
	err      error
}

func (o *single) ended(r *task.Result) {
	if c, ok := o.launcher.(Concluder); ok {
		c.Conclude(r)
	}
}

func (o *single) file(r task.Result, err error) {
	if o.err = err; r.Attempts > 0 { // else nothing began
		o.result = r
	}
}

// Batch runs the tasks of b and returns when all have ended. Each task gets one result, even one
// that never started. The error is that of b.Results, of the stream of tasks or of the Recorder.
// When the Recorder fails, no further task starts, but the results of all tasks are still
// delivered. Each task ends before the deadline of ctx.
func (s *Supervisor) Batch(ctx context.Context, b Batch) error {
	s.cfg.Events.Emit(event.Event{Type: event.BatchStart, BatchID: b.ID, Depth: s.cfg.Depth, Count: b.Count})
	counted := &order.Counting{Results: b.Results}
	b.Results = counted
	err := s.top(ctx).batch(ctx, b, false)
	s.cfg.Events.Emit(event.Event{
		Type: event.BatchComplete, BatchID: b.ID, Depth: s.cfg.Depth, Count: counted.All, FailedTasks: counted.Failed,
	})
	return err
}

// LimitReached returns the first limit of the whole tree that kept an agent from starting a child,
// or "" if none did.
func (s *Supervisor) LimitReached() string { return s.budget.Reached() }

// Jobs returns the jobs that have not ended. Parents come before the jobs that they started. Of a
// batch, it has the tasks that run and those that are next, because the others are not read yet.
func (s *Supervisor) Jobs() []jobs.Job { return s.jobs.List() }

// Cancel ends the job with that execution id together with its descendants. A job that waits for
// its slot is not started any more. It returns false if there is no such job.
func (s *Supervisor) Cancel(executionID string) bool { return s.jobs.Cancel(executionID, ErrCancelled) }

// Live is the table of the jobs that have not ended.
func (s *Supervisor) Live() *jobs.Table { return &s.jobs }

// Slots are the slots of the tree: how many jobs may be at work at once, and whether more may start.
func (s *Supervisor) Slots() *limits.Slots { return s.slots }

// Agent returns the definition of the agent with that name, registered or temporary.
func (s *Supervisor) Agent(name string) (agents.Agent, error) { return s.agents.Agent(name) }

// refusal returns the result of a task whose model server refuses requests for some time, or nil if
// the task can be tried.
func (s *Supervisor) refusal(t task.Task) *task.Result {
	if s.cfg.Gate == nil {
		return nil
	}
	err := s.cfg.Gate.Refusal(t)
	if err == nil {
		return nil
	}
	r := t.Normalized().Fail(err)
	if e, ok := errors.AsType[*llm.Error](err); ok && e.Kind == llm.Quota { // it runs when the batch is continued
		r.End(task.Cancelled, "not started: "+err.Error())
	} else if r.Status == task.Failed {
		r.End(task.Unavailable, err.Error())
	}
	return &r
}
