package runs

import (
	"fmt"
	"slices"
	"strings"

	"qq/internal/control"
	"qq/internal/record/ledger"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/task"
)

// waiting are the tasks of roots at work that have not started. The ledger has none of them.
type waiting []control.Standing

// below returns the tasks that wait below the runs of list, or in the batch with that id, as runs.
func (w waiting) below(list []ledger.Run, batch string) (queued []ledger.Run) {
	known := map[string]bool{}
	for _, r := range list {
		known[r.ID] = true
	}
	return w.those(func(j jobs.Job) bool {
		return !known[j.ExecutionID] && (known[j.ParentExecutionID] || batch != "" && j.BatchID == batch)
	})
}

// chosen returns the tasks that wait and that f selects, as runs.
func (w waiting) chosen(f ledger.Filter) []ledger.Run {
	return w.those(func(j jobs.Job) bool {
		return (f.Agent == "" || f.Agent == j.Agent) && inBatch(j, f.Batch) &&
			(f.Since.IsZero() || !j.Queued.Before(f.Since)) && (f.Until.IsZero() || j.Queued.Before(f.Until))
	})
}

// inBatch reports whether j is a task of the batch with that id, which may be a part of it; "" is any.
func inBatch(j jobs.Job, id string) bool {
	return id == "" || j.BatchID != "" && (strings.HasPrefix(j.BatchID, id) || strings.HasSuffix(j.BatchID, id))
}

func (w waiting) those(of func(jobs.Job) bool) (queued []ledger.Run) {
	for _, s := range w {
		for _, j := range s.Jobs {
			if j.State == task.Queued && of(j.Job) {
				queued = append(queued, ledger.Run{
					ID: j.ExecutionID, Parent: j.ParentExecutionID, Batch: j.BatchID, Root: s.ID, Agent: j.Agent,
					Task: j.Task, Status: task.Queued, Queued: j.Queued, Depth: j.Depth, Index: j.Index, Live: true,
				})
			}
		}
	}
	return queued
}

// counts says of each root, or of its batch, how many tasks that agents have handed on are at work, and how many wait.
// It leaves out a root in which none waits.
func (w waiting) counts() map[string]string {
	said := map[string]string{}
	for _, s := range w {
		atWork, queued := 0, 0
		for _, j := range s.Jobs {
			switch {
			case j.ParentExecutionID == "":
			case j.State == task.Queued:
				queued++
			default:
				atWork++
			}
		}
		if queued > 0 {
			text := fmt.Sprintf("tasks of its agents: %d at work, %d queued", atWork, queued)
			said[s.Root.ExecutionID], said[s.Root.BatchID] = text, text
		}
	}
	delete(said, "")
	return said
}

// unstarted returns what waits, if f asks for what is at work: only then the roots are asked.
func unstarted(home string, f ledger.Filter) waiting {
	if !f.Live && !slices.Contains(f.Status, task.Queued) {
		return nil
	}
	return control.Look(home)
}
