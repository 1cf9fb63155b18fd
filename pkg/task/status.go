package task

import "slices"

// Status is the state of a task or the way in which it ended. It follows from how the process ended
// and from its result frame, never from words in the output. Only [Completed] is success.
type Status string

// The states of a task that has not ended, then the ways in which it can end.
const (
	Queued   Status = "queued"
	Starting Status = "starting"
	Running  Status = "running"
	Waiting  Status = "waiting"

	Completed   Status = "completed"
	Failed      Status = "failed"
	Timeout     Status = "timeout"       // the wall-clock deadline passed
	Idle        Status = "idle"          // there was no activity for too long
	Cancelled   Status = "cancelled"     // a person or an agent ended it
	Refused     Status = "refused"       // a policy or a person did not allow it
	Interrupted Status = "interrupted"   // its supervisor ended or died
	Terminated  Status = "terminated"    // its process was asked to end, by SIGTERM
	TurnLimit   Status = "turn_limit"    // the agent used up its turns; partial output is kept
	Empty       Status = "empty_answer"  // the model answered with no text
	Broken      Status = "broken_stream" // the answer broke off; partial output is kept
	NoResult    Status = "no_result"     // the process ended without a result frame
	Killed      Status = "killed"        // a signal killed the process
	OutOfMemory Status = "out_of_memory" // the kernel killed the process because memory was short
	Unavailable Status = "unavailable"   // the model server, or what the machine must give, is missing for now
	Limit       Status = "limit"         // a limit on depth, children or tokens was reached
	Misused     Status = "usage"         // the task or the configuration is wrong
	// UnknownOutcome means that the child died after it may have had side effects, so the task is
	// not repeated.
	UnknownOutcome Status = "unknown_outcome"

	Skipped     Status = "skipped"      // a task that it needs was not completed
	CheckFailed Status = "check_failed" // its check did not succeed
	Conflict    Status = "conflict"     // its changes could not be joined with those of others
	// NotRecorded means that a task that was replayed called a tool in a way that its record does not have.
	NotRecorded Status = "not_recorded"
)

// ExitCode returns the exit code of a qq process that ran one task, if that task ended with s.
func (s Status) ExitCode() int {
	switch s {
	case Completed:
		return 0
	case Misused:
		return 2
	case Unavailable, Broken:
		return 3
	case Limit:
		return 5
	case Timeout, Idle:
		return 124
	case Cancelled, Interrupted:
		return 130
	case Terminated:
		return 143
	}
	return 1
}

// Signalled returns the status of a run that a signal ended, from the exit code of its process:
// [Terminated] after SIGTERM, else [Interrupted].
func Signalled(code int) Status {
	if code == Terminated.ExitCode() {
		return Terminated
	}
	return Interrupted
}

// Conclusive reports whether a task with the status s has ended with an outcome of its own. It
// returns false if the task has not ended, and for [Cancelled], [Interrupted], [Terminated], [Limit],
// [Unavailable] and [Skipped], where the cause lies outside of the task.
func (s Status) Conclusive() bool {
	switch s {
	case Cancelled, Interrupted, Terminated, Limit, Unavailable, Skipped:
		return false
	}
	return s.Final()
}

// live and ended are all statuses: those of a task that has not ended, and those of one that has.
var (
	live  = []Status{Queued, Starting, Running, Waiting}
	ended = []Status{
		Completed, Failed, Timeout, Idle, Cancelled, Refused, Interrupted, Terminated, TurnLimit, Empty, Broken,
		NoResult, Killed, OutOfMemory, Unavailable, Limit, Misused, UnknownOutcome,
		Skipped, CheckFailed, Conflict, NotRecorded,
	}
)

// Statuses returns all statuses, first those of a task that has not ended.
func Statuses() []Status { return slices.Concat(live, ended) }

// Final reports whether a task with the status s has ended. For an unknown status it returns false.
func (s Status) Final() bool { return slices.Contains(ended, s) }
