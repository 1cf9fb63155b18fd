package supervisor

import (
	"time"

	"qq/pkg/task"
)

// Recorder records what happens to each job. Several goroutines call its methods at once.
type Recorder interface {
	// Claim records that job is about to start. On error the job does not start.
	Claim(job task.Job) error
	// Attempt records an attempt of job that began at started and ended with r. Another attempt
	// will follow.
	Attempt(job task.Job, started time.Time, r task.Result)
	// Effects records that job is about to have its first side effect, and returns when the record
	// is durable. On error the job must not act.
	Effects(job task.Job) error
	// Finish records the result of job and returns when the record is durable.
	Finish(job task.Job, r task.Result) error
}
