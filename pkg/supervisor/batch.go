package supervisor

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"qq/pkg/supervisor/limits"
	"qq/pkg/task"
)

// Batch says how a stream of tasks is run. Only Tasks and Results must be set.
type Batch struct {
	ID    string                      // is in each result and event
	Tasks iter.Seq2[task.Task, error] // [Tasks] makes them from a list
	// Count is how many tasks there are, where that is known. It is only shown.
	Count   int
	Results Results
	// Halt says after how many failures to stop.
	Halt Halt
	// Stop, when closed, lets no further task start; those that run continue.
	Stop <-chan struct{}
	// Spill keeps large results that must wait for slower ones before them; nil keeps
	// them in memory.
	Spill Spill
	// Past is asked about each task before anything else; nil knows none.
	Past Past
}

// Tasks is a stream of the tasks in list.
func Tasks(list ...task.Task) iter.Seq2[task.Task, error] {
	return func(yield func(task.Task, error) bool) {
		for _, t := range list {
			if !yield(t, nil) {
				return
			}
		}
	}
}

// Results takes the results of a batch.
type Results interface {
	// Deliver gets each result in input order, one at a time. Its error ends the batch.
	Deliver(r task.Result) error
	// Done gets each result as soon as its task has ended, in that order.
	Done(r task.Result)
}

// Past knows results from before.
type Past interface {
	// Known returns the result of the task at index if there is one: nothing is started
	// or recorded then.
	Known(ctx context.Context, index int, t task.Task) (task.Result, bool)
}

// Halt is a policy for failures in a batch. The zero Halt never halts.
type Halt struct {
	Now     bool    // end running tasks too, not only start no more
	Fail    int     // failures that halt; 0 is never
	Percent float64 // share of failures among those that ended, in percent; 0 is never
}

// reached reports whether failed of ended tasks are too many. A share is not
// judged before ten tasks have ended.
func (h Halt) reached(failed, ended int) bool {
	if h.Fail > 0 && failed >= h.Fail {
		return true
	}
	return h.Percent > 0 && ended >= 10 && float64(failed)*100 >= h.Percent*float64(ended)
}

// batch is one Batch under way.
type batch struct {
	Batch
	from    *handle
	byAgent bool
	cancel  context.CancelCauseFunc
	wg      sync.WaitGroup

	mu           sync.Mutex
	ordered      ordered
	endedTasks   int
	failed       int
	err          error // of Deliver
	unrecorded   error // of the Recorder
	halted       bool
	stopStarting context.CancelFunc
}

// batchTask is the owner of one task of a batch.
type batchTask struct {
	*batch
	index int
}

// refusal implements owner.
func (t batchTask) refusal(of task.Task) *task.Result { return t.batch.refusal(of) }

// waitsForServer implements patient: nobody waits for the answer of one task.
func (t batchTask) waitsForServer() bool { return !t.byAgent && t.from.s.cfg.Gate != nil }

// file implements owner.
func (t batchTask) file(r task.Result, err error) { t.end(t.index, r, err) }

// delegate runs tasks on behalf of the agent, which waits for them: its slot is lent
// meanwhile.
func (h *handle) delegate(ctx context.Context, tasks []task.Task) []task.Result {
	all := &gathered{results: make([]task.Result, 0, len(tasks))}
	b := Batch{Results: all, Tasks: Tasks(tasks...)}
	h.pause(ctx, func() { _ = h.batch(ctx, b, true) }) // what could not be recorded says so in its result
	return all.results
}

// gathered are the results of a delegation.
type gathered struct{ results []task.Result }

// Deliver implements Results.
func (g *gathered) Deliver(r task.Result) error {
	g.results = append(g.results, r)
	return nil
}

// Done implements Results.
func (g *gathered) Done(task.Result) {}

func (h *handle) batch(ctx context.Context, given Batch, byAgent bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b := &batch{Batch: given, from: h, byAgent: byAgent, cancel: cancel}
	b.ordered.spill = given.Spill
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
	return errors.Join(err, b.err, b.unrecorded)
}

// feed gives each free slot the next task until there is none. When starting is
// done, no more are started.
func (b *batch) feed(ctx, starting context.Context, next func() (task.Task, error, bool)) error {
	f := &feeder{batch: b, ctx: ctx, starting: starting, next: next}
	defer f.discard()
	for {
		f.pull()
		if len(f.ahead) == 0 || b.undeliverable() {
			return f.err
		}
		noSlot := f.slot()
		if noSlot != nil && b.undeliverable() {
			return f.err
		}
		head := f.ahead[0]
		f.ahead = f.ahead[1:]
		if noSlot != nil {
			head.discard(b.from.s)
			b.end(head.x.job.Index, b.notStarted(ctx, head.x.job.Task), nil)
			continue
		}
		f.run(head)
	}
}

// feeder hands the tasks of a batch to slots, in order. While the first waits for a
// slot, processes are made ready for it and for some after it, so that slots that
// become free at once are put to use at once.
type feeder struct {
	*batch
	ctx, starting context.Context
	next          func() (task.Task, error, bool)
	index         int      // of the next task
	ahead         []queued // tasks that wait for a slot, in order
	done          bool     // the stream of tasks
	err           error    // of the stream
}

// queued is a task that needs a slot.
type queued struct {
	x        *execution
	staged   Staged // nil when nothing was made ready
	queuedAt time.Time
}

// pull adds the next task that needs a slot, if ahead is empty.
func (f *feeder) pull() {
	for len(f.ahead) == 0 && !f.done && !f.undeliverable() {
		f.take()
	}
}

// take takes one task from the stream.
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
	job := f.from.newJob(t)
	job.BatchID, job.Index = f.ID, index
	f.ahead = append(f.ahead, queued{x: f.from.newExecution(job, batchTask{f.batch, index}), queuedAt: time.Now()})
}

// slot waits for a slot for the first task, and makes others ready meanwhile.
func (f *feeder) slot() error {
	s := f.from.s
	for k := 0; f.starting.Err() == nil; k++ {
		if s.slots.Try() {
			return nil
		}
		if k == len(f.ahead) && !f.done && k < s.lead {
			f.take()
		}
		if k >= len(f.ahead) || !f.ahead[k].stage(s) {
			break
		}
	}
	return s.slots.Acquire(f.starting, false, f.ahead[0].x.job.Depth)
}

// stage gets ready for a task, unless there are enough in the tree for which that was
// done. Nothing is got ready for an agent that does not exist.
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

// discard ends what was made ready.
func (r *queued) discard(s *Supervisor) {
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

// run runs a task that has a slot, unless it need not be tried any more.
func (f *feeder) run(r queued) {
	s := f.from.s
	if res := f.refusal(r.x.job.Task); res != nil { // things have changed since it was asked first
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
	f.wg.Go(func() { r.x.run(f.ctx, launcher, time.Since(r.queuedAt)) })
}

// withoutSlot is the result of a task that needs no slot for it, or nil.
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

// refusal is the result of a task that need not be tried, else nil. An agent decides
// for itself what to do without its server.
func (b *batch) refusal(t task.Task) *task.Result {
	if b.byAgent {
		return nil
	}
	return b.from.s.refusal(t)
}

// notStarted is the result of a task that got no slot any more.
func (b *batch) notStarted(ctx context.Context, t task.Task) task.Result {
	why := "not started: "
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		why += context.Cause(ctx).Error()
	case b.halted:
		why += ErrHalted.Error()
	case b.unrecorded != nil:
		why += b.unrecorded.Error()
	default:
		why += "stopped"
	}
	return t.Ended(task.Cancelled, why)
}

func (b *batch) undeliverable() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err != nil
}
