package tally

import "qq/pkg/task"

// Log is a log of children that people read. Its ids are short ones: see [task.ShortID].
type Log interface {
	// Spawned says that a child has started.
	Spawned(id, agent string, depth int, task string)
	Logger
	// Completed says that a child has ended.
	Completed(id string, success bool, exit int)
	// Failed says why a child has failed, or that its result could not be recorded.
	Failed(id, msg string)
}

// Started writes that a child has started.
func Started(to Log, job task.Job) {
	to.Spawned(task.ShortID(job.ExecutionID), job.Agent, job.Depth, job.Text)
}

// Ended writes that a child has ended, after its result was recorded. unrecorded is said if it was not.
func Ended(to Log, job task.Job, r task.Result, unrecorded string) {
	id := task.ShortID(job.ExecutionID)
	to.Completed(id, r.Success, r.ExitCode)
	if !r.Success {
		to.Failed(id, string(r.Status)+": "+r.Err())
	}
	if r.Unrecorded {
		to.Failed(id, unrecorded)
	}
}
