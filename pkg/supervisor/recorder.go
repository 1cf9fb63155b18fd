package supervisor

import (
	"time"

	"qq/pkg/task"
)

// Recorder keeps what the supervisor does. Its methods are called by several
// goroutines at once.
type Recorder interface {
	// Claim records that job is about to start. Nothing is started when it fails.
	Claim(job task.Job) error
	// Attempt appends how an attempt of job ended that began at started and that
	// another one is to follow.
	Attempt(job task.Job, started time.Time, r task.Result)
	// Effects records that job is about to have its first side effect, and returns when
	// that is durable. On error it must not act.
	Effects(job task.Job) error
	// Finish records the result of job and returns when that is durable.
	Finish(job task.Job, r task.Result) error
}
