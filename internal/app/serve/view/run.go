package view

import (
	"qq/internal/control/board"
	"qq/internal/record/history"
	"qq/internal/record/ledger"
	"qq/pkg/task"
)

// Item is one job of a run: what is recorded of it, and what its root says now.
type Item struct {
	*history.Job            // with what is recorded; of a job that is only queued, what its root says
	Now          *board.Job // nil if it is not live
	Below        []*Item
	All          int // jobs below it, at any depth
}

// Run is a run with all its jobs: what is recorded, and what its root says now.
type Run struct {
	history.Run
	Root   State // zero if no root works on it
	AtWork bool
	Items  []*Item // of the top
	ByID   map[string]*Item
	slots  int // how many jobs its root could have at work when it began; 0 means not known
}

// Cap is how many jobs may be at work at once, or could when the last root began; 0 means that it is not known.
func (w Run) Cap() int {
	if w.AtWork && w.Root.Max > 0 {
		return w.Root.Max
	}
	return w.slots
}

func count(i *Item) int {
	for _, b := range i.Below {
		i.All += 1 + count(b)
	}
	return i.All
}

// add adds recorded jobs below one of them.
func (w *Run) add(list []*history.Job, above *Item) {
	for _, j := range list {
		it := &Item{Job: j}
		w.ByID[j.ID] = it
		if above == nil {
			w.Items = append(w.Items, it)
		} else {
			above.Below = append(above.Below, it)
		}
		w.add(j.Jobs, it)
	}
}

// attach adds what the root says about a live job.
func (w *Run) attach(j *board.Job) {
	it := w.ByID[j.ExecutionID]
	if it == nil {
		it = &Item{Job: Record(j, w.Root)}
		w.ByID[j.ExecutionID] = it
		if above := w.ByID[j.ParentExecutionID]; above != nil {
			above.Below = append(above.Below, it)
		} else {
			w.Items = append(w.Items, it)
		}
	}
	if it.Ended.IsZero() {
		it.Now = j
	}
}

// Record is a live job that is not in the ledger yet, as if it were.
func Record(j *board.Job, root State) *history.Job {
	return &history.Job{Run: ledger.Run{
		ID: j.ExecutionID, Parent: j.ParentExecutionID, Batch: j.BatchID, Root: root.ID, Agent: j.Agent, Task: j.Task,
		Status: j.State, Attempts: j.Attempt, Queued: j.Queued, Started: j.Started, Depth: j.Depth, Index: j.Index,
		Live: true, Usage: j.Usage, TotalUsage: j.Subtree,
	}}
}

// Status is that of the run.
func (w Run) Status() task.Status {
	switch {
	case w.AtWork:
		return task.Running
	case w.Batch != nil:
		return w.Batch.Status
	case len(w.Items) > 0:
		return w.Items[0].Status
	}
	return task.Interrupted
}

// Killed reports whether the root was killed while it worked on the run.
func (w Run) Killed() bool {
	return w.Root.End == Lost && !w.Run.Live()
}
