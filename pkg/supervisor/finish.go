package supervisor

import (
	"fmt"

	"qq/pkg/supervisor/limits"
	"qq/pkg/task"
)

// maxFinishing is how many results may be written to the record while other jobs use the slots of
// their jobs. A further job keeps its slot until one of these results is recorded.
const maxFinishing = 64

// claim records that the job is about to start. On error the job must not start.
func (x *execution) claim() error {
	rec := x.s.cfg.Record
	if rec == nil {
		return nil
	}
	var tries limits.Tries
	err := rec.Claim(x.job)
	for x.retries(x.ctx, &tries, err) {
		err = rec.Claim(x.job)
	}
	if err != nil {
		return fmt.Errorf("record the start of a task: %w", err)
	}
	return nil
}

// finish records r, announces it and hands it to the owner. The slot becomes free before r is
// recorded, because recording may be slow. What depends on r alone, such as halting a batch, is
// decided before the slot becomes free.
func (x *execution) finish(r task.Result) {
	x.limit(&r)
	x.owner.ended(&r)
	rec := x.s.cfg.Record
	if rec == nil {
		x.finished(r)
		x.owner.file(r, nil)
		return
	}
	x.s.finishing <- struct{}{}
	x.loan.End()
	tries := limits.Tries{NoSlot: true}
	err := rec.Finish(x.job, r)
	for x.retries(x.outer, &tries, err) {
		err = rec.Finish(x.job, r)
	}
	<-x.s.finishing
	if err != nil {
		r.Unrecorded = true
		r.Warnings = append(r.Warnings[:len(r.Warnings):len(r.Warnings)], "not recorded: "+task.Line(err.Error()))
		err = fmt.Errorf("record the result of a task: %w", err)
	}
	x.finished(r) // nobody shall hear of it before it is on record
	x.owner.file(r, err)
}

// limit ends a job that a limit kept from doing all. What could be done without it is there.
func (x *execution) limit(r *task.Result) {
	if why := x.limitReached(); why != "" && r.Success {
		r.End(task.Limit, why)
	}
}

// limitReached returns the limit that kept the agent from starting a child, or "" if none did. For
// job zero it returns a limit that any agent of the tree has reached.
func (x *execution) limitReached() string {
	if why := x.limited.Load(); why != nil && !x.zero() {
		return *why
	}
	if why := x.s.LimitReached(); why != "" && x.zero() {
		return why + "\nhint: raise QQ_MAX_CHILDREN or QQ_SPAWN_RATE; what could be done without is there"
	}
	return ""
}

// ended counts the result of a task that ran, and halts the batch if that is due.
func (b *batch) ended(res *task.Result) {
	if res.Hindered {
		return // it says nothing about the tasks
	}
	if reason := b.Halt.Count(*res); reason != nil {
		b.stopStarting()
		if b.Halt.Now() {
			b.cancel(reason)
		}
	}
}

// end stores the result of the task at index and delivers the results that are due. If broken is not
// nil, the result could not be recorded and no further task starts. The same holds if the machine
// has hindered the task for too long. If a result cannot be delivered, the batch is cancelled.
func (b *batch) end(index int, res task.Result, broken error) {
	b.expected.End(index) // it may have been skipped
	b.freed(b.agenda.End(index, res))
	b.mu.Lock()
	defer b.mu.Unlock()
	res.Index = index
	if broken == nil && res.Hindered && res.Status == task.Unavailable {
		broken = task.Machine("", "%s", res.Err())
	}
	if broken != nil && b.broken == nil {
		b.broken = broken
		b.stopStarting()
	}
	b.Results.Done(res)
	b.ordered.Put(res)
	for b.err == nil {
		due, ok, err := b.ordered.Next()
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
