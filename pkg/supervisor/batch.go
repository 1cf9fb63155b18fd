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
	"qq/pkg/supervisor/access"
	"qq/pkg/supervisor/halt"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/supervisor/limits"
	"qq/pkg/supervisor/needs"
	"qq/pkg/supervisor/order"
	"qq/pkg/supervisor/plan"
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

	// Plan is the plan of the tasks, which are all read before the first one starts; nil starts them as they come.
	// Needs and priorities only count with a plan.
	Plan *plan.Plan

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
	begun   time.Time
	// expected are the tasks that were listed before they are accepted, in input order; nil for most batches.
	expected *jobs.Expected
	agenda   plan.Tasks
	cancel   context.CancelCauseFunc
	wake     chan struct{} // gets one when a task may start that could not
	wg       sync.WaitGroup
	// ending is held from the time at which a task that has ended frees others until it is known whether it halts the
	// batch.
	ending sync.Mutex

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

// ended implements owner. A task that is not to be run again lets others start, or keeps them from it.
func (t batchTask) ended(r *task.Result) {
	t.ending.Lock()
	skipped := t.agenda.End(t.index, *r)
	t.batch.ended(r)
	t.ending.Unlock()
	t.freed(skipped)
}

// file implements owner: it stores the result in the batch and delivers the results that are due.
func (t batchTask) file(r task.Result, err error) { t.end(t.index, r, err) }

// delegate runs tasks for the agent of h and returns their results in input order. planned is their plan, see
// [handle.plan]. group is the id that they have in common in events, if any. While the agent waits for them, other
// jobs may use its slot.
func (h *handle) delegate(ctx context.Context, tasks []task.Task, planned *plan.Plan, group string) []task.Result {
	all := &awaited{order.Gathered{List: make([]task.Result, 0, len(tasks))}, h}
	b := Batch{Results: all, Tasks: Tasks(tasks...), Plan: planned, group: group}
	h.tally.Begin(tasks[0].Part, len(tasks))
	h.pause(ctx, func() { _ = h.batch(ctx, b, true) }) // what could not be recorded says so in its result
	return all.List
}

// awaited are the results of a delegation of the agent by. How many there are is told.
type awaited struct {
	order.Gathered
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
	b := &batch{Batch: given, from: h, byAgent: byAgent, cancel: cancel, wake: make(chan struct{}, 1)}
	b.begun = time.Now()
	b.expect(ctx)
	b.ordered.Spill = given.Spill
	var stop func()
	var err error
	if b.agenda, stop, err = plan.Open(given.Plan, given.Tasks); err != nil {
		return err
	}
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
	err = b.feed(ctx, starting)
	stopStarting()
	b.wg.Wait()
	return errors.Join(err, b.err, b.broken)
}

// expect lists the planned tasks of an agent. Those that a person plans may be many: the progress of the batch counts
// them.
func (b *batch) expect(ctx context.Context) {
	if !b.byAgent || b.Plan == nil {
		return
	}
	b.expected = b.from.s.jobs.Expect()
	for t := range b.Tasks { // a list: it has no errors
		job := b.from.newJob(ctx, t)
		job.Group = b.group
		b.expected.Add(ctx, job)
	}
}

// feed starts the tasks of the batch in order, each as soon as it has a slot and its lease. It returns when no task is
// left or a result could not be delivered. Once starting is done, each remaining task gets a result that says why it
// was not started. The error is that of the stream.
func (b *batch) feed(ctx, starting context.Context) error {
	f := &feeder{batch: b, ctx: ctx, starting: starting, kept: map[int]*queued{}}
	defer f.discard()
	for !b.undeliverable() {
		if starting.Err() != nil {
			b.agenda.Release()
		}
		switch {
		case len(f.ahead) > 0 || f.take() != nil:
			f.turn()
		case !b.agenda.Left():
			return b.agenda.Err()
		default:
			f.sleep(0)
		}
	}
	return b.agenda.Err()
}

// feeder starts the tasks of a batch in order. While the first task waits for a slot, feeder stages
// processes for this task and for some after it. If several slots become free at once, these tasks
// can then start without waiting for new processes.
type feeder struct {
	*batch
	ctx, starting context.Context
	kept          map[int]*queued // tasks that were accepted and have not started
	ahead         []*queued       // those of them that were taken from the agenda, in order
}

// queued is a task that waits for a slot.
type queued struct {
	x      *execution
	staged Staged // nil if no process was staged for it
}

// take takes the next task from the agenda and appends it to ahead. A task that needs no slot gets its result at once.
// take returns nil if no task can start now.
func (f *feeder) take() *queued {
	for !f.undeliverable() {
		i, ok := f.agenda.Next()
		if !ok {
			break
		}
		r := f.kept[i]
		if r == nil {
			if r = f.accept(i, f.from.s.agents.Resolved(f.agenda.Task(i))); r == nil {
				continue
			}
			f.kept[i] = r
		}
		f.ahead = append(f.ahead, r)
		return r
	}
	return nil
}

// accept lets the task at index i wait for its slot. It returns nil if the task needs none.
func (f *feeder) accept(i int, t task.Task) *queued {
	res := f.withoutSlot(f.ctx, f.starting, i, &t)
	if res != nil {
		f.end(i, *res, nil)
		return nil
	}
	job := f.from.newJob(f.ctx, t)
	job.BatchID, job.Group, job.Index = f.ID, f.group, i
	if f.Plan != nil {
		job.Queued = f.begun // time that it waits for other tasks is time in a queue
	}
	ctx := f.expected.Accept(f.ctx, &job)
	return &queued{x: f.from.newExecution(ctx, job, batchTask{f.batch, i})}
}

// leave forgets a task that starts or has ended.
func (f *feeder) leave(r *queued) {
	delete(f.kept, r.x.job.Index)
	f.ahead = slices.DeleteFunc(f.ahead, func(o *queued) bool { return o == r })
}

// refuse ends a task that is not started because it was cancelled, or because no task starts any more.
func (f *feeder) refuse(r *queued) {
	f.leave(r)
	r.discard(f.from.s)
	f.end(r.x.job.Index, f.notStarted(f.ctx, r.x), nil)
}

// turn takes a slot and starts the task that comes first and that can start, or waits until one may. If the first task
// is not to start any more, it gets its result.
func (f *feeder) turn() {
	first := f.ahead[0]
	if f.slot(first.x) != nil {
		if !f.undeliverable() {
			f.refuse(first)
		}
		return
	}
	next, wait := f.pick()
	if f.halted() {
		next = nil
	}
	if next != nil && f.Pace != nil {
		wait = f.Pace.Next()
	}
	if next != nil && wait <= 0 {
		f.leave(next)
		f.run(next)
		return
	}
	f.from.s.slots.Release() // others may use it before
	if next != nil {
		f.forgo()
	}
	f.sleep(wait)
}

// forgo lets others have the leases of tasks that could start: what the pace waits for may need them. Tasks that wait
// for their leases keep their places, but those that get them now forgo them too.
func (f *feeder) forgo() {
	for again := true; again; {
		again = false
		for _, r := range f.kept {
			if l := r.x.lease; l != nil && l.Granted() {
				r.x.forgo()
				again = true
			}
		}
	}
}

// halted reports whether no task may start any more. What was picked before may have been freed by a task that halts
// the batch.
func (f *feeder) halted() bool {
	f.ending.Lock()
	defer f.ending.Unlock()
	return f.starting.Err() != nil
}

// maxPassed is how many tasks are passed over while their servers keep requests waiting, or while they wait for their
// leases.
const maxPassed = 1000

// pick returns the task that comes first of those that need not wait for their servers and have their leases. If there
// is none, it returns how long to wait; 0 is until something has changed.
func (f *feeder) pick() (next *queued, wait time.Duration) {
	for _, r := range slices.Backward(f.ahead) {
		f.agenda.Return(r.x.job.Index)
	}
	f.ahead = f.ahead[:0]
	for range maxPassed {
		r := f.take()
		if r == nil {
			break
		}
		if ready := f.ready(r); ready > 0 {
			r.x.forgo()
			wait = min(ready, cmp.Or(wait, ready), time.Second) // the server may change before
		} else if r.x.ctx.Err() != nil || r.x.ask(f.apart(), f.wake).Granted() {
			return r, 0
		}
	}
	return nil, wait
}

// ready returns how long a task that waits for a slot should wait for its server.
func (f *feeder) ready(r *queued) time.Duration {
	if f.byAgent || f.from.s.cfg.Gate == nil || r.x.ctx.Err() != nil {
		return 0
	}
	return f.from.s.cfg.Gate.Ready(r.x.job.Task)
}

// apart returns the group of the leases of the tasks. Those that a person lists without saying what they touch are not
// held apart from each other.
func (b *batch) apart() string {
	if b.byAgent || b.from.s.cfg.Plan == access.Strict || b.Plan != nil && !b.Plan.Together() {
		return ""
	}
	return "unplanned " + b.ID
}

// sleep waits until a task has ended, has its lease or was cancelled, until no task may start any more, or for the
// time wait, if that is not 0.
func (f *feeder) sleep(wait time.Duration) {
	var late <-chan time.Time
	if wait > 0 {
		late = time.After(wait)
	}
	for _, r := range f.ahead {
		defer context.AfterFunc(r.x.ctx, f.poke)()
	}
	select {
	case <-late:
	case <-f.wake:
	case <-f.starting.Done():
	}
}

// poke wakes the feeder.
func (b *batch) poke() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// freed gives tasks that are skipped their results, and wakes the feeder: others may start.
func (b *batch) freed(skipped []task.Result) {
	for _, r := range skipped {
		b.end(r.Index, r, nil)
	}
	if b.Plan != nil {
		b.poke()
	}
}

// slot takes a slot for the first task in ahead, and waits if none is free. Before it waits, it
// stages processes for that task and for some after it. The error says that the task was cancelled,
// or that no task may start any more.
func (f *feeder) slot(first *execution) error {
	s := f.from.s
	for k, passed := 0, 0; f.starting.Err() == nil && first.ctx.Err() == nil; k++ {
		if s.slots.Try() {
			return nil
		}
		if k == len(f.ahead) && k-passed < s.lead && passed < maxPassed {
			f.take()
		}
		if k >= len(f.ahead) {
			break
		}
		if r := f.ahead[k]; f.ready(r) > 0 || !r.x.lease.Granted() {
			passed++
		} else if !r.stage(s) {
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
	for _, r := range f.kept {
		r.discard(f.from.s)
	}
}

// run starts a task that has a slot. If the task was cancelled or its model server refuses requests
// by now, the task is not started: it gets a result that says so, and the slot becomes free.
func (f *feeder) run(r *queued) {
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
	f.wg.Go(func() { r.x.run(launcher) })
}

// withoutSlot returns the result of a task that needs no slot, because its result is known or
// because it is refused. nil means that the task needs a slot. It puts the results into t that t needs.
func (b *batch) withoutSlot(ctx, starting context.Context, index int, t *task.Task) *task.Result {
	filled, err := needs.Fill(*t, b.agenda.Needed(index), b.from.s.cfg.Limits.MaxOutput)
	if err != nil && starting.Err() == nil {
		res := t.Fail(err)
		return &res
	}
	if err == nil { // else it does not start anyway
		*t = filled
		if b.Past != nil {
			if res, ok := b.Past.Known(ctx, index, *t); ok {
				return &res
			}
		}
	}
	if starting.Err() != nil {
		return nil
	}
	if res := b.refusal(*t); res != nil {
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
