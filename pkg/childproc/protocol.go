package childproc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	"qq/pkg/agents"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/picture"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Version is the version of the protocol. Both ends are the same binary, so
// they must agree on it exactly.
const Version = 2

// Limits of one frame in bytes, including its newline. MaxUp limits frames from a child and is
// small, because an agent may follow untrusted input. MaxDown limits frames from the root, which
// hold whole results.
const (
	MaxUp   = 4 << 20
	MaxDown = 256 << 20
)

// MaxAsk is how many tasks one [Ask] may hold. The limit on the length of a frame is not enough: a
// task of three bytes takes hundreds of bytes of memory.
const MaxAsk = 1000

// maxAsking is how many requests of one child may be unanswered at a time, because each of them
// costs the root memory.
const maxAsking = 500

// Limits of the reads that a child reports. If one limit is exceeded, the child reports no reads at
// all.
const (
	maxReads     = 10_000
	maxArguments = 64 << 10 // bytes of the arguments of one read
)

// ControlVar is the environment variable that tells a process that it is a child. Its descriptors 3
// and 4 are then the control pipes: it reads frames of the root from 3 and writes its own to 4.
const ControlVar = "QQ_CONTROL"

// DepthVar is the environment variable with the depth of a child. A qq that a person starts by hand
// inside a child learns its depth from it.
const DepthVar = "QQ_RECURSION_DEPTH"

const (
	downFD = 3
	upFD   = 4
	// CommandsFD is the descriptor of a child on which it asks for commands, see [Commander].
	CommandsFD = 5
)

// Type is the type of a frame. A reader ignores frames of an unknown type and unknown fields, so
// that a later version can add some.
type Type string

// The types of frames. The root sends start, answer, message and cancel. The child sends hello,
// event, ask, changed, active, leave and result.
const (
	TypeStart   Type = "start"
	TypeAnswer  Type = "answer"
	TypeMessage Type = "message"
	TypeCancel  Type = "cancel"
	TypeHello   Type = "hello"
	TypeEvent   Type = "event"
	TypeAsk     Type = "ask"
	TypeChanged Type = "changed"
	TypeActive  Type = "active"
	TypeLeave   Type = "leave"
	TypeResult  Type = "result"
)

// Frame is one line on a control pipe: a JSON object with its type and, under the name of the type,
// its content. Only the field that Type names is set.
type Frame struct {
	Type    Type
	Start   *Start
	Answer  *Answer
	Message *Message
	Cancel  *Cancel
	Hello   *Hello
	Event   *event.Event
	Ask     *Ask
	Changed *Changed
	Active  *Active
	Leave   *Leave
	Result  *Result
}

// Hello is the first frame of a child, before it does any work.
type Hello struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"` // of the program
}

// Start is the first frame of the root. It holds all that a child needs to know, except the text of
// the task, which the child reads from stdin.
type Start struct {
	Protocol    int             `json:"protocol"`
	ExecutionID string          `json:"execution_id"`
	Parent      string          `json:"parent,omitempty"`
	BatchID     string          `json:"batch_id,omitempty"`
	Depth       int             `json:"depth"`
	Agent       agents.Agent    `json:"agent"`
	ReadOnly    bool            `json:"read_only,omitempty"` // of the task; Setup may forbid more
	Schema      json.RawMessage `json:"schema,omitempty"`
	// Dir is the path that the working directory of the child must have; empty means any.
	Dir string `json:"dir,omitempty"`
	// Denied are tools that the task may not use, even if its agent has them.
	Denied []string `json:"denied,omitempty"`
	// Targets are the files, folders and globs that the task will touch.
	Targets []string `json:"targets,omitempty"`
	// Check is a command that must succeed when the agent says that the task is done. CheckAsked says that it needs
	// an approval first. RequireChange says that something must be changed by then.
	Check         string `json:"check,omitempty"`
	CheckAsked    bool   `json:"check_asked,omitempty"`
	RequireChange bool   `json:"require_change,omitempty"`
	// Images are files that are shown to the model with the text.
	Images []picture.Image `json:"images,omitempty"`
	// References says that the answer must contain references to lines of files.
	References bool `json:"references,omitempty"`
	// Permit says that the child may send one request to the model without asking the root. This
	// permit has the id 0.
	Permit bool `json:"permit,omitempty"`
	// IdleMS is the time without any activity, in milliseconds, after which the root ends the
	// child; 0 means no limit. The child reports its activity several times within that time.
	IdleMS int64 `json:"idle_ms,omitempty"`
	// Models are the model that runs the task, and those that answer instead if it cannot be had. They are not sent;
	// the root puts the one that answered into the result.
	Models []string `json:"-"`
	// Setup holds settings that only the application reads, such as those of the model and the
	// tools.
	Setup json.RawMessage `json:"setup"`
}

// add fills in what job says: the ids and the depth of the child, and the restrictions of its task.
func (s *Start) add(job task.Job) {
	s.Protocol, s.ExecutionID, s.Parent, s.BatchID = Version, job.ExecutionID, job.Parent, job.BatchID
	s.Depth, s.IdleMS = job.Depth, job.Idle.Milliseconds()
	s.ReadOnly, s.Denied, s.Targets, s.Images = job.ReadOnly, job.Denied, job.Targets, job.Images
	s.Dir, s.References, s.Schema = job.Dir, job.RequireFileReferences, job.Schema
	s.Check, s.CheckAsked, s.RequireChange = job.Check, job.CheckAsked, job.RequireChange
}

// Ask is a request of a child to the root. Exactly one of the fields below Call is set.
type Ask struct {
	ID        int64        `json:"id"`
	Call      *Call        `json:"call,omitempty"` // in which the agent asks; nil means none
	Delegate  taskList     `json:"delegate,omitempty"`
	Spawn     *task.Task   `json:"spawn,omitempty"`
	Children  bool         `json:"children,omitempty"`
	Wait      *Wait        `json:"wait,omitempty"`
	Terminate string       `json:"terminate,omitempty"`
	Send      *Send        `json:"send,omitempty"`
	Approve   *tool.Intent `json:"approve,omitempty"`
	Enter     *Enter       `json:"enter,omitempty"`
	Effects   bool         `json:"effects,omitempty"` // record that the child is about to have its first side effect
}

// Call names a tool call of the agent.
type Call struct {
	ID   string `json:"id"`
	Tool string `json:"tool"`
}

// in returns the context in which the root acts for the call. A call without a valid id is none.
func (c *Call) in(ctx context.Context) context.Context {
	if c == nil || !tool.ValidID(c.ID) {
		return ctx
	}
	return tool.WithCall(ctx, tool.Call{ID: c.ID, Name: c.Tool})
}

// waits reports whether the answer to a may take long because it depends on a person or on other
// children. Those children may need a permit, so the child gives its own back first.
func (a Ask) waits() bool {
	return a.Approve != nil || len(a.Delegate) > 0 || a.Spawn != nil || a.Wait != nil
}

// Enter asks for a permit to send a request to a model. The permit has the id of the Ask. If it is
// granted, the answer is empty; otherwise its Fault or its Error says why not. A child that has a
// permit, or waits for one, may not ask for another.
type Enter struct {
	Model string `json:"model"`
	// Again says that the circuit breaker has refused the request before. The root then waits until
	// the breaker lets the request pass.
	Again bool `json:"again,omitempty"`
	Hurry bool `json:"hurry,omitempty"` // see [llm.Hurried]
}

// Leave gives back the permit with this id, or ends the wait for it. Report is the outcome of the
// request.
type Leave struct {
	ID     int64      `json:"id"`
	Report llm.Report `json:"report"`
}

// MarshalJSON encodes l without reflection. encoding/json analyses a type on first use, which would
// cost more than it saves here, because most children send only one Leave.
func (l Leave) MarshalJSON() ([]byte, error) {
	r := l.Report
	kind, err := json.Marshal(string(r.Kind))
	return fmt.Appendf(nil, `{"id":%d,"report":{"kind":%s,"cancelled":%t,"retry_after":%d,`+
		`"usage":{"input_tokens":%d,"output_tokens":%d,"cached_tokens":%d,"cost":%s,"priced_tokens":%d},`+
		`"timing":{"queued":%d,"served":%d}}}`,
		l.ID, kind, r.Cancelled, r.RetryAfter,
		r.Usage.InputTokens, r.Usage.OutputTokens, r.Usage.CachedTokens,
		r.Usage.Cost, r.Usage.PricedTokens, r.Timing.Queued, r.Timing.Served), err
}

// Active says that the child is active: for example, a token has arrived or a tool runs. The child
// sends it from time to time, not for each such event.
type Active struct {
	// Permits are the ids of the permits whose requests have received a part of an answer since the
	// last Active.
	Permits []int64 `json:"permits,omitempty"`
	// Allowed is what the server has just said, in a reply to the request of a permit in Permits, about further
	// requests; nil means nothing.
	Allowed *llm.Allowance `json:"allowed,omitempty"`
}

// Wait asks for the results of background children: see [task.Family]. AtMostMS is in milliseconds;
// 0 means no limit.
type Wait struct {
	IDs      []string `json:"ids,omitempty"`
	AtMostMS int64    `json:"at_most_ms,omitempty"`
}

// Send asks the root to pass a text to another agent: to a child with that execution id, or to
// [task.Parent].
type Send struct {
	To   string `json:"to"`
	Text string `json:"text"`
}

// Message is a text from another agent for the agent of the child.
type Message struct {
	Text string `json:"text"`
}

// Changed lists files that the child has changed. The child reports them at once, because it may
// die before it can name them in its result.
type Changed struct {
	Paths []string `json:"paths"`
}

// taskList is a list of tasks. Decoding fails if it has more than [MaxAsk].
type taskList []task.Task

// UnmarshalJSON decodes the tasks. It stops with an error at the first one above the limit.
func (l *taskList) UnmarshalJSON(data []byte) (err error) {
	*l, err = atMost[task.Task](MaxAsk, "tasks", data)
	return err
}

// readList is a list of reads. Decoding fails if it has more than maxReads. An empty list says that
// the child read nothing; nil says that it is not known what the child read.
type readList []task.Read

// UnmarshalJSON decodes the reads. It stops with an error at the first one above the limit.
func (l *readList) UnmarshalJSON(data []byte) (err error) {
	*l, err = atMost[task.Read](maxReads, "reads", data)
	return err
}

// atMost decodes a JSON array. It returns an error at the first element above the limit and decodes
// no further. null gives nil. what names the elements in the error.
func atMost[T any](limit int, what string, data []byte) ([]T, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	start, err := dec.Token()
	if start == nil { // null
		return nil, err
	}
	if start != json.Delim('[') {
		return nil, errors.New(what + " are no array")
	}
	list := []T{}
	for dec.More() {
		if len(list) == limit {
			return nil, fmt.Errorf("over %d %s", limit, what)
		}
		var element T
		if err := dec.Decode(&element); err != nil {
			return nil, err
		}
		list = append(list, element)
	}
	return list, nil
}

// Answer is one part of the answer to the Ask with the same id. Last says that no more parts
// follow.
type Answer struct {
	ID       int64          `json:"id"`
	Result   *task.Result   `json:"result,omitempty"`
	Children []task.Child   `json:"children,omitempty"`
	Decision *tool.Decision `json:"decision,omitempty"`
	Error    string         `json:"error,omitempty"`
	Refused  string         `json:"refused,omitempty"` // the tool that was refused; Error says why
	Fault    *Fault         `json:"fault,omitempty"`   // why there is no permit
	Last     bool           `json:"last,omitempty"`
}

// Fault is an [llm.Error] that is sent to a child.
type Fault struct {
	Kind    llm.Kind `json:"kind"`
	Problem string   `json:"problem"`
	Hint    string   `json:"hint,omitempty"`
	// RetryAfterMS is how many milliseconds to wait before asking again makes sense; 0 means that
	// there is no such time.
	RetryAfterMS int64 `json:"retry_after_ms,omitempty"`
}

// Cancel asks a child to end now and to hand back what it has.
type Cancel struct {
	Reason string `json:"reason,omitempty"`
	// GraceMS is how many milliseconds the child has for one more turn before it gets a signal; 0
	// means no more turn.
	GraceMS int64 `json:"grace_ms,omitempty"`
}

// Result is the last frame of a child and says how its task ended. The answer itself is on stdout.
type Result struct {
	Status       task.Status     `json:"status"`
	Error        string          `json:"error,omitempty"`
	Usage        task.Usage      `json:"usage"`
	Bytes        int64           `json:"bytes"` // written to stdout
	ChangedFiles []string        `json:"changed_files,omitempty"`
	Did          *task.Did       `json:"did,omitempty"`
	Structured   json.RawMessage `json:"structured,omitempty"`
	Warnings     []string        `json:"warnings,omitempty"`
	Repeats      int             `json:"repeats,omitempty"`  // how many requests to the model were repeated
	Fallback     int             `json:"fallback,omitempty"` // which of Start.Models answered
	Unsaid       []string        `json:"unsaid,omitempty"`
	// Reads are the calls by which the child read something, if the root asked for them and the
	// child did nothing else. See readList for nil.
	Reads readList `json:"reads,omitzero"`
}

// Errors in a frame. After either of them, the rest of the pipe cannot be read reliably.
var (
	ErrFrameTooLong = errors.New("frame too long")
	ErrFrameBroken  = errors.New("broken frame")
)

// reader reads frames from a control pipe. A frame of more than limit bytes is an error.
type reader struct {
	r     *bufio.Reader
	limit int
}

func newReader(r io.Reader, limit int) *reader {
	return &reader{bufio.NewReaderSize(r, 4096), limit}
}

// next returns the next frame. At the end of the pipe it returns io.EOF. A last line without a
// newline also counts as the end, because its writer died while it wrote the line.
func (r *reader) next() (Frame, error) {
	line, err := r.line()
	if err != nil {
		return Frame{}, err
	}
	f, err := decode(line)
	if err != nil {
		return Frame{}, fmt.Errorf("%w: %w", ErrFrameBroken, err)
	}
	if !f.whole() {
		return Frame{}, fmt.Errorf("%w: %q without its content", ErrFrameBroken, f.Type)
	}
	return f, nil
}

func (r *reader) line() ([]byte, error) {
	line, err := r.r.ReadSlice('\n')
	if err == nil && len(line) <= r.limit {
		return line, nil
	}
	long := append([]byte(nil), line...)
	for errors.Is(err, bufio.ErrBufferFull) && len(long) <= r.limit {
		line, err = r.r.ReadSlice('\n')
		long = append(long, line...)
	}
	switch {
	case len(long) > r.limit:
		return nil, fmt.Errorf("%w: over %d bytes", ErrFrameTooLong, r.limit)
	case err != nil:
		return nil, io.EOF
	}
	return long, nil
}

// whole reports whether f has the content that its type requires. It returns true for an unknown
// type.
func (f Frame) whole() bool {
	if payload := f.payload(); payload != nil && reflect.ValueOf(payload).Elem().IsNil() {
		return false
	}
	return f.Type != "" && (f.Type != TypeResult || f.Result.Status.Final())
}

// payload returns a pointer to the field of f that its type names, or nil for an unknown type.
func (f *Frame) payload() any {
	return map[Type]any{
		TypeStart: &f.Start, TypeAnswer: &f.Answer, TypeMessage: &f.Message, TypeCancel: &f.Cancel,
		TypeHello: &f.Hello, TypeEvent: &f.Event, TypeAsk: &f.Ask, TypeChanged: &f.Changed,
		TypeActive: &f.Active, TypeLeave: &f.Leave, TypeResult: &f.Result,
	}[f.Type]
}

// encode returns f as one line. It encodes only the field that is set instead of the whole Frame:
// encoding/json analyses a type on first use, which would cost more than the encoding itself,
// because most children send only two frames.
func encode(f Frame) ([]byte, error) {
	payload := f.payload()
	if payload == nil {
		return nil, fmt.Errorf("encode frame of type %q: %w", f.Type, errors.ErrUnsupported)
	}
	content, err := json.Marshal(payload)
	if err != nil {
		return nil, fmt.Errorf("encode %s frame: %w", f.Type, err)
	}
	return fmt.Appendf(nil, "{\"type\":%q,%q:%s}\n", f.Type, f.Type, content), nil
}

// envelope is a Frame whose content is not decoded yet.
type envelope struct {
	Type                           Type
	Start, Answer, Message, Cancel json.RawMessage
	Hello, Event, Ask, Changed     json.RawMessage
	Active, Leave, Result          json.RawMessage
}

// decode is the reverse of encode. For an unknown type it returns a Frame with the type alone.
func decode(line []byte) (Frame, error) {
	var e envelope
	if err := json.Unmarshal(line, &e); err != nil {
		return Frame{}, err
	}
	f := Frame{Type: e.Type}
	content := map[Type]json.RawMessage{
		TypeStart: e.Start, TypeAnswer: e.Answer, TypeMessage: e.Message, TypeCancel: e.Cancel,
		TypeHello: e.Hello, TypeEvent: e.Event, TypeAsk: e.Ask, TypeChanged: e.Changed,
		TypeActive: e.Active, TypeLeave: e.Leave, TypeResult: e.Result,
	}[f.Type]
	if content == nil {
		return f, nil
	}
	err := json.Unmarshal(content, f.payload())
	return f, err
}
