package tool

import (
	"context"
	"encoding/json"
	"fmt"
)

// Risk is how much harm a call can do.
type Risk string

// The risks of a call. An empty Risk means the usual risk of its effect: see [Effect.Risk].
const (
	Low    Risk = "low"
	Medium Risk = "medium"
	High   Risk = "high"
)

// Risk returns the usual risk of a call with effect e.
func (e Effect) Risk() Risk {
	switch e {
	case Reads, Attends:
		return Low
	case Executes:
		return High
	}
	return Medium
}

// Intent describes what one call would do. It is made before the call runs, for the approval.
type Intent struct {
	Tool   string `json:"tool"`
	Effect Effect `json:"effect"`
	Risk   Risk   `json:"risk"`
	// Special says that the call touches secrets or files that other programs obey, such as .git.
	// Such a call needs an approval of its own, even if the tool is approved in general.
	Special bool `json:"special,omitempty"`
	// Paths are the files and folders that the call touches, relative to the
	// working directory, with slashes.
	Paths []string `json:"paths,omitempty"`
	// Summary is one line for a person: "edit docs/how.md", "run: go test ./...".
	Summary string `json:"summary"`
	// Tasks has a line for each task that the call hands to other agents.
	Tasks []string `json:"-"`
	// Preview is what a person needs to decide: a diff, a command line, the tasks.
	Preview string `json:"preview,omitempty"`
	// Cut says that Preview is not whole, because it would be too long. A person cannot allow such a
	// call.
	Cut bool `json:"cut,omitempty"`
	// Sums holds a checksum of each file that Preview is about, by its path; "" for a file that does
	// not exist. A tool refuses to change a file that is not like that any more. nil means that
	// nobody was shown the Preview.
	Sums map[string]string `json:"-"`
	// Command is the command that the call runs, as the model wrote it, and Dir its folder relative
	// to the working directory of the agent; empty means that one.
	Command string `json:"command,omitempty"`
	Dir     string `json:"dir,omitempty"`
	// Doubt says why no rule can allow the Command; empty means that one can.
	Doubt string `json:"doubt,omitempty"`
	// Denier is a denying rule that may mean the Command, though its words do not say so; empty means none. A person
	// is then asked, whatever allows the call.
	Denier string `json:"denier,omitempty"`
	// Host is the host that the call reaches, with its port if that is not the usual one.
	Host string `json:"host,omitempty"`
	// Rule is the rule that decided about the call by a pattern. The call must then do no more than the
	// rule could see: start the words of Command without a shell, reach no other Host.
	Rule string `json:"-"`
}

// Unchanged returns an error if the file at path is not as it was when a person was shown the call.
// sum is a checksum of the file as it is now, "" if it does not exist.
func (in Intent) Unchanged(path, sum string) error {
	shown, ok := in.Sums[path]
	what := "changed"
	switch {
	case !ok || sum == shown:
		return nil
	case shown == "":
		what = "created"
	case sum == "":
		what = "deleted"
	}
	return fmt.Errorf("%s was %s after this call was shown to the user, who allowed another change: "+
		"nothing was done to it; read it and call again", Visible(path), what)
}

// Question asks a person to approve a call, and says which agent makes it.
type Question struct {
	ID                string // set when the question is asked
	ExecutionID       string // of the agent that makes the call; empty for the root
	ParentExecutionID string
	BatchID           string
	CallID            string // of the call; may be empty
	Depth             int
	Chain             []string // names of the agents from the root to the one that asks
	Dir               string   // the agent's working directory, relative to the root's; empty means the same
	Folder            string   // its real path when the task was allowed; empty for a task from a person
	Task              string   // what the agent was asked to do
	Number            int      // of the task of qq batch that it works for, from 1; 0 outside of a batch
	Input             string   // of that task: its file, or else its text
	Intent            Intent
	Lasting           string // the rule that the person may make of the answer; empty if there is none
}

// Planner is a Tool that can say what a call would do, before the call runs.
type Planner interface {
	Tool
	// Plan returns what the call would do, without side effects. Empty fields of the Intent are
	// filled in from the Spec. An error is the answer to the call, and nobody is asked for
	// approval, because the call cannot work.
	Plan(ctx context.Context, args json.RawMessage) (Intent, error)
}

// Plan returns what a call of t with args would do, with the tool, effect, risk and summary filled
// in. If t is not a Planner, the Intent follows from its Spec. An error is the answer to the call.
func Plan(ctx context.Context, t Tool, args json.RawMessage) (Intent, error) {
	spec := t.Spec()
	var in Intent
	if p, ok := t.(Planner); ok {
		var err error
		if in, err = p.Plan(ctx, args); err != nil {
			return in, err
		}
	}
	in.Tool = spec.Name
	if in.Effect == "" {
		in.Effect = spec.Effect
	}
	if in.Risk == "" {
		in.Risk = in.Effect.Risk()
	}
	if in.Summary == "" {
		in.Summary = spec.Name
	}
	return in, nil
}

// Decision says whether a call may run.
type Decision struct {
	Allowed bool `json:"allowed"`
	// Shown says that a person saw this call and allowed it.
	Shown bool `json:"shown,omitempty"`
	// Reason says why not, in words for the model and for a person.
	Reason string `json:"reason,omitempty"`
	// Hint says to a person how to allow the call another time; it may be empty.
	Hint string `json:"hint,omitempty"`
	// Rule is the rule that allowed the call by a pattern: see [Intent].
	Rule string `json:"rule,omitempty"`
}

// RefusedError says that a call was not allowed. The model reads Reason, and the result of the task
// lists the refusal, with Hint for a person.
type RefusedError struct {
	Tool   string
	Reason string
	Hint   string // may be empty
}

func (e *RefusedError) Error() string { return e.Tool + " was refused: " + e.Reason }

// grantKey is the context key of the approved Intent.
type grantKey struct{}

// WithGrant returns the context in which a call runs after its Intent was approved. The tool finds
// the Intent with [Granted].
func WithGrant(ctx context.Context, in Intent) context.Context {
	return context.WithValue(ctx, grantKey{}, in)
}

// Granted returns the Intent that was approved for the call that runs in ctx. It returns false if
// there is none; a tool then refuses special acts, such as reading a file that looks like secrets.
func Granted(ctx context.Context) (Intent, bool) {
	in, ok := ctx.Value(grantKey{}).(Intent)
	return in, ok
}
