package tool

import (
	"context"
	"encoding/json"
	"errors"
)

// Function is a tool made of a description and a function.
type Function struct {
	About Spec
	Do    Do
	// Intent implements Plan; nil means that About says enough.
	Intent func(ctx context.Context, args json.RawMessage) (Intent, error)
}

// Answer is the answer to a call of a Function.
type Answer struct {
	Text    string
	Changed []string // files that the call changed
	Refused string   // why its purpose was not allowed, or ""
}

// Do is what a tool does on a call.
type Do = func(ctx context.Context, args json.RawMessage) (Answer, error)

// TextOnly makes the Do of a function that answers with text alone.
func TextOnly(do func(context.Context, json.RawMessage) (string, error)) Do {
	return func(ctx context.Context, args json.RawMessage) (Answer, error) {
		text, err := do(ctx, args)
		return Answer{Text: text}, err
	}
}

var _ Planner = Function{}

// Spec implements Tool.
func (f Function) Spec() Spec { return f.About }

// Run implements Tool.
func (f Function) Run(ctx context.Context, args json.RawMessage) Result {
	a, err := f.Do(ctx, args)
	r := Text(a.Text)
	if err != nil {
		r = Failure("Error: " + err.Error())
		if plain, ok := errors.AsType[Plain](err); ok {
			r.Content = string(plain)
		}
	}
	r.Changed = a.Changed
	if a.Refused != "" {
		r.Refused = &RefusedError{Tool: f.About.Name, Reason: a.Refused}
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
