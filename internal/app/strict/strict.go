// Package strict knows what targets let running tasks change, for --strict-targets. A task with targets, and all that
// it starts, may change only what they cover. The tools refuse the rest in the process of the agent (package approval),
// and the sandbox of commands does (package box): a command can write to files that are there and to what is in
// folders. It cannot make or replace a file that is a target itself, because that changes the folder; the tools can.
// In a copy of the tree, commands can write everywhere, and the join leaves the rest out (package apart).
package strict

import (
	"path/filepath"
	"sync"

	"qq/pkg/agents"
	"qq/pkg/supervisor/changes"
	"qq/pkg/task"
)

// Tasks are the running tasks that have bounds. The zero value has none.
type Tasks struct{ all sync.Map } // of bound, by execution id

// bound is what a task may change.
type bound struct {
	changes.Bounds
	dir string
}

// Start returns what the targets of job, and of the tasks above it, let it change. dir is its working directory in the
// tree.
func (t *Tasks) Start(job task.Job, dir string) changes.Bounds {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	own := bound{dir: dir}
	if above, ok := t.all.Load(job.Parent); ok {
		above := above.(bound)
		if below, err := filepath.Rel(above.dir, dir); err == nil {
			own.Bounds = above.In(filepath.ToSlash(below), nil)
		}
	}
	if own.Bounds = own.In("", job.Targets); len(own.Bounds) > 0 && job.ExecutionID != "" {
		t.all.Store(job.ExecutionID, own)
	}
	return own.Bounds
}

// Unbound says that the task of a prompt is not kept to targets, because it has none; "" if its agent changes nothing.
func Unbound(def agents.Agent, readOnly bool) string {
	if readOnly || !def.Changes() {
		return ""
	}
	return "--strict-targets does nothing for the prompt itself: only tasks that its agent hands on can have targets"
}

// End says that the task with an execution id has ended.
func (t *Tasks) End(executionID string) { t.all.Delete(executionID) }
