package tool

import (
	"context"
	"encoding/json"
	"errors"
)

// Function is a tool that consists of a description and a function that runs its calls.
type Function struct {
	About Spec
	Do    Do
	// Intent implements Plan. If it is nil, the Intent of a call follows from the Spec alone.
	Intent func(ctx context.Context, args json.RawMessage) (Intent, error)
}

// Do runs one call of a Function. On error, the Result of the call is failed and its text is
// "Error: " and the error. Of the Result returned together with the error, only Footer, Changed,
// Warnings and Refused are used.
type Do = func(ctx context.Context, args json.RawMessage) (Result, error)

// TextOnly returns a Do for a function whose result is only a text.
func TextOnly(do func(context.Context, json.RawMessage) (string, error)) Do {
	return func(ctx context.Context, args json.RawMessage) (Result, error) {
		text, err := do(ctx, args)
		return Text(text), err
	}
}

var _ Planner = Function{}

// Spec implements Tool.
func (f Function) Spec() Spec { return f.About }

// Run implements Tool.
func (f Function) Run(ctx context.Context, args json.RawMessage) Result {
	r, err := f.Do(ctx, args)
	if err != nil {
		r.Content, r.Failed = "Error: "+err.Error(), true
		if plain, ok := errors.AsType[Plain](err); ok {
			r.Content = string(plain)
		}
	}
	if r.Refused != nil {
		r.Refused = &RefusedError{Tool: f.About.Name, Reason: r.Refused.Reason, Hint: r.Refused.Hint}
	}
	return r
}

// Plan implements Planner.
func (f Function) Plan(ctx context.Context, args json.RawMessage) (Intent, error) {
	if f.Intent == nil {
		return Intent{}, nil
	}
	return f.Intent(ctx, args)
}

// Plain is an error whose text the model gets as it is, without "Error: " before it.
type Plain string

func (p Plain) Error() string { return string(p) }
