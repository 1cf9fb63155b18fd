package supervisor

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"qq/pkg/task"
)

// Batch says how a stream of tasks is run.
type Batch struct {
	ID    string
	Tasks iter.Seq2[task.Task, error]
	// Count is how many tasks those are, where that is known: for those who look on.
	Count int
	// Deliver gets each result in input order, one at a time. An error of it
	// ends the batch: nobody takes the results any more.
	Deliver func(task.Result) error
	// Done is told of each end at once, in the order of the ends; it may be nil.
	Done func(task.Result)
	// Halt says after how many failures to stop.
	Halt Halt
	// Stop, when closed, lets no further task start; those that run go on.
	Stop <-chan struct{}
	// Shelf keeps large results that must wait for slower ones before them; nil
	// keeps them in memory.
	Shelf Shelf
	// Known is asked about each task before anything else. A result that it knows
	// is filed, and nothing is started or recorded; nil knows none.
	Known func(index int, t task.Task) (task.Result, bool)
	// Refuse is asked when it is the turn of a task, before that waits for a slot and
	// after.
	// A result that it returns is filed, and nothing is started or recorded; nil
	// refuses none.
	Refuse func(task.Task) *task.Result
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

// run is one Batch under way.
type run struct {
	Batch
	sc      *Scope
	byAgent bool
	cancel  context.CancelCauseFunc
	wg      sync.WaitGroup

	mu           sync.Mutex
	ordered      ordered
	ended        int
	failed       int
	err          error // of Deliver
	unrecorded   error // of the Recorder
	halted       bool
	stopStarting context.CancelFunc
}

// Run runs the tasks of b and returns when all have ended: each task gets one
// result, also those that never started. It returns the error of b.Deliver, or
// that of the stream of tasks. An error of the Recorder lets no further task start,
// and is returned when all that ran are delivered.
func (sc *Scope) Run(ctx context.Context, b Batch) error { return sc.start(ctx, b, false) }

// Delegate runs tasks on behalf of the agent of sc, which waits for them: its
// slot is lent meanwhile.
func (sc *Scope) Delegate(ctx context.Context, tasks []task.Task) []task.Result {
	results := make([]task.Result, 0, len(tasks))
	b := Batch{
		Tasks: func(yield func(task.Task, error) bool) {
			for _, t := range tasks {
				if !yield(t, nil) {
					return
				}
			}
		},
		Deliver: func(r task.Result) error {
			results = append(results, r)
			return nil
		},
	}
	sc.pause(ctx, func() { _ = sc.start(ctx, b, true) }) // what could not be recorded says so in its result
	return results
}

func (sc *Scope) start(ctx context.Context, b Batch, byAgent bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &run{Batch: b, sc: sc, byAgent: byAgent, cancel: cancel}
	r.ordered.shelf = b.Shelf
	next, stop := iter.Pull2(b.Tasks)
	defer stop()
	starting, stopStarting := context.WithCancel(ctx)
	defer stopStarting()
	r.stopStarting = stopStarting
	if b.Stop != nil {
		r.wg.Go(func() {
			select {
			case <-b.Stop:
				stopStarting()
			case <-starting.Done():
			}
		})
	}
	err := r.feed(ctx, starting, next)
	stopStarting()
	r.wg.Wait()
	return errors.Join(err, r.err, r.unrecorded)
}

// feed gives each free slot the next task until there is none. When starting is
// done, no more are started.
func (r *run) feed(ctx, starting context.Context, next func() (task.Task, error, bool)) error {
	for index := 0; ; index++ {
		t, err, ok := next()
		if err != nil || !ok {
			return err
		}
		if r.undeliverable() {
			return nil
		}
		t = t.Normalized()
		if res := r.withoutSlot(starting, index, t); res != nil {
			r.end(index, *res, nil)
			continue
		}
		queuedAt := time.Now()
		job := r.sc.newJob(t)
		job.BatchID, job.Index = r.ID, index
		launcher, noSlot := r.slot(starting, job)
		if noSlot != nil && r.undeliverable() {
			return nil
		}
		if noSlot != nil {
			r.end(index, r.notStarted(ctx, t), nil)
			continue
		}
		if res := r.refused(t); res != nil { // things have changed since it was asked first
			if staged, ok := launcher.(Staged); ok {
				staged.Discard()
			}
			r.sc.s.slots.release()
			r.end(index, *res, nil)
			continue
		}
		w := r.sc.newWork(job, r.count, func(res task.Result, err error) { r.end(index, res, err) })
		w.refused = r.Refuse
		r.wg.Go(func() { w.perform(ctx, launcher, time.Since(queuedAt)) })
	}
}

// withoutSlot is the result of a task that needs no slot for it, or nil.
func (r *run) withoutSlot(starting context.Context, index int, t task.Task) *task.Result {
	if r.Known != nil {
		if res, ok := r.Known(index, t); ok {
			return &res
		}
	}
	if starting.Err() != nil {
		return nil
	}
	if res := r.refused(t); res != nil {
		return res
	}
	if refusal := r.sc.admit(r.byAgent && !t.Part); refusal != "" {
		res := t.Ended(task.Limit, refusal)
		return &res
	}
	return nil
}

// refused is the result of a task that need not be tried, or nil.
func (r *run) refused(t task.Task) *task.Result {
	if r.Refuse == nil {
		return nil
	}
	return r.Refuse(t)
}

// slot waits for a slot and returns what launches job in it. While it waits, a
// process is made ready for the job, so that a slot that becomes free is put to
// use at once; of those there is one in the tree.
func (r *run) slot(starting context.Context, job task.Job) (Launcher, error) {
	s := r.sc.s
	if err := starting.Err(); err != nil {
		return nil, err
	}
	if s.slots.try() {
		return s.cfg.Launcher, nil
	}
	var staged Staged
	if stager, ok := s.cfg.Launcher.(Stager); ok && s.staging.CompareAndSwap(false, true) {
		defer s.staging.Store(false)
		staged = stager.Stage(job)
	}
	err := s.slots.acquire(starting, false, job.Depth)
	switch {
	case staged == nil:
		return s.cfg.Launcher, err
	case err != nil:
		staged.Discard()
		return nil, err
	}
	return staged, nil
}

// notStarted is the result of a task that got no slot any more.
func (r *run) notStarted(ctx context.Context, t task.Task) task.Result {
	why := "not started: "
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		why += context.Cause(ctx).Error()
	case r.halted:
		why += ErrHalted.Error()
	case r.unrecorded != nil:
		why += r.unrecorded.Error()
	default:
		why += "stopped"
	}
	return t.Ended(task.Cancelled, why)
}

func (r *run) undeliverable() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err != nil
}
