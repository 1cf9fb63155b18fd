// Package toolbox holds the standard tools of an agent: [Files] looks into the
// working directory, [Delegation] hands work to other agents.
//
// Every path goes through one place (workspace): it stays inside the working
// directory, links included, and files that look like secrets are listed but
// not read. Every tree of files goes through one place as well, package
// tree, which obeys .gitignore.
//
// Arguments come from models. An unknown argument or a wrong type is answered
// with its name and the accepted ones; a number or a flag written as text is
// taken. What went wrong is a failed result that begins with "Error: ".
//
// Not promised: that a secret is recognised in a file of another name, and
// that a tree which changes meanwhile is seen at one moment.
package toolbox

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"qq/pkg/tool"
)

// function is a tool made of a description and a function.
type function struct {
	spec tool.Spec
	run  func(ctx context.Context, args json.RawMessage) (string, error)
}

var _ tool.Tool = function{}

func (f function) Spec() tool.Spec { return f.spec }

func (f function) Run(ctx context.Context, args json.RawMessage) tool.Result {
	text, err := f.run(ctx, args)
	if err == nil {
		return tool.Text(text)
	}
	if child, ok := errors.AsType[childError](err); ok {
		return tool.Failure(string(child))
	}
	return tool.Failure("Error: " + err.Error())
}

// define makes the specification of a tool. properties is the inside of the
// "properties" of its JSON Schema, required names those that must be there.
func define(name string, effect tool.Effect, description, properties string, required ...string) tool.Spec {
	schema := `{"type":"object","properties":{` + strings.Join(strings.Fields(properties), " ") + `}`
	if len(required) > 0 {
		schema += `,"required":["` + strings.Join(required, `","`) + `"]`
	}
	return tool.Spec{Name: name, Description: description, Effect: effect, Parameters: json.RawMessage(schema + `}`)}
}
