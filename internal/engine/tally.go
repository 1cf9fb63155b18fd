package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"qq/internal/tools/delegate"
	"qq/pkg/task"
)

// family is whom an agent can ask.
type family interface {
	delegate.Delegator
	task.Family
}

// tally is a family that notes that one of those who are asked failed: that is
// part of the result of whoever asked, whatever its model makes of it.
type tally struct {
	family

	spawned atomic.Bool // somebody was started in the background

	mu    sync.Mutex
	fails []string
}

// maxFails is how many failures of children are told of one by one.
const maxFails = 20

// Delegate implements delegate.Delegator.
func (t *tally) Delegate(ctx context.Context, tasks []task.Task) []task.Result {
	return t.note(t.family.Delegate(ctx, tasks))
}

// Spawn implements task.Family.
func (t *tally) Spawn(ctx context.Context, tk task.Task) (task.Child, error) {
	t.spawned.Store(true)
	return t.family.Spawn(ctx, tk)
}

// Wait implements task.Family.
func (t *tally) Wait(ctx context.Context, ids []string, atMost time.Duration) ([]task.Result, error) {
	results, err := t.family.Wait(ctx, ids, atMost)
	return t.note(results), err
}

func (t *tally) note(results []task.Result) []task.Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range results {
		switch {
		case r.Status == task.Cancelled: // on purpose
		case r.Status == task.Refused && r.Attempts == 0: // part of how whoever asked ends
		case !r.Success:
			t.fails = append(t.fails, fmt.Sprintf("sub-agent %s: %s: %s", r.Agent, r.Status, task.Shorten(r.Err(), 200)))
		}
	}
	return results
}

// unfinished is what an agent is told that wants to end while children of it are
// at work or have results that it has not seen.
func (t *tally) unfinished() string {
	if !t.spawned.Load() {
		return "" // without asking the root
	}
	children, err := t.Children(context.Background())
	if err != nil || len(children) == 0 {
		return ""
	}
	text := "You have children whose results you have not collected:\n"
	for _, c := range children {
		text += fmt.Sprintf("- %s (%s, %s): %s\n", c.ID, c.Agent, c.Status, c.Task)
	}
	return text + "Collect them with wait_children, or end those that are not needed with terminate_child. Then answer. When you end, they end."
}

// warnings are what was noted.
func (t *tally) warnings() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if more := len(t.fails) - maxFails; more > 0 {
		return append(t.fails[:maxFails:maxFails], fmt.Sprintf("%d more sub-agents failed", more))
	}
	return t.fails
}
