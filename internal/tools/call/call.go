// Package call is what every tool of the toolbox is made of: the description of
// a tool, its arguments, and what its function answers.
//
// Arguments come from models. An unknown argument or a wrong type is answered
// with its name and the accepted ones; a number or a flag written as text is
// taken. What went wrong is a failed result that begins with "Error: ".
package call

import (
	"context"
	"encoding/json"
	"errors"

	"qq/pkg/tool"
)

// Function is a tool made of a description and a function. With a Planner the
// tool tells beforehand what a call would do.
type Function struct {
	About tool.Spec
	Do    Do
	// Intent says what a call would do; nil means what About says. An error is the
	// answer to the call: nobody is asked about what cannot work.
	Intent func(ctx context.Context, args json.RawMessage) (tool.Intent, error)
}

// Answer is what a call of a Function came to.
type Answer struct {
	Text    string
	Changed []string // files that the call changed
	Refused string   // why what it was for was not allowed, or ""
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
