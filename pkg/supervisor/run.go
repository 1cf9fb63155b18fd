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
	halted       bool
	stopStarting context.CancelFunc
}

// Run runs the tasks of b and returns when all have ended: each task gets one
// result, also those that never started. It returns the error of b.Deliver, or
// that of the stream of tasks.
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
	sc.pause(ctx, func() { _ = sc.start(ctx, b, true) }) // neither the tasks nor Deliver can fail
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
	return errors.Join(err, r.err)
}

// feed gives each free slot the next task until there is none. When starting is
// done, no more are started.
func (r *run) feed(ctx, starting context.Context, next func() (task.Task, error, bool)) error {
	for index := 0; ; index++ {
		t, err, ok := next()
		if err != nil || !ok {
			return err
		}
		t = t.Normalized()
		if starting.Err() == nil {
			if refusal := r.sc.admit(r.byAgent); refusal != "" {
				r.end(index, t.Ended(task.Limit, refusal))
				continue
			}
		}
		queuedAt := time.Now()
		job := task.Job{Task: t, ExecutionID: r.sc.s.cfg.NewID(), Parent: r.sc.id, BatchID: r.ID, Depth: r.sc.depth + 1}
		launcher, noSlot := r.slot(starting, job)
		if noSlot != nil && r.undeliverable() {
			return nil
		}
		if noSlot != nil {
			r.end(index, r.notStarted(ctx, t))
			continue
		}
		r.wg.Go(func() {
			r.sc.run(ctx, launcher, job, time.Since(queuedAt), func(res task.Result) { r.end(index, res) })
		})
	}
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
	switch cause := context.Cause(ctx); {
	case ctx.Err() == nil && r.isHalted():
		why += ErrHalted.Error()
	case ctx.Err() == nil:
		why += "stopped"
	default:
		why += cause.Error()
	}
	return t.Ended(task.Cancelled, why)
}

func (r *run) undeliverable() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err != nil
}

func (r *run) isHalted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.halted
}

// end files the result of the task at index, delivers what is due, and halts
// the batch when that was one failure too many.
func (r *run) end(index int, res task.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	res.Index = index
	if res.Attempts > 0 {
		r.ended++
		if !res.Success {
			r.failed++
		}
	}
	if r.Done != nil {
		r.Done(res)
	}
	if !r.halted && r.Halt.reached(r.failed, r.ended) {
		r.halted = true
		r.stopStarting()
		if r.Halt.Now {
			r.cancel(ErrHalted)
		}
	}
	r.ordered.put(res)
	for r.err == nil {
		due, ok, err := r.ordered.next()
		if err == nil && !ok {
			return
		}
		if err == nil {
			err = r.Deliver(due)
		}
		if err != nil {
			r.err = err
			r.cancel(err)
		}
	}
}
