package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// helpers are those whom an agent can ask. It notes that one of them failed: that is
// part of the result of whoever asked, whatever its model makes of it.
type helpers struct {
	supervisor.Parent

	spawned atomic.Bool // somebody was started in the background

	mu    sync.Mutex
	fails []string
}

// maxFails is how many failures of children are told of one by one.
const maxFails = 20

// Delegate implements task.Delegator.
func (h *helpers) Delegate(ctx context.Context, tasks []task.Task) []task.Result {
	return h.note(h.Parent.Delegate(ctx, tasks))
}

// Spawn implements task.Family.
func (h *helpers) Spawn(ctx context.Context, t task.Task) (task.Child, error) {
	h.spawned.Store(true)
	return h.Parent.Spawn(ctx, t)
}

// Wait implements task.Family.
func (h *helpers) Wait(ctx context.Context, ids []string, atMost time.Duration) ([]task.Result, error) {
	results, err := h.Parent.Wait(ctx, ids, atMost)
	return h.note(results), err
}

func (h *helpers) note(results []task.Result) []task.Result {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range results {
		switch {
		case r.Status == task.Cancelled: // on purpose
		case r.Status == task.Refused && r.Attempts == 0: // part of how whoever asked ends
		case !r.Success:
			why := task.Shorten(r.Err(), 200)
			h.fails = append(h.fails, fmt.Sprintf("sub-agent %s: %s: %s", r.Agent, r.Status, why))
		}
	}
	return results
}

// uncollected is what an agent is told that wants to end while children of it are at
// work or have results that it has not seen; empty is nothing.
func (h *helpers) uncollected() string {
	if !h.spawned.Load() {
		return "" // without asking the root
	}
	children, err := h.Children(context.Background())
	if err != nil || len(children) == 0 {
		return ""
	}
	text := "You have children whose results you have not collected:\n"
	for _, c := range children {
		text += fmt.Sprintf("- %s (%s, %s): %s\n", c.ID, c.Agent, c.Status, c.Task)
	}
	return text + "Collect them with wait_children, or end those that are not needed with terminate_child. " +
		"Then answer. When you end, they end."
}

// warnings are what was noted.
func (h *helpers) warnings() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if more := len(h.fails) - maxFails; more > 0 {
		return append(h.fails[:maxFails:maxFails], fmt.Sprintf("%d more sub-agents failed", more))
	}
	return h.fails
}

// Bounds of what is handed on at once: a question to the root is one frame.
const (
	chunkTasks = 200
	chunkBytes = 2 << 20
)

// partHelpers have the parts of a document summarized, some at a time, by the model of
// the agent. None are begun after one that failed.
type partHelpers struct {
	*helpers
	model string
}

// Summarize implements longtext.Summarizer.
func (h partHelpers) Summarize(ctx context.Context, tasks []task.Task) (results []task.Result) {
	for i := range tasks {
		tasks[i].Part, tasks[i].Model = true, h.model
	}
	for len(tasks) > 0 {
		n := chunk(tasks)
		some := h.Delegate(ctx, tasks[:n])
		results, tasks = append(results, some...), tasks[n:]
		if len(some) != n || slices.ContainsFunc(some, func(r task.Result) bool { return !r.Success }) {
			break
		}
	}
	return results
}

// chunk is how many of tasks are handed on at once: one at least.
func chunk(tasks []task.Task) int {
	size := 0
	for i, t := range tasks[:min(len(tasks), chunkTasks)] {
		encoded, err := json.Marshal(t) // with what takes more room there than in the text
		if size += len(encoded); i > 0 && (err != nil || size > chunkBytes) {
			return i
		}
	}
	return min(len(tasks), chunkTasks)
}
