// Package task defines the types that all of qq shares: a [Task] is a piece of work for
// an agent, a [Result] is its outcome, a [Status] says how it ended, and [Limits] bound
// what it may use.
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
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"qq/pkg/money"
	"qq/pkg/picture"
)

// DefaultAgent is the name of the agent for a task that names none.
const DefaultAgent = "default"

// roles are those of agents, see package agents.
var roles = []string{"", "information-gathering", "content-modification"}

// maxPriority bounds the priority of a task, in both directions.
const maxPriority = 1000

// MaxText is the longest text of a task, in bytes. Longer documents are passed as files or as
// context, not as the text of a task.
const MaxText = 16 << 20

// MaxCheck is the longest check of a task, in bytes.
const MaxCheck = 64 << 10

// MaxTargets is how many targets a task may have, and MaxTarget the longest one, in bytes, as of a path on Linux.
const MaxTargets, MaxTarget = 1000, 4096

// Task is one piece of work for one agent.
type Task struct {
	// Text says what to do. It is required.
	Text string `json:"task"`
	// Agent names the definition that does it; empty means [DefaultAgent].
	Agent string `json:"agent,omitempty"`
	// ID is the caller's own name for the task, returned with its result.
	ID string `json:"id,omitempty"`
	// Context is the text that the task is about, such as piped input or notes of the caller.
	Context string `json:"context,omitempty"`
	// Timeout bounds the run time in seconds; 0 means the limit of the run.
	Timeout float64 `json:"timeout,omitempty"`
	// Model replaces the model of the agent and that of the run; empty means no change.
	Model string `json:"model,omitempty"`
	// ReadOnly removes every tool that can change something.
	ReadOnly bool `json:"read_only,omitempty"`
	// Schema is a JSON Schema that the answer must satisfy; nil means none.
	Schema json.RawMessage `json:"schema,omitempty"`
	// WorkingDir is the directory that the task works in; empty means that of
	// the caller.
	WorkingDir string `json:"working_dir,omitempty"`
	// Targets are the files, folders and globs that the task will touch, relative
	// to its working directory.
	Targets []string `json:"targets,omitempty"`
	// Needs are the ids of tasks of the same batch that must be completed before this one starts.
	Needs []string `json:"needs,omitempty"`
	// Priority orders the tasks that could start: higher ones first. 0 is the usual one.
	Priority int `json:"priority,omitempty"`
	// Role says what the task is for, with the roles of agents. Empty means that of its agent.
	Role string `json:"role,omitempty"`
	// Check is a command line that must succeed, in the directory of the task, after the agent says that
	// the task is done. Empty means none.
	Check string `json:"check,omitempty"`
	// CheckAsked says that Check needs the approval that a command of the agent needs, because no person gave it:
	// a model wrote it, or it stands in a file that nobody trusts. The root sets it, and qq plan writes it into a plan.
	CheckAsked bool `json:"check_asked,omitempty"`
	// RequireChange says that the task is not completed if nothing was changed. Only qq itself sets it, for a task
	// that may change something.
	RequireChange bool `json:"require_change,omitempty"`
	// RequireFileReferences says that an answer must contain references (path:line) to existing
	// lines; otherwise it is rejected.
	RequireFileReferences bool `json:"require_file_references,omitempty"`

	// Idempotent says that running the task twice does no harm. The task is then repeated after a
	// failure even if it may have had side effects.
	Idempotent bool `json:"idempotent,omitempty"`
	// File is the path of the file for which a batch made the task. Only qq batch sets it.
	File string `json:"file,omitempty"`
	// Input is what the template of a batch was filled with: the name of a file, a line or a row; empty for a task
	// without a template. Only qq batch sets it, and it is no part of what the task asks for.
	Input string `json:"-"`
	// OtherFiles are more files for which the task was made. Only qq batch -n sets it.
	OtherFiles []string `json:"other_files,omitempty"`
	// Images are shown to the model with the text. Without data, they are files of the working directory, which the
	// agent reads. Only qq itself sets them.
	Images []picture.Image `json:"images,omitempty"`
	// Slots are the offsets in Text of each {%}, which becomes a number when the task starts: the lowest
	// that no other running task of the batch has. Only qq batch sets it.
	Slots []int `json:"slots,omitempty"`
	// Broken says why the task fails as soon as it starts, such as an input that is not UTF-8. Only qq
	// batch sets it: one bad name does not keep the others from running.
	Broken string `json:"broken,omitempty"`
	// Part says that the task is to summarize one part of a document that is too long for the model
	// of an agent. The agent summarizer runs it, even if the agent that asks may not delegate.
	Part bool `json:"part,omitempty"`
	// Needed is a digest of the results of Needs. The root sets it when they are there.
	Needed string `json:"-"`
	// Temporary is an agent that was defined for this task alone, instead of a registered one.
	// Only the tool spawn_agent sets it.
	Temporary *Temporary `json:"temporary,omitempty"`
	// Denied are tools that neither the agent of this task nor its descendants may use. The root
	// sets it; it cannot be set in JSON.
	Denied []string `json:"-"`
	// ModelBy is the name of the agent that chose Model; empty if a person did, or if there is none. The
	// root sets it.
	ModelBy string `json:"-"`
	// Dir is the real path of the working directory at the time when the root allowed the task;
	// empty for a task from a person. The child refuses to work in any other directory.
	Dir string `json:"-"`
}

// Temporary is an agent that another agent defined.
type Temporary struct {
	Name   string   `json:"name,omitempty"`   // empty means that it gets one
	Prompt string   `json:"prompt,omitempty"` // the system prompt; empty means a general one
	Tools  []string `json:"tools,omitempty"`  // empty means all tools of the agent that defined it
}

// HasGivenCheck reports whether t has a check that a person gave, which needs no approval.
func (t Task) HasGivenCheck() bool { return t.Check != "" && !t.CheckAsked }

// Normalized returns t with its default filled in: a task without an agent gets [DefaultAgent].
func (t Task) Normalized() Task {
	if strings.TrimSpace(t.Agent) == "" {
		t.Agent = DefaultAgent
	}
	return t
}

// Validate returns what is wrong with t itself, or nil. It does not look at files or agents.
func (t Task) Validate() error {
	switch {
	case strings.TrimSpace(t.Text) == "":
		return errors.New("task is empty")
	case len(t.Text) > MaxText:
		return fmt.Errorf("task is %d bytes long, at most %d: put documents into files or context", len(t.Text),
			MaxText)
	case !utf8.ValidString(t.Text):
		return errors.New("task is not valid UTF-8")
	case strings.ContainsRune(t.Text, 0):
		return errors.New("task contains a NUL character")
	case len(t.Images) > picture.MaxCount:
		return fmt.Errorf("task has %d images, at most %d", len(t.Images), picture.MaxCount)
	case !slices.Contains(roles, t.Role):
		return fmt.Errorf("role is %q: use %s", Shorten(t.Role, 40), strings.Join(roles[1:], " or "))
	case t.Priority < -maxPriority || t.Priority > maxPriority:
		return fmt.Errorf("priority is %d: use a number from %d to %d", t.Priority, -maxPriority, maxPriority)
	case t.Check != "" && strings.TrimSpace(t.Check) == "":
		return errors.New("check is empty: write a command, or leave it out")
	case len(t.Check) > MaxCheck:
		return fmt.Errorf("check is %d bytes long, at most %d: put it into a script", len(t.Check), MaxCheck)
	case strings.ContainsRune(t.Check, 0):
		return errors.New("check contains a NUL character")
	case slices.Contains(t.Targets, "") || slices.Contains(t.Needs, ""):
		return errors.New("targets and needs must not contain an empty text")
	case len(t.Targets) > MaxTargets:
		return fmt.Errorf("task has %d targets, at most %d: name their folder, or a glob", len(t.Targets), MaxTargets)
	case slices.ContainsFunc(t.Targets, func(s string) bool { return len(s) > MaxTarget }):
		return fmt.Errorf("a target has more than %d bytes: give each path as one target", MaxTarget)
	case slices.ContainsFunc(t.Targets, func(s string) bool { return strings.ContainsRune(s, 0) }):
		return errors.New("a target contains a NUL character")
	case t.Timeout < 0:
		return fmt.Errorf("timeout is %v: use seconds above 0", t.Timeout)
	case !(t.Timeout <= maxTimeout): // also true for NaN
		return fmt.Errorf("timeout is %v: use seconds, at most %d", t.Timeout, maxTimeout)
	}
	return nil
}

// Deadline returns how long t may run: its own timeout, or limit if it has none. 0 means no limit.
func (t Task) Deadline(limit time.Duration) time.Duration {
	if t.Timeout > 0 {
		return time.Duration(t.Timeout * float64(time.Second))
	}
	return limit
}

// Usage is how many tokens were sent to a model and received from it.
type Usage struct {
	InputTokens  int `json:"input_tokens"` // CachedTokens included
	OutputTokens int `json:"output_tokens"`
	CachedTokens int `json:"cached_tokens,omitempty"` // those of the input that the server had in its cache
	// Cost is what the tokens cost of which the price is known, and PricedTokens is how many these are, of input and
	// output together. So a cost is not known without any, and without some it is the least.
	Cost         money.Amount `json:"cost,omitempty"`
	PricedTokens int          `json:"priced_tokens,omitempty"`
}

// Tokens returns the sum of input and output.
func (u Usage) Tokens() int { return u.InputTokens + u.OutputTokens }

// At returns u with what it costs at the price p. written is how many tokens of the input the server put into
// its cache.
func (u Usage) At(p money.Price, written int) Usage {
	u.PricedTokens = u.Tokens()
	u.Cost = p.Of(money.Tokens{In: u.InputTokens, Out: u.OutputTokens, Cached: u.CachedTokens, Written: written})
	return u
}

// Bounded returns u with each value from 0 to most. What contradicts others is cut off.
func (u Usage) Bounded(most int) Usage {
	u.InputTokens, u.OutputTokens = min(max(u.InputTokens, 0), most), min(max(u.OutputTokens, 0), most)
	u.CachedTokens = min(max(u.CachedTokens, 0), u.InputTokens)
	u.Cost, u.PricedTokens = u.Cost.Bounded(), min(max(u.PricedTokens, 0), u.Tokens())
	return u
}

// Add returns the sum of u and v.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		u.InputTokens + v.InputTokens, u.OutputTokens + v.OutputTokens, u.CachedTokens + v.CachedTokens,
		u.Cost.Add(v.Cost), u.PricedTokens + v.PricedTokens,
	}
}

// Result is the outcome of one task.
type Result struct {
	Task    string  `json:"task"` // see [Task.Brief]
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
	Did               *Did            `json:"did,omitempty"` // nil means nothing, or that it is not known
	Structured        json.RawMessage `json:"structured,omitempty"`
	// Model is the model that the task ran with; empty means not known.
	Model string `json:"model,omitempty"`
	// Cached says that the task was not run again: the result is that of an earlier run of the same
	// task.
	Cached bool `json:"cached,omitempty"`
	// Warnings are problems that did not make the task fail.
	Warnings []string `json:"warnings,omitempty"`
	// Away is when the task had lent its slot to others.
	Away []Span `json:"-"`
	// Fallback is how many models could not be had before the one that answered; see Model.
	Fallback int `json:"-"`
	// Effects says that the task or one of its descendants may have had side effects, such as a
	// write or a command.
	Effects bool `json:"-"`
	// Unrecorded says that the result could not be made durable. If its batch is resumed, the task
	// runs again.
	Unrecorded bool `json:"-"`
	// Hindered says that nothing lasting was done, because the machine could not start the task or keep
	// its answer. It can be launched again.
	Hindered bool `json:"-"`
	// Unsaid are the files that changed while the task ran commands, and that no tool has reported. Somebody else may
	// have changed them.
	Unsaid []string `json:"-"`
	// Reads are the calls by which the task read something. nil means that they are not known, or
	// that the task did more than read.
	Reads []Read `json:"-"`
}

// Span is a stretch of the time of a task, in milliseconds since it got its slot.
type Span struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// Read is one call of a tool that only reads, with a digest of its result. If a new call gives the
// same digest, the task would read the same content again.
type Read struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Digest    string          `json:"digest"` // SHA-256 of the content of the result, in hex
}

// Ended returns a result of t with that status. msg is the error text; with Completed it is
// ignored.
func (t Task) Ended(status Status, msg string) Result {
	r := Result{Task: t.Brief(), Agent: t.Agent, ID: t.ID}
	r.End(status, msg)
	return r
}

// End sets the status of r, and the success, exit code and error that follow from it. If msg is
// empty, the error text of a failure is the name of the status.
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

// NotStarted reports whether the task was left out, because it was cancelled before it had begun.
func (r Result) NotStarted() bool { return r.Attempts == 0 && r.Status == Cancelled }

// Err returns the error text of r, or "" if r is a success.
func (r Result) Err() string {
	if r.Error == nil {
		return ""
	}
	return *r.Error
}

// Limits are the limits of a run and of each task in it.
type Limits struct {
	ChildTimeout time.Duration // run time of one child; 0 means no limit
	IdleTimeout  time.Duration // time without activity; 0 means no limit
	MaxParallel  int           // children that run at once in the whole tree
	MaxDepth     int           // depth at which spawning fails
	MaxChildren  int           // children that agents may start in one run
	MaxOutput    int           // characters of an output that another agent gets
	MaxTokens    int           // tokens of the whole tree; 0 means no limit
	SpawnRate    int           // children that agents may start in a minute; 0 means no limit
	Retries      int           // attempts after the first
}

// Brief returns the beginning of the text of t on one line, as lists and results have it.
func (t Task) Brief() string { return Shorten(t.Text, 100) }

// Shorten returns s on one line with at most n characters. If it cuts something off, "..." stands
// at the end.
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

// Child describes a background child of an agent.
type Child struct {
	ID     string `json:"id"` // execution id
	Agent  string `json:"agent"`
	Task   string `json:"task"`   // see [Task.Brief]
	Status Status `json:"status"` // queued, running, waiting, or how it ended
}

// Family is what an agent may do with its background children. Its methods may be called
// by several goroutines at once.
type Family interface {
	// Spawn starts t in the background and returns at once.
	Spawn(ctx context.Context, t Task) (Child, error)
	// Children lists the background children whose results were not collected yet, oldest
	// first.
	Children(ctx context.Context) ([]Child, error)
	// Wait waits for the children with these ids, or for all children if ids is empty, and returns
	// their results in that order. If atMost is not 0, Wait returns after that time at the latest,
	// with the results of the children that have ended; the others continue.
	Wait(ctx context.Context, ids []string, atMost time.Duration) ([]Result, error)
	// Terminate ends the child with that id together with all its descendants.
	Terminate(ctx context.Context, id string) error
	// Send sends text to another agent: to the child with the id to, or, if to is [Parent], to the
	// agent that started this one. The receiver reads the text before its next model call. For a
	// child that is queued, the text is kept until it starts.
	Send(ctx context.Context, to, text string) error
}

// Delegator hands tasks to other agents.
type Delegator interface {
	// Delegate runs tasks and returns when all have ended. There is one result for each task, in
	// the same order. A task that a limit or a rule does not allow gets a result that says so.
	// Several goroutines may call Delegate at once.
	Delegate(ctx context.Context, tasks []Task) []Result
}

// ErrAbandoned is the cause with which a background child is cancelled when its parent ends without
// collecting its result.
var ErrAbandoned = &Error{Status: Cancelled, Problem: "ended with its parent, which did not wait for it"}

// Parent is the receiver that [Family.Send] takes for the agent that started this one.
const Parent = "parent"

// MaxMessage is the longest message that agents may send to each other, in
// bytes.
const MaxMessage = 64 << 10

// Job is a task together with its place in the tree of tasks and its limits. The supervisor makes
// one for each task that it runs.
type Job struct {
	Task
	ExecutionID string
	Parent      string // execution id of the agent that delegated it; empty for job zero
	BatchID     string
	Group       string        // batch_id in events of the tasks of one run_parallel_tasks; nothing else knows it
	Call        string        // id of the tool call of its parent that started it; may be empty
	Session     string        // id of the transcript; set for job zero only
	Index       int           // in its batch or delegation, from 0
	Depth       int           // 1 for a child of the root
	Queued      time.Time     // when it was accepted
	Deadline    time.Time     // zero means none
	Allowed     time.Duration // time to the deadline at the start; zero means no limit
	Idle        time.Duration // time without activity before it is ended; zero means no limit
	Attempt     int           // counts from 1
}

// Sign fills in which job r belongs to: its task, its agent and its ids.
func (j *Job) Sign(r *Result) {
	r.Task, r.Agent, r.ID = j.Brief(), j.Agent, j.ID
	r.ExecutionID, r.ParentExecutionID, r.BatchID = j.ExecutionID, j.Parent, j.BatchID
}
