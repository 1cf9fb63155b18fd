package supervisor

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"qq/pkg/event"
	"qq/pkg/supervisor/limits"
	"qq/pkg/task"
)

// background holds the children that an agent started without waiting for them, oldest first. A
// child stays in it until its result is collected. Once ended is set, no child can be added.
type background struct {
	mu       sync.Mutex
	children []*kept
	ended    bool
	wg       sync.WaitGroup
}

// kept is one child in the background. It is also the owner of the execution of that child: it
// stores the result and closes done.
type kept struct {
	in     *background
	child  task.Child
	exec   *execution
	done   chan struct{}
	result task.Result // readable once done is closed
}

// ended implements owner. It does nothing: a child in the background has no batch to halt.
func (k *kept) ended(*task.Result) {}

// file implements owner: it stores the result and wakes everybody who waits for the child. It
// ignores the error, because the text of the result says that it could not be recorded.
func (k *kept) file(r task.Result, _ error) {
	k.in.mu.Lock()
	defer k.in.mu.Unlock()
	k.result, k.child.Status = r, r.Status
	close(k.done)
}

// spawn starts t in the background and returns at once. The child ends when ctx is done or when the
// agent of h ends, if not before. The error says why no child was started: a limit was reached, or
// the agent has ended.
func (h *handle) spawn(ctx context.Context, t task.Task) (task.Child, error) {
	t = t.Normalized()
	if refusal := h.admit(true); refusal != "" {
		return task.Child{}, errors.New(refusal)
	}
	job := h.newJob(ctx, t)
	f := &h.background
	k := &kept{
		in: f, done: make(chan struct{}),
		child: task.Child{ID: job.ExecutionID, Agent: t.Agent, Task: t.Brief(), Status: task.Queued},
	}
	k.exec = h.newExecution(ctx, job, k)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		k.exec.drop()
		return task.Child{}, task.ErrAbandoned
	}
	f.children = append(f.children, k)
	turn := h.s.slots.Join(false, job.Depth) // here, so that they start in order
	f.wg.Go(func() { k.run(turn) })
	return k.child, nil
}

// run waits until the child has a slot, runs it and stores its result. turn is the place of the
// child in the queue for slots. If the child is cancelled first, it ends without being started.
func (k *kept) run(turn *limits.Turn) {
	x, s, queuedAt := k.exec, k.exec.s, time.Now()
	if s.slots.Await(x.ctx, turn) != nil {
		r := x.cancelled()
		if r == nil {
			late := x.job.Ended(task.Cancelled, "not started: "+context.Cause(x.ctx).Error())
			r = &late
			x.sign(r)
		}
		x.drop()
		k.file(*r, nil)
		return
	}
	k.in.mu.Lock()
	k.child.Status = task.Running
	k.in.mu.Unlock()
	x.loan = limits.HeldSlot(s.slots)
	x.run(s.cfg.Launcher, time.Since(queuedAt))
}

// Children implements [task.Family]. A running child whose idle clock is paused, because it waits
// for somebody, has the status Waiting. The error is always nil.
func (h *handle) Children(context.Context) ([]task.Child, error) {
	f := &h.background
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]task.Child, len(f.children))
	for i, k := range f.children {
		list[i] = k.child
		if k.child.Status == task.Running && k.exec.idle.Paused() {
			list[i].Status = task.Waiting
		}
	}
	return list, nil
}

// find returns the children with these ids, each once, or all children if ids is empty. An unknown
// id is an error.
func (f *background) find(ids []string) ([]*kept, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(ids) == 0 {
		return slices.Clone(f.children), nil
	}
	var found []*kept
	for _, id := range ids {
		i := slices.IndexFunc(f.children, func(k *kept) bool { return k.child.ID == id })
		if i < 0 {
			return nil, fmt.Errorf("no child %s: it was never started here, or its result was collected", id)
		}
		if !slices.Contains(found, f.children[i]) {
			found = append(found, f.children[i])
		}
	}
	return found, nil
}

// Wait implements [task.Family]. While the agent waits, other jobs may use its slot.
func (h *handle) Wait(ctx context.Context, ids []string, atMost time.Duration) ([]task.Result, error) {
	waiting, err := h.background.find(ids)
	if err != nil {
		return nil, err
	}
	var late <-chan time.Time
	if atMost > 0 {
		timer := time.NewTimer(atMost)
		defer timer.Stop()
		late = timer.C
	}
	const rest = 2 // cases that are no children
	cases := []reflect.SelectCase{receive(late), receive(ctx.Done())}
	for _, k := range waiting {
		select {
		case <-k.done:
		default:
			cases = append(cases, receive(k.done))
		}
	}
	h.pause(ctx, func() {
		for {
			ended := len(waiting) - len(cases) + rest
			h.phases.Tell(event.PhaseWaiting, "for children in the background", ended, len(waiting))
			if ended == len(waiting) {
				return
			}
			i, _, _ := reflect.Select(cases)
			if i < rest {
				return
			}
			cases = slices.Delete(cases, i, i+1)
		}
	})
	return h.background.collect(waiting), nil
}

// receive returns the case of a select in which something comes from c, or c is closed.
func receive[T any](c <-chan T) reflect.SelectCase {
	return reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(c)}
}

// collect removes the children that have ended from f and returns their results. It looks only at
// those in waiting and keeps their order. If two callers wait for the same child, only one of them
// gets its result.
func (f *background) collect(waiting []*kept) []task.Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	results := []task.Result{}
	for _, k := range waiting {
		select {
		case <-k.done:
		default:
			continue
		}
		i := slices.Index(f.children, k)
		if i < 0 {
			continue // collected by somebody else meanwhile
		}
		f.children = slices.Delete(f.children, i, i+1)
		k.result.Index = len(results)
		results = append(results, k.result)
	}
	return results
}

// Terminate implements [task.Family]. It returns when the child has ended, or with the cause of ctx
// if ctx is done first.
func (h *handle) Terminate(ctx context.Context, id string) error {
	found, err := h.background.find([]string{id})
	if err != nil {
		return err
	}
	found[0].exec.cancel(ErrCancelled)
	select {
	case <-found[0].done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// endBackground cancels all children in the background and waits until each has ended. From then on
// spawn returns an error.
func (h *handle) endBackground() {
	f := &h.background
	f.mu.Lock()
	f.ended = true
	for _, k := range f.children {
		k.exec.cancel(task.ErrAbandoned)
	}
	f.mu.Unlock()
	f.wg.Wait()
}
