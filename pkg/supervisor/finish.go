package supervisor

import (
	"fmt"

	"qq/pkg/task"
)

// maxFinishing is how many results may be on their way to the record while their
// slots are used by others. Above that, slots wait for the record.
const maxFinishing = 64

// claim records that the job is about to start.
func (x *execution) claim() error {
	rec := x.s.cfg.Record
	if rec == nil {
		return nil
	}
	if err := rec.Claim(x.job); err != nil {
		return fmt.Errorf("record the start of a task: %w", err)
	}
	return nil
}

// finish records r, announces it and files it. Nobody waits for the record with a
// slot, but what depends on r alone, such as a halt, is decided while the slot is held.
func (x *execution) finish(r task.Result) {
	if why := x.limitReached(); why != "" && r.Success { // what could be done without it is there
		r.End(task.Limit, why)
	}
	x.owner.ended(r)
	rec := x.s.cfg.Record
	if rec == nil {
		x.s.finished(x.job, r)
		x.owner.file(r, nil)
		return
	}
	x.s.finishing <- struct{}{}
	x.loan.End()
	err := rec.Finish(x.job, r)
	<-x.s.finishing
	if err != nil {
		r.Unrecorded = true
		r.Warnings = append(r.Warnings[:len(r.Warnings):len(r.Warnings)], "not recorded: "+err.Error())
		err = fmt.Errorf("record the result of a task: %w", err)
	}
	x.s.finished(x.job, r) // nobody shall hear of it before it is on record
	x.owner.file(r, err)
}

// limitReached is the limit that kept the agent from starting a child, or, for the
// agent of this process, any agent of the tree; empty is none.
func (x *execution) limitReached() string {
	if why := x.limited.Load(); why != nil && !x.zero() {
		return *why
	}
	if why := x.s.LimitReached(); why != "" && x.zero() {
		return why + "\nhint: raise QQ_MAX_CHILDREN or QQ_SPAWN_RATE; what could be done without is there"
	}
	return ""
}

// ended counts the end of a task that ran, and halts the batch when that was one
// failure too many.
func (b *batch) ended(res task.Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.endedTasks++
	if !res.Success {
		b.failed++
	}
	if b.halted || !b.Halt.reached(b.failed, b.endedTasks) {
		return
	}
	b.halted = true
	b.stopStarting()
	if b.Halt.Now {
		b.cancel(ErrHalted)
	}
}

// end files the result of the task at index, and delivers what is due. What cannot be
// recorded ends the batch.
func (b *batch) end(index int, res task.Result, unrecorded error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	res.Index = index
	if unrecorded != nil && b.unrecorded == nil {
		b.unrecorded = unrecorded
		b.stopStarting()
	}
	b.Results.Done(res)
	b.ordered.put(res)
	for b.err == nil {
		due, ok, err := b.ordered.next()
		if err == nil && !ok {
			return
		}
		if err == nil {
			err = b.Results.Deliver(due)
		}
		if err != nil {
			b.err = err
			b.cancel(err)
		}
	}
}
