package task

// Status says how a task stands or ended. It comes from how the process ended
// and from its result frame, never from words in an output. Only [Completed]
// is success.
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
	Idle        Status = "idle"          // nothing happened for too long
	Cancelled   Status = "cancelled"     // somebody ended it
	Refused     Status = "refused"       // it was not allowed
	Interrupted Status = "interrupted"   // its supervisor went away
	TurnLimit   Status = "turn_limit"    // the agent used all its turns; the text is kept
	Empty       Status = "empty_answer"  // the model said nothing
	Broken      Status = "broken_stream" // the answer broke off; the text so far is kept
	NoResult    Status = "no_result"     // the process ended without a result frame
	Killed      Status = "killed"        // the process died by a signal
	Unavailable Status = "unavailable"   // the model server cannot be reached, or may recover
	Limit       Status = "limit"         // depth, children or tokens
	Misused     Status = "usage"         // the task or the configuration is wrong
	// UnknownOutcome is the end of a child that died when it may have had side
	// effects: it was not repeated.
	UnknownOutcome Status = "unknown_outcome"
)

// ExitCode is the exit code of a qq whose one task ended with s.
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

// Conclusive reports whether a task with that status came to an end of its own: it
// was not stopped, nor kept from its work by a limit or by a server that is away.
func (s Status) Conclusive() bool {
	switch s {
	case Cancelled, Interrupted, Limit, Unavailable:
		return false
	}
	return s.Final()
}

// Final reports whether s is an end. A status that is not known is none.
func (s Status) Final() bool {
	switch s {
	case Completed, Failed, Timeout, Idle, Cancelled, Refused, Interrupted, TurnLimit, Empty, Broken, NoResult, Killed,
		Unavailable, Limit, Misused, UnknownOutcome:
		return true
	}
	return false
}
