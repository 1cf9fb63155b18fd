package task

// Status is the state of a task, or how it ended. It follows from how the process ended
// and from its result frame, never from words in an output. Only [Completed] is success.
type Status string

// The life of a task, and its ends.
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
	TurnLimit   Status = "turn_limit"    // the agent used up its turns; partial output is kept
	Empty       Status = "empty_answer"  // the model answered with no text
	Broken      Status = "broken_stream" // the answer broke off; partial output is kept
	NoResult    Status = "no_result"     // the process ended without a result frame
	Killed      Status = "killed"        // a signal killed the process
	Unavailable Status = "unavailable"   // the model server cannot be reached or is overloaded
	Limit       Status = "limit"         // a limit on depth, children or tokens was reached
	Misused     Status = "usage"         // the task or the configuration is wrong
	// UnknownOutcome ends a task whose child died after it may have had side effects. It is
	// not repeated.
	UnknownOutcome Status = "unknown_outcome"
)

// ExitCode returns the exit code of a qq whose only task ended with s.
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
	}
	return 1
}

// Conclusive reports whether a task with that status ended by itself. It was not stopped
// from outside, by a limit or by an unreachable model server.
func (s Status) Conclusive() bool {
	switch s {
	case Cancelled, Interrupted, Limit, Unavailable:
		return false
	}
	return s.Final()
}

// Final reports whether a task with that status has ended. It returns false for an unknown
// status.
func (s Status) Final() bool {
	switch s {
	case Completed, Failed, Timeout, Idle, Cancelled, Refused, Interrupted, TurnLimit, Empty, Broken, NoResult, Killed,
		Unavailable, Limit, Misused, UnknownOutcome:
		return true
	}
	return false
}
