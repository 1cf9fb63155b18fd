package supervisor

import (
	"fmt"

	"qq/pkg/task"
)

// maxFinishing is how many results may be on their way to the record while their
// slots are used by others. Above that, slots wait for the record.
const maxFinishing = 64

// claim records that the job is about to start.
func (w *work) claim() error {
	rec := w.sc.s.cfg.Recorder
	if rec == nil {
		return nil
	}
	if err := rec.Claim(w.job); err != nil {
		return fmt.Errorf("record the start of a task: %w", err)
	}
	return nil
}

// finish records r, announces it and files it. Nobody waits for the record with a slot, but
// what depends on r alone, such as a halt, is decided while the slot is held.
func (w *work) finish(r task.Result) {
	if why := w.limited.Load(); why != nil && r.Success { // what it could do without is there
		r.End(task.Limit, *why)
	}
	s := w.sc.s
	w.count(r)
	if s.cfg.Recorder == nil {
		w.tell(r)
		w.file(r, nil)
		return
	}
	s.finishing <- struct{}{}
	w.lease.end()
	err := s.cfg.Recorder.Finish(w.job, r)
	<-s.finishing
	if err != nil {
		r.Unrecorded = true
		r.Warnings = append(r.Warnings[:len(r.Warnings):len(r.Warnings)], "not recorded: "+err.Error())
		err = fmt.Errorf("record the result of a task: %w", err)
	}
	w.tell(r)
	w.file(r, err)
}

// tell announces the end of w, which nobody shall hear of before it is on record.
func (w *work) tell(r task.Result) {
	if w.sc.s.cfg.Ended != nil {
		w.sc.s.cfg.Ended(w.job, r)
	}
}

// count counts the end of a task that ran, and halts the batch when that was one
// failure too many.
func (r *run) count(res task.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended++
	if !res.Success {
		r.failed++
	}
	if r.halted || !r.Halt.reached(r.failed, r.ended) {
		return
	}
	r.halted = true
	r.stopStarting()
	if r.Halt.Now {
		r.cancel(ErrHalted)
	}
}

// end files the result of the task at index, and delivers what is due. What
// cannot be recorded ends the batch.
func (r *run) end(index int, res task.Result, unrecorded error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	res.Index = index
	if unrecorded != nil && r.unrecorded == nil {
		r.unrecorded = unrecorded
		r.stopStarting()
	}
	if r.Done != nil {
		r.Done(res)
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
