package supervisor

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"qq/pkg/event"
	"qq/pkg/supervisor/halt"
	"qq/pkg/supervisor/limits"
	"qq/pkg/supervisor/order"
	"qq/pkg/task"
)

// Batch is a stream of tasks to run, and how to run them. Only Tasks and Results must be set.
type Batch struct {
	ID    string                      // included in each result and event
	Tasks iter.Seq2[task.Task, error] // the function [Tasks] makes one from a list
	// Count is the number of tasks, or 0 if it is not known. It only appears in an event.
	Count   int
	Results Results
	// Halt says when the batch ends early; nil means never.
	Halt *halt.Halt
	// Pace delays the start of tasks; nil starts each task as soon as it has a slot.
	Pace Pace
	// Stop can be closed to stop the batch: no further task starts, and the running ones continue.
	// nil means that the batch cannot be stopped in this way.
	Stop <-chan struct{}
	// Spill stores results that must wait for slower ones before them when they would take too much
	// memory; nil keeps all results in memory.
	Spill order.Spill
	// Past is asked for the result of each task before the task is started; nil means that no
	// results are known.
	Past Past

	group string // see [task.Job.Group]
}

// Tasks returns a stream of the tasks in list, for the field Tasks of a [Batch].
func Tasks(list ...task.Task) iter.Seq2[task.Task, error] {
	return func(yield func(task.Task, error) bool) {
		for _, t := range list {
			if !yield(t, nil) {
				return
			}
		}
	}
}

// Results receives the results of a batch. Its methods are called by one goroutine at a time.
type Results interface {
	// Deliver receives the results in input order. On error, the batch is cancelled and no further
	// result is delivered.
	Deliver(r task.Result) error
	// Done receives each result as soon as its task has ended, in the order in which tasks end.
	Done(r task.Result)
}

// Pace says when the next task of a batch may start.
type Pace interface {
	// Next returns how long to wait before it is called again. 0 means that a task may start now, and does. One
	// goroutine calls it.
	Next() time.Duration
}

// Past finds the results of tasks that were run before.
type Past interface {
	// Known returns the result of the task at index. false means that no result is known, and the
	// task is run. With true, nothing is started or recorded for the task.
	Known(ctx context.Context, index int, t task.Task) (task.Result, bool)
}

// batch is the state of one running Batch.
type batch struct {
	Batch
	from    *handle
	byAgent bool
	cancel  context.CancelCauseFunc
	wg      sync.WaitGroup

	mu           sync.Mutex
	ordered      order.Results
	err          error // of Deliver, or of the Spill
	broken       error // the first of the Recorder, or why the machine starts no task
	stopStarting context.CancelFunc
}

// batchTask is one task of a batch. It is the owner of the execution of that task.
type batchTask struct {
	*batch
	index int
}

// refusal implements patient.
func (t batchTask) refusal(of task.Task) *task.Result { return t.batch.refusal(of) }

// waitsForServer implements patient. It returns true for a task that comes from a person, not from
// an agent: nobody waits for this one answer, so the task can wait until its model server is back.
// Without a Gate it returns false.
func (t batchTask) waitsForServer() bool { return !t.byAgent && t.from.s.cfg.Gate != nil }

// file implements owner: it stores the result in the batch and delivers the results that are due.
func (t batchTask) file(r task.Result, err error) { t.end(t.index, r, err) }

// delegate runs tasks for the agent of h and returns their results in input order. group is the id
// that they have in common in events, if any. While the agent waits for them, other jobs may use its
// slot.
func (h *handle) delegate(ctx context.Context, tasks []task.Task, group string) []task.Result {
	all := &awaited{gathered{make([]task.Result, 0, len(tasks))}, h}
	b := Batch{Results: all, Tasks: Tasks(tasks...), group: group}
	h.tally.Begin(tasks[0].Part, len(tasks))
	h.pause(ctx, func() { _ = h.batch(ctx, b, true) }) // what could not be recorded says so in its result
	return all.results
}

// gathered collects the results of a delegation, in input order.
type gathered struct{ results []task.Result }

// Deliver implements Results.
func (g *gathered) Deliver(r task.Result) error {
	g.results = append(g.results, r)
	return nil
}

// Done implements Results.
func (g *gathered) Done(task.Result) {}

// awaited are the results of a delegation of the agent by. How many there are is told.
type awaited struct {
	gathered
	by *handle
}

// Done implements Results.
func (a *awaited) Done(task.Result) {
	phase := event.PhaseDelegating
	parts, done, total := a.by.tally.End()
	if parts {
		phase = event.PhaseParts
	}
	if total > 1 { // of one task the end says it all
		a.by.phases.Tell(phase, "", done, total)
	}
}

func (h *handle) batch(ctx context.Context, given Batch, byAgent bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b := &batch{Batch: given, from: h, byAgent: byAgent, cancel: cancel}
	b.ordered.Spill = given.Spill
	next, stop := iter.Pull2(given.Tasks)
	defer stop()
	starting, stopStarting := context.WithCancel(ctx)
	defer stopStarting()
	b.stopStarting = stopStarting
	if b.Stop != nil {
		b.wg.Go(func() {
			select {
			case <-b.Stop:
				stopStarting()
			case <-starting.Done():
			}
		})
	}
	err := b.feed(ctx, starting, next)
	stopStarting()
	b.wg.Wait()
	return errors.Join(err, b.err, b.broken)
}

// feed starts the tasks of the batch in order, each as soon as it has a slot. It returns when the
// stream of tasks has ended or a result could not be delivered. Once starting is done, each
// remaining task gets a result that says why it was not started. The error is that of the stream.
func (b *batch) feed(ctx, starting context.Context, next func() (task.Task, error, bool)) error {
	f := &feeder{batch: b, ctx: ctx, starting: starting, next: next}
	defer f.discard()
	for {
		f.pull()
		if len(f.ahead) == 0 || b.undeliverable() {
			return f.err
		}
		noSlot := f.turn()
		if noSlot != nil && b.undeliverable() {
			return f.err
		}
		head := f.ahead[0]
		f.ahead = f.ahead[1:]
		if noSlot != nil {
			head.discard(b.from.s)
			b.end(head.x.job.Index, b.notStarted(ctx, head.x), nil)
			continue
		}
		f.run(head)
	}
}

// feeder starts the tasks of a batch in order. While the first task waits for a slot, feeder stages
// processes for this task and for some after it. If several slots become free at once, these tasks
// can then start without waiting for new processes.
type feeder struct {
	*batch
	ctx, starting context.Context
	next          func() (task.Task, error, bool)
	index         int      // of the next task
	ahead         []queued // tasks that wait for a slot, in order
	done          bool     // the stream of tasks has ended
	err           error    // of the stream
}

// queued is a task that waits for a slot.
type queued struct {
	x        *execution
	staged   Staged // nil if no process was staged for it
	queuedAt time.Time
}

// pull reads tasks from the stream until one of them needs a slot and is in ahead, or until the
// stream has ended. If ahead already contains a task, pull does nothing.
func (f *feeder) pull() {
	for len(f.ahead) == 0 && !f.done && !f.undeliverable() {
		f.take()
	}
}

// take reads one task from the stream. A task that needs no slot gets its result at once. Any other
// task is appended to ahead.
func (f *feeder) take() {
	t, err, ok := f.next()
	if err != nil || !ok {
		f.done, f.err = true, err
		return
	}
	index := f.index
	f.index++
	t = f.from.s.resolved(t)
	if res := f.withoutSlot(f.ctx, f.starting, index, t); res != nil {
		f.end(index, *res, nil)
		return
	}
	job := f.from.newJob(f.ctx, t)
	job.BatchID, job.Group, job.Index = f.ID, f.group, index
	x := f.from.newExecution(f.ctx, job, batchTask{f.batch, index})
	f.ahead = append(f.ahead, queued{x: x, queuedAt: time.Now()})
}

// maxPassed is how many tasks are passed over while their servers keep requests waiting.
const maxPassed = 1000

// choose puts the first task in front that need not wait for its server, and returns how long to wait if there is none.
func (f *feeder) choose() (wait time.Duration) {
	for k := 0; k < maxPassed; k++ {
		for k == len(f.ahead) && !f.done && !f.undeliverable() {
			f.take()
		}
		if k == len(f.ahead) {
			break
		}
		first := f.ahead[k]
		ready := f.ready(first)
		if ready <= 0 {
			f.ahead = slices.Insert(slices.Delete(f.ahead, k, k+1), 0, first)
			return 0
		}
		wait = min(ready, cmp.Or(wait, ready), time.Second) // the server may change before
	}
	return wait
}

// ready returns how long a task that waits for a slot should wait for its server.
func (f *feeder) ready(r queued) time.Duration {
	if f.byAgent || f.from.s.cfg.Gate == nil || r.x.ctx.Err() != nil {
		return 0
	}
	return f.from.s.cfg.Gate.Ready(r.x.job.Task)
}

// turn takes a slot for the first task that need not wait for its server, as slot does, when the Pace of the batch lets
// that task start. It puts that task in front. Others may use the slot before.
func (f *feeder) turn() error {
	for {
		if err := f.slot(); err != nil {
			return err
		}
		wait := f.choose()
		if wait <= 0 && f.Pace != nil {
			wait = f.Pace.Next()
		}
		if wait <= 0 {
			return nil
		}
		f.from.s.slots.Release()
		select {
		case <-time.After(wait):
		case <-f.starting.Done():
		case <-f.ahead[0].x.ctx.Done():
		}
	}
}

// slot takes a slot for the first task in ahead, and waits if none is free. Before it waits, it
// stages processes for that task and for some after it. The error says that the task was cancelled,
// or that no task may start any more.
func (f *feeder) slot() error {
	s, first := f.from.s, f.ahead[0].x
	for k, passed := 0, 0; f.starting.Err() == nil && first.ctx.Err() == nil; k++ {
		if s.slots.Try() {
			return nil
		}
		if k == len(f.ahead) && !f.done && k-passed < s.lead && passed < maxPassed {
			f.take()
		}
		if k >= len(f.ahead) {
			break
		}
		if f.ready(f.ahead[k]) > 0 {
			passed++
		} else if !f.ahead[k].stage(s) {
			break
		}
	}
	waiting, stop := context.WithCancel(f.starting)
	defer stop()
	defer context.AfterFunc(first.ctx, stop)()
	return s.slots.Acquire(waiting, false, first.job.Depth)
}

// stage starts a process for the task before the task has a slot, and reports whether there is one
// now. It starts none if the launcher cannot stage, if the agent of the task does not exist, or if
// the tree already has as many staged processes as allowed.
func (r *queued) stage(s *Supervisor) bool {
	if r.staged != nil {
		return true
	}
	stager, ok := s.cfg.Launcher.(Stager)
	if _, err := s.Agent(r.x.job.Agent); !ok || err != nil {
		return false
	}
	if int(s.staging.Add(1)) <= s.lead {
		r.staged = stager.Stage(r.x.job)
	}
	if r.staged == nil {
		s.staging.Add(-1)
	}
	return r.staged != nil
}

// discard drops the task, and ends its staged process if there is one.
func (r *queued) discard(s *Supervisor) {
	r.x.drop()
	if r.staged != nil {
		r.staged.Discard()
		s.staging.Add(-1)
	}
}

func (f *feeder) discard() {
	for i := range f.ahead {
		f.ahead[i].discard(f.from.s)
	}
}

// run starts a task that has a slot. If the task was cancelled or its model server refuses requests
// by now, the task is not started: it gets a result that says so, and the slot becomes free.
func (f *feeder) run(r queued) {
	s := f.from.s
	res := r.x.cancelled()
	if res == nil {
		res = f.refusal(r.x.job.Task) // things have changed since it was asked first
	}
	if res != nil {
		r.discard(s)
		s.slots.Release()
		f.end(r.x.job.Index, *res, nil)
		return
	}
	launcher := s.cfg.Launcher
	if r.staged != nil {
		s.staging.Add(-1)
		launcher = r.staged
	}
	r.x.loan = limits.HeldSlot(s.slots)
	f.wg.Go(func() { r.x.run(launcher, time.Since(r.queuedAt)) })
}

// withoutSlot returns the result of a task that needs no slot, because its result is known or
// because it is refused. nil means that the task needs a slot.
func (b *batch) withoutSlot(ctx, starting context.Context, index int, t task.Task) *task.Result {
	if b.Past != nil {
		if res, ok := b.Past.Known(ctx, index, t); ok {
			return &res
		}
	}
	if starting.Err() != nil {
		return nil
	}
	if res := b.refusal(t); res != nil {
		return res
	}
	if refusal := b.from.admit(b.byAgent && !t.Part); refusal != "" {
		res := t.Ended(task.Limit, refusal)
		return &res
	}
	return nil
}

// refusal returns the result of a task whose model server refuses requests for some time, or nil if
// the task can be tried. For a task that an agent delegates it is always nil: an agent without its
// server decides itself what to do.
func (b *batch) refusal(t task.Task) *task.Result {
	if b.byAgent {
		return nil
	}
	return b.from.s.refusal(t)
}

// notStarted returns the result of a task that was not started because it was cancelled or because
// the batch ends early. Its error text says why: the batch was cancelled, halted or stopped, or the
// Recorder or the machine failed.
func (b *batch) notStarted(ctx context.Context, x *execution) task.Result {
	if ctx.Err() == nil {
		if r := x.cancelled(); r != nil {
			return *r
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return x.job.Ended(task.Cancelled, halt.NotStarted(context.Cause(ctx), b.Halt.Reason(), b.broken))
}

func (b *batch) undeliverable() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err != nil
}
