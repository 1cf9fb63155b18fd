package tool

import (
	"context"
	"encoding/json"
	"errors"
)

// Function is a tool made of a description and a function that executes its calls.
type Function struct {
	About Spec
	Do    Do
	// Intent implements Plan; nil means that the description says enough.
	Intent func(ctx context.Context, args json.RawMessage) (Intent, error)
}

// Do executes one call of a Function. An error makes a failed Result, which begins with
// "Error: "; of the Result that comes with it, only Changed and Refused count.
type Do = func(ctx context.Context, args json.RawMessage) (Result, error)

// TextOnly makes the Do of a function that returns text alone.
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
		r.Refused = &RefusedError{Tool: f.About.Name, Reason: r.Refused.Reason}
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

// Plain is an error whose text goes to the model as it is, without "Error: ".
type Plain string

func (p Plain) Error() string { return string(p) }
