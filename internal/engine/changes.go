package engine

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"qq/pkg/dispatch"
	"qq/pkg/task"
)

// changes are the files that an agent, and those that work for it, have changed.
type changes struct {
	mu    sync.Mutex
	files map[string]struct{}
}

func (c *changes) add(paths []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files == nil {
		c.files = map[string]struct{}{}
	}
	for _, p := range paths {
		c.files[p] = struct{}{}
	}
}

func (c *changes) list() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.files))
}

// counting is a place that notes what is changed by those who are asked.
type counting struct {
	*dispatch.Place
	changes *changes
}

// Delegate implements delegation.Delegator.
func (c counting) Delegate(ctx context.Context, tasks []task.Task) []task.Result {
	return c.noted(c.Place.Delegate(ctx, tasks))
}

// Wait implements task.Family.
func (c counting) Wait(ctx context.Context, ids []string, atMost time.Duration) ([]task.Result, error) {
	results, err := c.Place.Wait(ctx, ids, atMost)
	return c.noted(results), err
}

func (c counting) noted(results []task.Result) []task.Result {
	for _, r := range results {
		c.changes.add(r.ChangedFiles)
	}
	return results
}
