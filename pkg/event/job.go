package event

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"qq/pkg/task"
)

// About returns an event of that type about job.
func About(job task.Job, t Type) Event {
	return Event{
		Type: t, ExecutionID: job.ExecutionID, ParentExecutionID: job.Parent,
		BatchID: cmp.Or(job.BatchID, job.Group), CallID: job.Call, Agent: job.Agent, Depth: job.Depth,
	}
}

// By returns e as an event of the agent of job, whatever it says itself. The call of a tool keeps its own id.
func (e Event) By(job task.Job) Event {
	a := About(job, e.Type)
	e.ExecutionID, e.ParentExecutionID, e.BatchID = a.ExecutionID, a.ParentExecutionID, a.BatchID
	if e.Agent, e.Depth = a.Agent, a.Depth; e.Type == SubAgentProgress {
		e.CallID = a.CallID // of its parent
	}
	return e
}

// Start returns the event of the start of job.
func Start(job task.Job) Event {
	e := About(job, SubAgentStart)
	e.Task = job.Brief()
	return e
}

// Group emits the start of a batch of total tasks, which a call of the agent of job runs, and returns a function that
// emits its end. id is that of the batch.
func (s *Stream) Group(job task.Job, id, call string, total int) (end func(results []task.Result)) {
	e := About(job, BatchStart)
	e.BatchID, e.CallID, e.Count = id, call, total
	s.Emit(e)
	return func(results []task.Result) {
		failed := slices.DeleteFunc(slices.Clone(results), func(r task.Result) bool { return r.Success })
		e.Type, e.FailedTasks = BatchComplete, len(failed)
		s.Emit(e)
	}
}

// NotRecorded is the error in the event of a task that succeeded if its result could not be made
// durable.
const NotRecorded = "its result could not be recorded"

// End returns the event of the end of job, whose result is r.
func End(job task.Job, r task.Result) Event {
	e := About(job, SubAgentComplete)
	if !r.Success {
		r.CutHint() // as in a result in JSON: a hint is for the terminal
		e.Type, e.Error = SubAgentError, r.Err()
	}
	e.Status, e.ExitCode, e.Usage, e.DurationMS = r.Status, &r.ExitCode, &r.Usage, r.DurationMS
	e.Summary = Summary(r.Output)
	if r.Unrecorded && r.Success {
		e.Error = NotRecorded
	}
	if r.Attempts > 1 {
		e.Attempt = r.Attempts
	}
	return e
}

// Again returns the event of an attempt of job that ended with r. The next one starts after wait. The Attempt of job is
// that of the one that ended.
func Again(job task.Job, r task.Result, wait time.Duration) Event {
	r.CutHint()
	e := About(job, SubAgentProgress)
	e.Attempt, e.DurationMS = job.Attempt+1, wait.Milliseconds()
	e.Text = fmt.Sprintf("%s: attempt %d in %.1f s", r.Err(), e.Attempt, wait.Seconds())
	return e
}

// Progress returns the event of an agent that is in that phase. text may be empty.
func Progress(job task.Job, p Phase, text string, done, total int) Event {
	e := About(job, SubAgentProgress)
	e.Phase, e.Text, e.Done, e.Total = p, text, done, total
	return e
}
