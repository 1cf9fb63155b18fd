package apart

import (
	"path/filepath"
	"slices"
	"sync"

	"qq/internal/box"
	"qq/pkg/childproc/room"
	"qq/pkg/llm"
	"qq/pkg/supervisor"
	"qq/pkg/supervisor/attempts"
	"qq/pkg/task"
)

// worker is the supervisor.Parent of an agent that can work in a copy.
type worker interface {
	supervisor.Parent
	settler
	// First returns a permit for the first request, or nil, see package childproc.
	First() llm.Permit
}

// settler is a supervisor.Parent that knows when an agent and its descendants have ended.
type settler interface {
	// Settle ends what the agent started, says in its result r whether it reached a limit, and runs f. While f runs,
	// others use the slot of the agent. changed are the files that its descendants said they changed, relative to its
	// working directory.
	Settle(r *task.Result, f func(changed []string))
	// Await runs wait in f. Meanwhile others use the lease of the agent.
	Await(wait func())
}

// contained is the worker of an agent in a copy. What that writes is no side effect before it is joined. What commands
// do is one: they can reach the network.
type contained struct {
	worker
	place *place
	dir   string // its working directory, relative to the tree

	mu    sync.Mutex
	acted bool // a command was started
}

var _ box.Witness = (*contained)(nil)

// Effects implements supervisor.Report.
func (c *contained) Effects() error { return nil }

// Acts implements box.Witness. It records that the agent has side effects.
func (c *contained) Acts() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.acted {
		return nil
	}
	err := c.worker.Effects()
	c.acted = err == nil
	return err
}

// Wrote implements box.Witness.
func (c *contained) Wrote(files []string) []string {
	return slices.DeleteFunc(files, func(file string) bool { return !c.place.Wrote(filepath.Join(c.dir, file)) })
}

// outside reports whether a job in the copy may have done something outside of it.
func (t *Trees) outside(p *place) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range p.jobs {
		c.mu.Lock()
		acted := c.acted
		c.mu.Unlock()
		if acted {
			return true
		}
	}
	return false
}

// inside says in the result r of a job in the copy p that it had no side effects, if that is so. A job whose process
// died in the copy of another one is not repeated there: it may have left half of its work.
func (t *Trees) inside(r *task.Result, p *place) {
	if !attempts.Died(r.Status) && !t.outside(p) {
		r.Effects = false
	}
}

// hindered reports whether the machine kept an isolated task from ending, with the result r, and all that it did is in
// its copy.
func (t *Trees) hindered(r *task.Result, p *place) bool {
	if r.Status == task.Unavailable && !t.outside(p) && room.Full(t.isolate.State) { // with its answer, perhaps
		r.Hindered, r.Effects = true, false
	}
	return r.Hindered && !r.Effects
}
