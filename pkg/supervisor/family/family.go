// Package family keeps the children that an agent has started without waiting for them, until it collects their
// results.
package family

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"qq/pkg/task"
)

// Family holds the children of one agent in the background, oldest first. A child stays in it until its result is
// collected. The zero Family is empty. Several goroutines may use it.
type Family struct {
	mu       sync.Mutex
	children []*Child
	ended    bool // no child can be added
	wg       sync.WaitGroup
}

// Job is what runs for a child.
type Job interface {
	// Waits reports whether the job, which runs, waits for somebody.
	Waits() bool
	// Cancel ends the job with that cause.
	Cancel(cause error)
}

// Child is one child in the background.
type Child struct {
	in     *Family
	info   task.Child
	job    Job
	done   chan struct{}
	result task.Result // readable once done is closed
}

// Add adds a child. It returns nil if the family has ended. Otherwise the caller must call Settle, and Gone at last.
func (f *Family) Add(info task.Child, job Job) *Child {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return nil
	}
	c := &Child{in: f, info: info, job: job, done: make(chan struct{})}
	f.children = append(f.children, c)
	f.wg.Add(1)
	return c
}

// Running says that the child has started.
func (c *Child) Running() {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	c.info.Status = task.Running
}

// Settle stores the result of the child and wakes everybody who waits for it.
func (c *Child) Settle(r task.Result) {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	c.result, c.info.Status = r, r.Status
	close(c.done)
}

// Gone says that nothing of the child is left.
func (c *Child) Gone() { c.in.wg.Done() }

// Cancel ends the child and waits until it has ended, or returns the cause of ctx if ctx is done first.
func (c *Child) Cancel(ctx context.Context, cause error) error {
	c.job.Cancel(cause)
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// List describes the children. One that runs and waits for somebody has the status [task.Waiting].
func (f *Family) List() []task.Child {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]task.Child, len(f.children))
	for i, c := range f.children {
		list[i] = c.info
		if c.info.Status == task.Running && c.job.Waits() {
			list[i].Status = task.Waiting
		}
	}
	return list
}

// Find returns the children with these ids, each once, or all children if ids is empty. An unknown id is an error.
func (f *Family) Find(ids []string) ([]*Child, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(ids) == 0 {
		return slices.Clone(f.children), nil
	}
	var found []*Child
	for _, id := range ids {
		i := slices.IndexFunc(f.children, func(c *Child) bool { return c.info.ID == id })
		if i < 0 {
			return nil, fmt.Errorf("no child %s: it was never started here, or its result was collected", id)
		}
		if !slices.Contains(found, f.children[i]) {
			found = append(found, f.children[i])
		}
	}
	return found, nil
}

// Collect removes the children that have ended from f and returns their results. It looks only at those in waiting and
// keeps their order. If two callers wait for the same child, only one of them gets its result.
func (f *Family) Collect(waiting []*Child) []task.Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	results := []task.Result{}
	for _, c := range waiting {
		select {
		case <-c.done:
		default:
			continue
		}
		i := slices.Index(f.children, c)
		if i < 0 {
			continue // collected by somebody else meanwhile
		}
		f.children = slices.Delete(f.children, i, i+1)
		c.result.Index = len(results)
		results = append(results, c.result)
	}
	return results
}

// End cancels all children and waits until each is gone. From then on none can be added.
func (f *Family) End(cause error) {
	f.mu.Lock()
	f.ended = true
	for _, c := range f.children {
		c.job.Cancel(cause)
	}
	f.mu.Unlock()
	f.wg.Wait()
}

// Pending are children that somebody waits for.
type Pending struct {
	all   int
	cases []reflect.SelectCase
}

// others are the cases of a Pending that are no children.
const others = 2

// Await returns those of the children that have not ended. They are waited for until ctx is done or late comes.
func Await(ctx context.Context, late <-chan time.Time, children []*Child) *Pending {
	p := &Pending{all: len(children), cases: []reflect.SelectCase{receive(late), receive(ctx.Done())}}
	for _, c := range children {
		select {
		case <-c.done:
		default:
			p.cases = append(p.cases, receive(c.done))
		}
	}
	return p
}

// receive returns the case of a select in which something comes from c, or c is closed.
func receive[T any](c <-chan T) reflect.SelectCase {
	return reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(c)}
}

// Ended returns how many of the children have ended.
func (p *Pending) Ended() int { return p.all - len(p.cases) + others }

// Next waits until one more has ended. It returns false if all have, or if nobody waits any more.
func (p *Pending) Next() bool {
	if p.Ended() == p.all {
		return false
	}
	i, _, _ := reflect.Select(p.cases)
	if i < others {
		return false
	}
	p.cases = slices.Delete(p.cases, i, i+1)
	return true
}
