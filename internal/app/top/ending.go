package top

import (
	"fmt"
	"strings"

	"qq/internal/control"
	"qq/internal/control/board"
	"qq/pkg/event"
	"qq/pkg/task"
)

// ending is how a run ends and what it has used, as its events tell.
type ending struct {
	status  task.Status // of its own agent; empty for a batch and while it is at work
	problem string
	batch   *board.Batch // nil for a prompt
	board   *board.Board // counts the tasks that end from now on
	live    map[string]task.Usage
	used    task.Usage // tokens
	lost    bool       // it has ended without a word
}

// newEnding returns the ending of a run whose next events come after snap.
func newEnding(snap control.Snapshot) *ending {
	e := &ending{batch: snap.Batch, board: board.New(), live: map[string]task.Usage{}, used: snap.Used}
	if e.batch != nil {
		e.board.Handle(event.Event{Type: event.BatchStart, BatchID: e.batch.ID})
	}
	for _, j := range snap.Jobs {
		e.live[j.ExecutionID] = j.Usage
	}
	return e
}

// add adds an event.
func (e *ending) add(ev event.Event) {
	if ev.Type != event.SubAgentComplete && ev.Type != event.SubAgentError {
		return
	}
	e.board.Handle(ev)
	if ev.Usage != nil && !ev.Cached {
		known := e.live[ev.ExecutionID]
		e.used.InputTokens += ev.Usage.InputTokens - known.InputTokens
		e.used.OutputTokens += ev.Usage.OutputTokens - known.OutputTokens
	}
	delete(e.live, ev.ExecutionID)
	if ev.OfRoot() {
		e.status, e.problem = ev.Status, ev.Error
	}
}

// counts returns how many tasks of the batch completed, failed and were cancelled.
func (e *ending) counts() (completed, failed, cancelled int) {
	now := e.board.Batch()
	failed, cancelled = e.batch.Failed+now.Failed, e.batch.Cancelled+now.Cancelled
	return e.batch.Done + now.Done - failed - cancelled, failed, cancelled
}

// String says how the run has ended.
func (e *ending) String() string {
	switch {
	case e.lost:
		return "killed"
	case e.batch != nil:
		completed, failed, cancelled := e.counts()
		text := fmt.Sprintf("ended: %d completed", completed)
		if failed > 0 {
			text += fmt.Sprintf(", %d failed", failed)
		}
		if cancelled > 0 {
			text += fmt.Sprintf(", %d cancelled", cancelled)
		}
		return text
	case e.status == "":
		return "ended"
	case e.status != task.Completed && e.problem != "":
		return string(e.status) + ": " + strings.TrimPrefix(e.problem, "Error: ")
	}
	return string(e.status)
}

// unfinished is the exit code of a batch of which not all tasks completed, as of qq batch.
const unfinished = 4

// code returns the exit code of a command that has watched the run until it ended.
func (e *ending) code() int {
	switch {
	case e.lost:
		return task.Failed.ExitCode()
	case e.batch != nil:
		if completed, failed, cancelled := e.counts(); failed+cancelled > 0 || completed < e.batch.Total {
			return unfinished
		}
		return 0
	case e.status == "":
		return 0
	}
	return e.status.ExitCode()
}
