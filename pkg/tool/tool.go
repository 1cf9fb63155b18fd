// Package tool says what a model may call: a [Spec] describes a tool, a [Call]
// is what a model asked for, a [Result] is what it reads next, and a [Set] is
// what one agent has.
//
// A [Planner] says before a call what it would do, as an [Intent]. The approval of
// the call depends on that. A [Function] is a tool made of a function; [Decode] reads
// the arguments that a model wrote.
//
// A tool never panics on the arguments of a model and never fails the run. An
// error is a Result with Failed set, in words that help the model to correct the
// call. A call of a tool outside the Set is answered, not executed.
package tool

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"qq/pkg/picture"
)

// Effect is what kind of change a call can make.
type Effect string

// Effects, from harmless to harmful.
const (
	Reads     Effect = "reads"
	Attends   Effect = "attends" // manages children in the background
	Delegates Effect = "delegates"
	Writes    Effect = "writes"
	Network   Effect = "network"
	Executes  Effect = "executes"
)

// Spec describes a tool to a model and to the approval gate.
type Spec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"` // a JSON Schema of type object
	Effect      Effect          `json:"effect"`
}

// Call is one call that a model asks for. Arguments is a JSON object.
type Call struct {
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	// Signature is what the server wants back with the call in the next request: the thought signature of Gemini, the
	// thinking of Anthropic as JSON; empty for most.
	Signature string `json:"signature,omitempty"`
}

// maxID is how many bytes the id of a call has at most.
const maxID = 128

// ValidID reports whether id can be the id of a call: it is not empty, not too long, and has only
// visible characters of ASCII. Models and children may send anything.
func ValidID(id string) bool {
	return id != "" && len(id) <= maxID && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' })
}

// callKey is the context key of the call that runs.
type callKey struct{}

// WithCall returns the context in which the call c runs.
func WithCall(ctx context.Context, c Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// CallOf returns the call that runs in ctx, or an empty one if there is none.
func CallOf(ctx context.Context) Call {
	c, _ := ctx.Value(callKey{}).(Call)
	return c
}

// Result is the answer to a Call. The model reads Content next.
type Result struct {
	Content string
	Failed  bool
	// Images are shown to the model with Content.
	Images []picture.Image
	// Footer is the last line that the model reads, such as what the call cost. It is no part of Content:
	// calls that differ in it alone had the same result.
	Footer string
	// Changed are the files that the call changed, relative to the working
	// directory, with slashes.
	Changed []string
	// Ran is the command that the call ran; nil means none.
	Ran *Command
	// Warnings are for a person, one line each. They become warnings of the task.
	Warnings []string
	// Refused is set if the call was allowed but something that it asked for was not, such as the
	// start of a child. Otherwise it is nil.
	Refused *RefusedError
}

// Command is a command that a call ran to its end.
type Command struct {
	Line string
	// ExitCode is 128 and the number of the signal after a signal, and [ExitStopped] if the command had to be stopped.
	ExitCode int
}

// ExitStopped is the exit code of a command that was stopped, as that of timeout(1).
const ExitStopped = 124

// Text returns the Result of a call that succeeded; s is what the model reads.
func Text(s string) Result { return Result{Content: s} }

// Failure returns the Result of a call that failed; s says what went wrong.
func Failure(s string) Result { return Result{Content: s, Failed: true} }

// Tool is something that a model can call.
type Tool interface {
	Spec() Spec
	// Run runs one call and returns its result. It returns early when ctx is done. Several
	// goroutines may call it at once.
	Run(ctx context.Context, args json.RawMessage) Result
}

// Set is the tools of one agent, in the order in which they are offered.
type Set []Tool

// Lookup returns the tool of that name, and false if the set has none.
func (s Set) Lookup(name string) (Tool, bool) {
	i := slices.IndexFunc(s, func(t Tool) bool { return t.Spec().Name == name })
	if i < 0 {
		return nil, false
	}
	return s[i], true
}

// Names lists the names of the tools.
func (s Set) Names() []string {
	names := make([]string, len(s))
	for i, t := range s {
		names[i] = t.Spec().Name
	}
	return names
}

// Specs lists the descriptions of the tools.
func (s Set) Specs() []Spec {
	specs := make([]Spec, len(s))
	for i, t := range s {
		specs[i] = t.Spec()
	}
	return specs
}
