package gate

import (
	"context"

	"github.com/failsafe-go/failsafe-go"
)

// Repeat calls f, and again as p says while what is wrong may pass: for questions
// to a server that are no requests to a model, which pass no gate.
func Repeat(ctx context.Context, p Policy, f func(context.Context) error) error {
	var err error
	_ = failsafe.With[any](policy(p, wait, nil)).WithContext(ctx).Run(func() error { // it hides the cause of ctx
		err = f(ctx)
		return err
	})
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
