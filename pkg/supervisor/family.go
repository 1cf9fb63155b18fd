package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"qq/pkg/task"
)

// family is the children of a scope that nobody waits for, oldest first, until
// they are collected.
type family struct {
	mu       sync.Mutex
	children []*kept
	ended    bool
	wg       sync.WaitGroup
}

// kept is one child in the background.
type kept struct {
	child  task.Child
	cancel context.CancelCauseFunc
	work   *work
	done   chan struct{}
	result task.Result // readable once done is closed
}

var _ task.Family = (*Scope)(nil)

// Spawn implements task.Family. The child lives at most as long as ctx and as
// the agent of sc.
func (sc *Scope) Spawn(ctx context.Context, t task.Task) (task.Child, error) {
	t = t.Normalized()
	if refusal := sc.admit(true); refusal != "" {
		return task.Child{}, errors.New(refusal)
	}
	job := sc.newJob(t)
	ctx, cancel := context.WithCancelCause(ctx)
	k := &kept{
		child:  task.Child{ID: job.ExecutionID, Agent: t.Agent, Task: task.Shorten(t.Text, 100), Status: task.Queued},
		cancel: cancel, done: make(chan struct{}),
	}
	f := &sc.family
	k.work = sc.newWork(job, func(task.Result) {}, func(r task.Result, _ error) { f.keep(k, r) })
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		cancel(nil)
		return task.Child{}, task.ErrAbandoned
	}
	f.children = append(f.children, k)
	turn := sc.s.slots.join(false, job.Depth) // here, so that they start in order
	f.wg.Go(func() {
		defer cancel(nil)
		sc.background(ctx, k, turn)
	})
	return k.child, nil
}

// background takes a child from the queue to its result.
func (sc *Scope) background(ctx context.Context, k *kept, turn *waiter) {
	f := &sc.family
	queuedAt := time.Now()
	if sc.s.slots.await(ctx, turn) != nil {
		r := k.work.job.Ended(task.Cancelled, "not started: "+context.Cause(ctx).Error())
		if errors.Is(context.Cause(ctx), ErrCancelled) {
			r.End(task.Cancelled, ErrCancelled.Error())
		}
		k.work.sign(&r)
		f.keep(k, r)
		return
	}
	f.mu.Lock()
	k.child.Status = task.Running
	f.mu.Unlock()
	k.work.perform(ctx, sc.s.cfg.Launcher, time.Since(queuedAt))
}

// keep keeps r as the result of k.
func (f *family) keep(k *kept, r task.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k.result, k.child.Status = r, r.Status
	close(k.done)
}

// Children implements task.Family.
func (sc *Scope) Children(context.Context) ([]task.Child, error) {
	f := &sc.family
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]task.Child, len(f.children))
	for i, k := range f.children {
		list[i] = k.child
		if k.child.Status == task.Running && k.work.idle.stands() {
			list[i].Status = task.Waiting
		}
	}
	return list, nil
}

// find returns the children with these ids, or all when there are none.
func (f *family) find(ids []string) ([]*kept, error) {
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

// Wait implements task.Family. The slot of the agent is lent meanwhile.
func (sc *Scope) Wait(ctx context.Context, ids []string, atMost time.Duration) ([]task.Result, error) {
	waiting, err := sc.family.find(ids)
	if err != nil {
		return nil, err
	}
	var late <-chan time.Time
	if atMost > 0 {
		timer := time.NewTimer(atMost)
		defer timer.Stop()
		late = timer.C
	}
	sc.pause(ctx, func() {
		for _, k := range waiting {
			select {
			case <-k.done:
			case <-late:
				return
			case <-ctx.Done():
				return
			}
		}
	})
	return sc.family.collect(waiting), nil
}

// collect takes those that have ended out of the family.
func (f *family) collect(waiting []*kept) []task.Result {
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

// Terminate implements task.Family. It returns when the child is gone.
func (sc *Scope) Terminate(ctx context.Context, id string) error {
	found, err := sc.family.find([]string{id})
	if err != nil {
		return err
	}
	found[0].cancel(ErrCancelled)
	select {
	case <-found[0].done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Send implements task.Family; who knows what runs where overrides it.
func (sc *Scope) Send(context.Context, string, string) error { return errors.ErrUnsupported }

// End ends the children of sc in the background and waits until they are gone.
// No more can be started.
func (sc *Scope) End() {
	f := &sc.family
	f.mu.Lock()
	f.ended = true
	for _, k := range f.children {
		k.cancel(task.ErrAbandoned)
	}
	f.mu.Unlock()
	f.wg.Wait()
}
