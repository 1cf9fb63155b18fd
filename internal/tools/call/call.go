// Package call holds what all tools share: a tool made of a function, the decoding
// of arguments, and what is special about a file.
//
// Arguments come from models. The answer to an unknown argument or a wrong type
// names it and the accepted ones; a number or a flag written as text is accepted.
// An error is a failed result that begins with "Error: ".
package call

import (
	"context"
	"encoding/json"
	"errors"

	"qq/pkg/tool"
)

// Function is a tool made of a description and a function.
type Function struct {
	About tool.Spec
	Do    Do
	// Intent implements Plan; nil means that About says enough.
	Intent func(ctx context.Context, args json.RawMessage) (tool.Intent, error)
}

// Answer is the answer to a call of a Function.
type Answer struct {
	Text    string
	Changed []string // files that the call changed
	Refused string   // why its purpose was not allowed, or ""
}

// Do is what a tool does on a call.
type Do = func(ctx context.Context, args json.RawMessage) (Answer, error)

// Text is the Do of a function that answers with text alone.
func Text(do func(context.Context, json.RawMessage) (string, error)) Do {
	return func(ctx context.Context, args json.RawMessage) (Answer, error) {
		text, err := do(ctx, args)
		return Answer{Text: text}, err
	}
}

var _ tool.Planner = Function{}

// Spec implements tool.Tool.
func (f Function) Spec() tool.Spec { return f.About }

// Run implements tool.Tool.
func (f Function) Run(ctx context.Context, args json.RawMessage) tool.Result {
	a, err := f.Do(ctx, args)
	r := tool.Text(a.Text)
	if err != nil {
		r = tool.Failure("Error: " + err.Error())
		if plain, ok := errors.AsType[Plain](err); ok {
			r.Content = string(plain)
		}
	}
	r.Changed = a.Changed
	if a.Refused != "" {
		r.Refused = &tool.RefusedError{Tool: f.About.Name, Reason: a.Refused}
	}
	return r
}

// Plan implements tool.Planner.
func (f Function) Plan(ctx context.Context, args json.RawMessage) (tool.Intent, error) {
	if f.Intent == nil {
		return tool.Intent{}, nil
	}
	return f.Intent(ctx, args)
}

// Plain is an error whose text goes to the model as it is, without "Error: ".
type Plain string

func (p Plain) Error() string { return string(p) }
