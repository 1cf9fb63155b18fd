package supervisor

import (
	"context"
	"errors"
	"time"

	"qq/pkg/event"
	"qq/pkg/supervisor/family"
	"qq/pkg/supervisor/limits"
	"qq/pkg/task"
)

// kept is the owner of the execution of a child in the background. It stores the result.
type kept struct {
	exec  *execution
	child *family.Child
}

// ended implements owner. It does nothing: a child in the background has no batch to halt.
func (k *kept) ended(*task.Result) {}

// file implements owner. It ignores the error, because the text of the result says that it could not be recorded.
func (k *kept) file(r task.Result, _ error) { k.child.Settle(r) }

// Waits implements [family.Job].
func (k *kept) Waits() bool { return k.exec.time.Idle().Paused() }

// Cancel implements [family.Job].
func (k *kept) Cancel(cause error) { k.exec.cancel(cause) }

// spawn starts t in the background and returns at once. The child ends when ctx is done or when the
// agent of h ends, if not before. The error says why no child was started: a limit was reached, or
// the agent has ended.
func (h *handle) spawn(ctx context.Context, t task.Task) (task.Child, error) {
	t = t.Normalized()
	if refusal := h.admit(true); refusal != "" {
		return task.Child{}, errors.New(refusal)
	}
	job := h.newJob(ctx, t)
	info := task.Child{ID: job.ExecutionID, Agent: t.Agent, Task: t.Brief(), Status: task.Queued}
	k := &kept{}
	k.exec = h.newExecution(ctx, job, k)
	if k.child = h.background.Add(info, k); k.child == nil {
		k.exec.drop()
		return task.Child{}, task.ErrAbandoned
	}
	var turn *limits.Turn
	if k.exec.ask("", nil).Granted() { // here, so that they start in order
		turn = h.s.slots.Join(false, job.Depth)
	}
	go k.run(turn)
	return info, nil
}

// run waits until the child has its lease and a slot, runs it and stores its result. turn is the place of the
// child in the queue for slots; nil means that it has no lease yet. If the child is cancelled first, it ends
// without being started.
func (k *kept) run(turn *limits.Turn) {
	defer k.child.Gone()
	x, s := k.exec, k.exec.s
	err := x.lease.Await(x.ctx)
	if err == nil && turn == nil {
		turn = s.slots.Join(false, x.job.Depth)
	}
	if turn != nil {
		err = s.slots.Await(x.ctx, turn)
	}
	if err != nil {
		r := x.cancelled()
		if r == nil {
			late := x.job.Ended(task.Cancelled, "not started: "+context.Cause(x.ctx).Error())
			r = &late
			x.job.Sign(r)
		}
		x.drop()
		k.file(*r, nil)
		return
	}
	k.child.Running()
	x.loan = limits.HeldSlot(s.slots)
	x.run(s.cfg.Launcher)
}

// Children implements [task.Family]. A running child whose idle clock is paused, because it waits
// for somebody, has the status Waiting. The error is always nil.
func (h *handle) Children(context.Context) ([]task.Child, error) { return h.background.List(), nil }

// Wait implements [task.Family]. While the agent waits, other jobs may use its slot.
func (h *handle) Wait(ctx context.Context, ids []string, atMost time.Duration) ([]task.Result, error) {
	waiting, err := h.background.Find(ids)
	if err != nil {
		return nil, err
	}
	var late <-chan time.Time
	if atMost > 0 {
		timer := time.NewTimer(atMost)
		defer timer.Stop()
		late = timer.C
	}
	pending := family.Await(ctx, late, waiting)
	h.pause(ctx, func() {
		for more := true; more; more = pending.Next() {
			h.phases.Tell(event.PhaseWaiting, "for children in the background", pending.Ended(), len(waiting))
		}
	})
	return h.background.Collect(waiting), nil
}

// Terminate implements [task.Family]. It returns when the child has ended, or with the cause of ctx
// if ctx is done first.
func (h *handle) Terminate(ctx context.Context, id string) error {
	found, err := h.background.Find([]string{id})
	if err != nil {
		return err
	}
	return found[0].Cancel(ctx, ErrCancelled)
}
