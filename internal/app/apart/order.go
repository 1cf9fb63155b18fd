package apart

import (
	"sync"

	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// order lets the tasks of a batch be joined in input order.
type order struct {
	mu      sync.Mutex
	ended   sync.Cond
	planned bool         // by a plan: a task may wait for one behind it
	lowest  int          // index of the first task that has not ended
	done    map[int]bool // those behind it that have
	started map[int]bool // those that have not ended
}

// Batch returns b so that its isolated tasks are joined in input order.
func (t *Trees) Batch(b supervisor.Batch) supervisor.Batch {
	if t == nil {
		return b
	}
	o := &order{done: map[int]bool{}, started: map[int]bool{}, planned: b.Plan != nil}
	o.ended.L = &o.mu
	t.batch = o
	b.Results = told{b.Results, o}
	return b
}

// begin says that a task starts.
func (o *order) begin(index int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.started[index] = true
}

// wait waits until the tasks before index have ended.
func (o *order) wait(index int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.first(index) {
		o.ended.Wait()
	}
}

func (o *order) first(index int) bool {
	if !o.planned {
		return o.lowest >= index
	}
	for i := range o.started {
		if i < index {
			return false
		}
	}
	return true
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

// Done implements supervisor.Results.
func (t told) Done(r task.Result) {
	t.order.end(r.Index)
	t.Results.Done(r)
}
