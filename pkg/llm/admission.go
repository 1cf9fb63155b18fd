package llm

import (
	"context"
	"errors"
	"time"

	"qq/pkg/task"
)

// Admission limits the requests to model servers. The root has one for the whole tree, and a child
// process asks it through the control pipe.
type Admission interface {
	// Enter waits until a request to the named model may be sent. The caller must then call Leave
	// on the Permit. model is its whole name, such as lab:qwen3. The error is an [*Error] of kind
	// [Open], [Quota] or [Spent], or the cause of ctx. again
	// says that a circuit breaker has refused the request before: Enter then waits until the
	// breaker lets it pass, and fails if that is hopeless or if the breaker opens again.
	//
	// A request that is [InHurry] and would wait long for the server is refused with an error of kind [Busy].
	Enter(ctx context.Context, model string, again bool) (Permit, error)
}

type hurry struct{}

// Hurried returns a context for a request that another model can answer if the server wants no requests for long.
func Hurried(ctx context.Context) context.Context { return context.WithValue(ctx, hurry{}, true) }

// InHurry reports whether ctx is one of [Hurried].
func InHurry(ctx context.Context) bool { return ctx.Value(hurry{}) != nil }

// Permit is the right to send one request. Its methods may be called by several
// goroutines; calls after Leave have no effect.
type Permit interface {
	// Active reports that the server has sent something.
	Active()
	// Allowed reports what the server has just said about further requests.
	Allowed(Allowance)
	// Leave gives the permit back, with the outcome of the request.
	Leave(Report)
}

// Report is the outcome of one request. From it the Admission learns when it may let further
// requests pass.
type Report struct {
	Kind       Kind          `json:"kind,omitempty"`        // empty means success
	Cancelled  bool          `json:"cancelled,omitempty"`   // ended by the caller: neither success nor failure
	RetryAfter time.Duration `json:"retry_after,omitempty"` // how long the server asked to wait
	Usage      task.Usage    `json:"usage,omitzero"`
	Timing     Timing        `json:"timing,omitzero"`
}

// Timing is how long a request took, as the server reports it. A time is zero if the server does
// not report it.
type Timing struct {
	Queued time.Duration `json:"queued,omitempty"` // before the server began to work on it
	Served time.Duration `json:"served,omitempty"` // reading the prompt and writing the answer
}

// ReportOf returns the Report of a request that ended with the response r and the error err. If ctx
// is done, a failed request counts as cancelled.
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
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled): // the caller ended it
		rep.Cancelled = true
	default:
		rep.Kind = Rejected
	}
	return rep
}
