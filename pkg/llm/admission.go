package llm

import (
	"context"
	"errors"
	"time"

	"qq/pkg/task"
)

// Admission lets requests to a model server pass. There is one for each server
// in the whole tree, at the root; a child asks it through its control pipe.
type Admission interface {
	// Enter waits until a request for the named model may be sent. Whoever gets a
	// Permit must leave. The error is an [*Error] (of kind [Open] or [Spent]), or the
	// cause of ctx. With again, a circuit breaker has refused the request before: then
	// Enter waits until the breaker lets one pass, and fails at once when there is no
	// hope, or when the breaker opens again meanwhile.
	Enter(ctx context.Context, model string, again bool) (Permit, error)
}

// Permit is the right to have one request under way. Its methods may be called
// from several goroutines; what comes after Leave has no effect.
type Permit interface {
	// Active says that the server has sent something.
	Active()
	// Leave says what came of the request.
	Leave(Report)
}

// Report is what came of one request, for whoever decides about the next ones.
type Report struct {
	Kind       Kind          `json:"kind,omitempty"`        // empty is success
	Cancelled  bool          `json:"cancelled,omitempty"`   // ended by who asked: neither success nor failure
	RetryAfter time.Duration `json:"retry_after,omitempty"` // what the server asked for
	Usage      task.Usage    `json:"usage,omitzero"`
	Timing     Timing        `json:"timing,omitzero"`
}

// Timing is where the server says the time of a request went; zero where it does
// not.
type Timing struct {
	Queued time.Duration `json:"queued,omitempty"` // before the server took it up
	Served time.Duration `json:"served,omitempty"` // reading the prompt and writing the answer
}

// ReportOf is what a request came to that ended with r and err.
func ReportOf(ctx context.Context, r Response, err error) Report {
	rep := Report{Usage: r.Usage, Timing: r.Timing}
	if err == nil {
		return rep
	}
	e, ok := asError(err)
	switch {
	case ctx.Err() != nil:
		rep.Cancelled = true
	case ok:
		rep.Kind, rep.RetryAfter = e.Kind, e.RetryAfter
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled): // by who has sent it, for itself
		rep.Cancelled = true
	default:
		rep.Kind = Rejected
	}
	return rep
}
