package apart

import (
	"context"
	"errors"
	"sync"
	"time"

	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// order lets the tasks of a batch be joined in input order.
type order struct {
	most int // waits: see full

	mu      sync.Mutex
	ended   sync.Cond
	planned bool         // by a plan: a task may wait for one behind it
	lowest  int          // index of the first task that has not ended
	done    map[int]bool // those behind it that have
	started map[int]bool // those that have not ended; true means that they are isolated
	waiting int          // those that wait for their turn
}

// Batch returns b so that its isolated tasks are joined in input order.
func (t *Trees) Batch(b supervisor.Batch) supervisor.Batch {
	if t == nil {
		return b
	}
	o := &order{most: 4 * t.Slots, done: map[int]bool{}, started: map[int]bool{}, planned: b.Plan != nil}
	o.ended.L = &o.mu
	t.batch = o
	b.Results, b.Pace = told{b.Results, o}, paced{b.Pace, o}
	return b
}

// begin says that a task starts.
func (o *order) begin(index int, isolated bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.started[index] = isolated
}

// wait waits until the tasks before index have ended. An error says that the task was cancelled. When the whole batch
// ends, those before it end too.
func (o *order) wait(ctx context.Context, index int) error {
	defer context.AfterFunc(ctx, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.ended.Broadcast()
	})()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting++
	defer func() { o.waiting-- }()
	for !o.first(index) {
		if cause := context.Cause(ctx); errors.Is(cause, supervisor.ErrCancelled) {
			return cause
		}
		o.ended.Wait()
	}
	return nil
}

// due reports whether it is the turn of the task at index.
func (o *order) due(index int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.first(index)
}

func (o *order) first(index int) bool {
	if !o.planned {
		return o.lowest >= index
	}
	for i, isolated := range o.started {
		if isolated && i < index {
			return false
		}
	}
	return true
}

// full reports whether so many tasks wait for their turn that no other one should start. It is false if they wait for
// one that has not started.
func (o *order) full() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, begun := o.started[o.lowest]
	return o.waiting >= o.most && (begun || o.planned)
}

// release says that tasks which have not started may never end. Nobody waits for them.
func (o *order) release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.planned = true
	o.ended.Broadcast()
}

// end says that a task has its result.
func (o *order) end(index int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.started, index)
	o.done[index] = true
	for ; o.done[o.lowest]; o.lowest++ {
		delete(o.done, o.lowest)
	}
	o.ended.Broadcast()
}

// told are the results of a batch. It tells the order of them.
type told struct {
	supervisor.Results
	order *order
}

// Deliver implements supervisor.Results. After an error, the batch ends without results of tasks that have not started.
func (t told) Deliver(r task.Result) error {
	err := t.Results.Deliver(r)
	if err != nil {
		t.order.release()
	}
	return err
}

// Done implements supervisor.Results.
func (t told) Done(r task.Result) {
	t.order.end(r.Index)
	t.Results.Done(r)
}

// paced delays the starts of tasks while too many wait to be joined: each has a copy.
type paced struct {
	supervisor.Pace // may be nil
	order           *order
}

// Next implements supervisor.Pace.
func (p paced) Next() time.Duration {
	const again = 50 * time.Millisecond
	switch {
	case p.order.full():
		return again
	case p.Pace == nil:
		return 0
	}
	return p.Pace.Next()
}

// begun is a staged process that tells the order when it starts.
type begun struct {
	supervisor.Staged
	order *order
}

// Launch implements supervisor.Launcher.
func (b begun) Launch(ctx context.Context, job task.Job, p supervisor.Parent) task.Result {
	b.order.begin(job.Index, false)
	return b.Staged.Launch(ctx, job, p)
}
