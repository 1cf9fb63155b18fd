package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"qq/pkg/event"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// helpers is the parent of an agent, as its tools see it. It delegates tasks through the
// real parent and records which children failed, and what the others warn of. Each becomes a
// warning of the agent's result, even if the model does not mention it.
type helpers struct {
	supervisor.Parent

	spawned atomic.Bool // the agent has started a background child
	handed  atomic.Bool // it has handed on a task that may have had side effects
	only    bool        // what it hands on can change nothing

	mu    sync.Mutex
	fails []string // children that failed
	heard []string // what the others warn of
	files []string // with the full outputs of children: the newest maxNamed
}

// maxFails and maxHeard are the largest numbers of failed children, and of warnings of the others, that
// are told. One more warning counts the rest.
const maxFails, maxHeard = 20, 20

// maxNamed is the largest number of files of children that commands of the agent may read: each is a mount.
const maxNamed = 200

// Delegate implements supervisor.Parent.
func (h *helpers) Delegate(ctx context.Context, tasks []task.Task) []task.Result {
	h.handed.Store(!h.only)
	return h.note(h.heed(h.Parent.Delegate(ctx, tasks)))
}

// Spawn implements supervisor.Parent.
func (h *helpers) Spawn(ctx context.Context, t task.Task) (task.Child, error) {
	h.spawned.Store(true)
	h.handed.Store(!h.only)
	return h.Parent.Spawn(ctx, t)
}

// Wait implements supervisor.Parent.
func (h *helpers) Wait(ctx context.Context, ids []string, atMost time.Duration) ([]task.Result, error) {
	results, err := h.Parent.Wait(ctx, ids, atMost)
	return h.note(h.heed(results)), err
}

// maxSaid is how many characters of a failure or a warning of a child are kept: one that names a command has it whole.
const maxSaid = 1000

// note records the failures among results, and returns results unchanged. Cancelled tasks
// are no failures. Tasks that were refused before they ran are left to the loop, which
// reports them.
func (h *helpers) note(results []task.Result) []task.Result {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range results {
		if r.OutputFile != "" {
			h.files = append(h.files, r.OutputFile)
			h.files = h.files[max(0, len(h.files)-maxNamed):]
		}
		switch {
		case r.Status == task.Cancelled: // on purpose
		case r.Status == task.Refused && r.Attempts == 0: // the loop reports refusals
		case !r.Success:
			why := task.Shorten(task.Line(r.Err()), maxSaid)
			h.fails = append(h.fails, fmt.Sprintf("sub-agent %s: %s: %s", r.Agent, r.Status, why))
		}
	}
	return results
}

// heed records the warnings of results, such as that a child of the child was refused, or where the changes of a failed
// one are, and returns results unchanged.
func (h *helpers) heed(results []task.Result) []task.Result {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range results {
		for _, w := range r.Warnings {
			h.heard = append(h.heard, fmt.Sprintf("sub-agent %s: %s", r.Agent, task.Shorten(task.Line(w), maxSaid)))
		}
	}
	return results
}

// named returns the newest files with the full outputs of children, which were named to the agent.
func (h *helpers) named() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.files)
}

// uncollected returns a reminder for an agent that wants to end while it has background
// children that still run, or whose results it has not read. It returns "" if there are
// none, or if the parent cannot list them.
func (h *helpers) uncollected() string {
	if !h.spawned.Load() {
		return "" // saves a question to the root
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

// warnings returns what was recorded about children, failures first.
func (h *helpers) warnings() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Concat(atMost(h.fails, maxFails, "%d more sub-agents failed"),
		atMost(h.heard, maxHeard, "%d more warnings of sub-agents"))
}

// atMost returns list, or its first n texts and one that counts the others.
func atMost(list []string, n int, others string) []string {
	if more := len(list) - n; more > 0 {
		return append(list[:n:n], fmt.Sprintf(others, more))
	}
	return list
}

// Limits of one delegation, in tasks and in bytes of JSON. All tasks of a delegation are
// sent to the root in one frame, whose size is limited.
const (
	chunkTasks = 200
	chunkBytes = 2 << 20
)

// partHelpers makes children summarize the parts of a document with the model of the agent.
// It delegates them in chunks, one chunk after another. After a failure it starts no
// further chunk.
type partHelpers struct {
	*helpers
	model string
}

// Summarize implements longtext.Children.
func (h partHelpers) Summarize(ctx context.Context, tasks []task.Task) (results []task.Result) {
	h.Parent.Emit(event.Event{Type: event.SubAgentProgress, Phase: event.PhaseParts, Total: len(tasks)})
	for i := range tasks {
		tasks[i].Part, tasks[i].Model = true, h.model
	}
	for len(tasks) > 0 {
		n := chunk(tasks)
		some := h.note(h.Parent.Delegate(ctx, tasks[:n])) // the warnings of parts stand with their document
		results, tasks = append(results, some...), tasks[n:]
		if len(some) != n || slices.ContainsFunc(some, func(r task.Result) bool { return !r.Success }) {
			break
		}
	}
	return results
}

// chunk returns how many tasks from the start of tasks fit into one delegation, at least
// one.
func chunk(tasks []task.Task) int {
	size := 0
	for i, t := range tasks[:min(len(tasks), chunkTasks)] {
		encoded, err := json.Marshal(t) // escaped characters make it longer than the text
		if size += len(encoded); i > 0 && (err != nil || size > chunkBytes) {
			return i
		}
	}
	return min(len(tasks), chunkTasks)
}
