package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"qq/internal/toolbox/delegation"
	"qq/pkg/runner"
	"qq/pkg/task"
)

// family is whom an agent can ask.
type family interface {
	delegation.Delegator
	task.Family
}

// tally is a family that notes what becomes of those who are asked: the files
// that they change are changed by the agent, and that one of them failed is part
// of its result, whatever its model makes of that.
type tally struct {
	family

	mu    sync.Mutex
	files map[string]struct{}
	fails []string
}

// maxFails is how many failures of children are told of one by one.
const maxFails = 20

func newTally(f family) *tally { return &tally{family: f, files: map[string]struct{}{}} }

// Delegate implements delegation.Delegator.
func (t *tally) Delegate(ctx context.Context, tasks []task.Task) []task.Result {
	return t.note(t.family.Delegate(ctx, tasks))
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
		for _, f := range r.ChangedFiles {
			t.files[f] = struct{}{}
		}
		if !r.Success {
			t.fails = append(t.fails, fmt.Sprintf("sub-agent %s: %s: %s", r.Agent, r.Status, task.Shorten(r.Err(), 200)))
		}
	}
	return results
}

// complete adds to out what was noted.
func (t *tally) complete(out *runner.Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range out.ChangedFiles {
		t.files[f] = struct{}{}
	}
	out.ChangedFiles = slices.Sorted(maps.Keys(t.files))
	out.Warnings = append(out.Warnings, t.fails[:min(len(t.fails), maxFails)]...)
	if more := len(t.fails) - maxFails; more > 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%d more sub-agents failed", more))
	}
}
