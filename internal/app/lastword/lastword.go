// Package lastword gives an agent of this process, whose clock ran out, time for a final answer, as a child has.
package lastword

import (
	"context"
	"time"

	"qq/pkg/task"
)

// cause is the cause with which the agent is cancelled. It implements loop.Grace.
type cause struct {
	error
	ran  time.Duration // until it was cancelled
	most time.Duration
}

// Unwrap returns the cause itself.
func (c cause) Unwrap() error { return c.error }

// HandBack implements loop.Grace. It is at most half of the time that the agent had, so that a short limit stays
// short.
func (c cause) HandBack() time.Duration {
	if s := task.StatusOf(c.error); s == task.Timeout || s == task.Idle {
		return min(c.most, c.ran/2)
	}
	return 0
}

// With returns a context that is cancelled with ctx. If a clock ended ctx, the cause leaves at most the time most for
// a final answer.
func With(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	start := time.Now()
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { cancel(cause{context.Cause(ctx), time.Since(start), most}) })
	return own, func() { stop(); cancel(nil) }
}
