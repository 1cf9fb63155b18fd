package gate

import (
	"context"

	"github.com/failsafe-go/failsafe-go"
)

// Repeat calls f and retries it after temporary failures, as p says. It is for look-ups, which
// are not requests to a model and do not pass the gate.
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
