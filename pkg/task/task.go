// Package task holds the nouns that every room of qq shares: a [Task] is what
// somebody wants done, a [Result] is what became of it, a [Status] says how it
// ended, and [Limits] bound what it may use.
//
// A Task is written by people and by models, so its JSON is read strictly: an
// unknown key or a value of the wrong type is an error that names the key. A
// Result is read by scripts: its first five fields (task, agent, success,
// output, error) are always there and error is null exactly on success.
//
// Nothing here starts, waits or reads a clock.
package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// DefaultAgent runs a task that names no agent.
const DefaultAgent = "default"

// MaxText is the longest text of a task, in bytes. Documents travel as files
// or as context, not as the text of a task.
const MaxText = 1 << 20

// Task is one piece of work for one agent.
type Task struct {
	// Text says what to do. It is required.
	Text string `json:"task"`
	// Agent names the definition that does it; empty means [DefaultAgent].
	Agent string `json:"agent,omitempty"`
	// ID is the caller's own name for the task, returned with its result.
	ID string `json:"id,omitempty"`
	// Context is text that the task is about: piped input, notes of the caller.
	Context string `json:"context,omitempty"`
	// Timeout bounds the run time in seconds; 0 means the limit of the run.
	Timeout float64 `json:"timeout,omitempty"`
	// Model overrides the model of the agent and of the run.
	Model string `json:"model,omitempty"`
	// ReadOnly takes away every tool that can change something.
	ReadOnly bool `json:"read_only,omitempty"`
	// Schema is a JSON Schema that the answer must satisfy.
	Schema json.RawMessage `json:"schema,omitempty"`
	// WorkingDir is the directory that the task works in; empty means that of
	// the caller.
	WorkingDir string `json:"working_dir,omitempty"`
	// Targets are the files, folders and globs that the task will touch, relative
	// to its working directory.
	Targets []string `json:"targets,omitempty"`
	// RequireFileReferences sends an answer back that has no path:line references
	// to lines that exist.
	RequireFileReferences bool `json:"require_file_references,omitempty"`

	// Idempotent says that doing the task twice does no harm: it is repeated after
	// a fault although it may have had side effects.
	Idempotent bool `json:"idempotent,omitempty"`
	// File is the path of the file that a batch made the task of. Only qq batch sets
	// it.
	File string `json:"file,omitempty"`
	// Part says that the task is a part of a document that is too long for the model
	// of whoever asks: it goes to the summarizer whatever else that agent may ask.
	Part bool `json:"part,omitempty"`
	// Temporary is an agent made for this task alone, instead of a registered
	// one. A person's tasks have none: only the tool spawn_agent makes it.
	Temporary *Temporary `json:"temporary,omitempty"`
	// Denied are tools that nobody who works on the task, or on what is delegated
	// from it, may use. It is handed down by the root and never read from input.
	Denied []string `json:"-"`
	// Dir is the real path of the working directory when the task was granted; empty
	// for a task that a person gave. The child refuses to work anywhere else.
	Dir string `json:"-"`
}

// Temporary is an agent that another agent made up.
type Temporary struct {
	Prompt string   `json:"prompt,omitempty"` // the system prompt; empty is a general one
	Tools  []string `json:"tools,omitempty"`  // empty is what whoever made it has
}

// Normalized returns t with its defaults filled in.
func (t Task) Normalized() Task {
	if strings.TrimSpace(t.Agent) == "" {
		t.Agent = DefaultAgent
	}
	return t
}

// Validate reports what is wrong with t, without looking at the world.
func (t Task) Validate() error {
	switch {
	case strings.TrimSpace(t.Text) == "":
		return errors.New("task is empty")
	case len(t.Text) > MaxText:
		return fmt.Errorf("task is %d bytes long, at most %d: put documents into files or context", len(t.Text), MaxText)
	case !utf8.ValidString(t.Text):
		return errors.New("task is not valid UTF-8")
	case strings.ContainsRune(t.Text, 0):
		return errors.New("task contains a NUL character")
	case t.Timeout < 0:
		return fmt.Errorf("timeout is %v: use seconds above 0", t.Timeout)
	case !(t.Timeout <= maxTimeout): // true of NaN as well
		return fmt.Errorf("timeout is %v: use seconds, at most %d", t.Timeout, maxTimeout)
	}
	return nil
}

// Deadline is how long t may run when the limit of the run is limit; zero
// means without bound.
func (t Task) Deadline(limit time.Duration) time.Duration {
	if t.Timeout > 0 {
		return time.Duration(t.Timeout * float64(time.Second))
	}
	return limit
}

// Usage counts tokens.
type Usage struct {
	InputTokens  int `json:"input_tokens"`
	OutputTokens int `json:"output_tokens"`
}

// Add returns the sum of u and v.
func (u Usage) Add(v Usage) Usage {
	return Usage{u.InputTokens + v.InputTokens, u.OutputTokens + v.OutputTokens}
}

// Result is what became of one task.
type Result struct {
	Task    string  `json:"task"` // shortened to 100 characters
	Agent   string  `json:"agent"`
	Success bool    `json:"success"`
	Output  string  `json:"output"`
	Error   *string `json:"error"` // null exactly on success

	ID                string          `json:"id,omitempty"`
	Index             int             `json:"index"`
	Status            Status          `json:"status"`
	ExitCode          int             `json:"exit_code"`
	Attempts          int             `json:"attempts"`
	DurationMS        int64           `json:"duration_ms"`
	QueuedMS          int64           `json:"queued_ms"`
	Usage             Usage           `json:"usage"`
	Truncated         bool            `json:"truncated"`
	OutputFile        string          `json:"output_file,omitempty"`
	ExecutionID       string          `json:"execution_id,omitempty"`
	ParentExecutionID string          `json:"parent_execution_id,omitempty"`
	BatchID           string          `json:"batch_id,omitempty"`
	ChangedFiles      []string        `json:"changed_files,omitempty"`
	Structured        json.RawMessage `json:"structured,omitempty"`
	// Model is what did it; empty is not known.
	Model string `json:"model,omitempty"`
	// Cached says that nothing was run: an earlier result of the same task holds.
	Cached bool `json:"cached,omitempty"`
	// Warnings are remarks on a result that does not fail for them.
	Warnings []string `json:"warnings,omitempty"`
	// Effects says that whoever worked on the task began something that cannot be
	// taken back by not looking at it: a write, a command.
	Effects bool `json:"-"`
	// Unrecorded says that the result could not be made durable: whoever goes on
	// where this left off runs the task again.
	Unrecorded bool `json:"-"`
	// Reads are the calls by which the task read, when all that it did was read.
	Reads []Read `json:"-"`
}

// Read is one call of a tool that only reads, and what it came to: while that is
// the same, so is what the task knew.
type Read struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Digest    string          `json:"digest"` // of the content of the result, SHA-256 in hex
}

// Ended returns a Result of t with the status and, unless that is success, the
// error text msg.
func (t Task) Ended(status Status, msg string) Result {
	r := Result{Task: Shorten(t.Text, 100), Agent: t.Agent, ID: t.ID}
	r.End(status, msg)
	return r
}

// End sets the status of r and what follows from it: success, exit code and
// error. A status other than [Completed] without msg gets a text of its own.
func (r *Result) End(status Status, msg string) {
	r.Status, r.Success, r.ExitCode, r.Error = status, status == Completed, status.ExitCode(), nil
	if r.Success {
		return
	}
	if msg == "" {
		msg = string(status)
	}
	r.Error = &msg
}

// Err is the error text of r, empty on success.
func (r Result) Err() string {
	if r.Error == nil {
		return ""
	}
	return *r.Error
}

// Limits bound a run and every task in it.
type Limits struct {
	ChildTimeout time.Duration // run time of one child; 0 is no limit
	IdleTimeout  time.Duration // time without any activity; 0 is no limit
	MaxParallel  int           // children at work at once, in the whole tree
	MaxDepth     int           // depth at which spawning fails
	MaxChildren  int           // children that agents may start in one run
	MaxOutput    int           // characters of one output that are handed on
	MaxTokens    int           // of the whole tree; 0 is no limit
	SpawnRate    int           // children that agents may start in a minute; 0 is no limit
	Retries      int           // attempts after the first
}

// Shorten returns s on one line, cut to n characters with "..." at the end.
func Shorten(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	n = max(n, 0)
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	const dots = "..."
	left := max(n-len(dots), 0)
	for i := range s {
		if left == 0 {
			return s[:i] + dots[:min(n, len(dots))]
		}
		left--
	}
	return s
}

// Child is what an agent can know about a child that it started and did not wait
// for.
type Child struct {
	ID     string `json:"id"` // execution id
	Agent  string `json:"agent"`
	Task   string `json:"task"`   // shortened to 100 characters
	Status Status `json:"status"` // queued, running, waiting, or how it ended
}

// Family is what an agent may ask about the children that it did not wait for.
// Its methods may be called by several goroutines at once.
type Family interface {
	// Spawn starts t in the background and returns at once.
	Spawn(ctx context.Context, t Task) (Child, error)
	// Children lists those whose results were not collected yet, oldest first.
	Children(ctx context.Context) ([]Child, error)
	// Wait collects the results of the children with these ids, or of all when
	// there are none, in that order. After atMost, unless it is 0, it returns the
	// results of those that have ended; the others go on.
	Wait(ctx context.Context, ids []string, atMost time.Duration) ([]Result, error)
	// Terminate ends one child and what it started, and no other.
	Terminate(ctx context.Context, id string) error
	// Send hands text to the running child with that id, or to the agent that
	// started this one with [Parent]. It is read before the next model call.
	Send(ctx context.Context, to, text string) error
}

// Delegator hands tasks to other agents.
type Delegator interface {
	// Delegate returns when all tasks have ended, with one result for each, in their
	// order. It enforces the limits; it may be called by several goroutines at once.
	Delegate(ctx context.Context, tasks []Task) []Result
}

// ErrAbandoned ends children in the background whose parent has ended without
// collecting them.
var ErrAbandoned = &Error{Status: Cancelled, Problem: "ended with its parent, which did not wait for it"}

// Parent names the agent that started an agent, for [Family.Send].
const Parent = "parent"

// MaxMessage is the longest message that agents may send to each other, in
// bytes.
const MaxMessage = 64 << 10

// Job is a task that has been given a place in the tree of tasks. It is data: what its
// agent may ask is handed to it beside the job.
type Job struct {
	Task
	ExecutionID string
	Parent      string // execution id of the agent that asked; empty for job zero
	BatchID     string
	Session     string        // id of the transcript, of job zero
	Index       int           // in its batch or its delegation
	Depth       int           // 1 for a child of the root
	Deadline    time.Time     // zero is none
	Allowed     time.Duration // what the deadline allowed at the start; zero is without bound
	Idle        time.Duration // time without any activity after which it is ended; zero is no limit
	Attempt     int           // counts from 1
}
