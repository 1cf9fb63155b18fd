package childproc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"

	"qq/pkg/agents"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Version is the version of the protocol. Both ends are the same binary, so
// they must agree on it exactly.
const Version = 2

// Limits of one frame, in bytes with its newline. Those of a child are tight, because
// an agent may follow untrusted input. Those of the root hold whole results.
const (
	MaxUp   = 4 << 20
	MaxDown = 256 << 20
)

// MaxAsk is how many tasks one [Ask] may hold. The length of the frame is not enough
// of a limit: a task of three bytes takes hundreds of bytes in memory.
const MaxAsk = 1000

// maxAsking is how many questions of a child may wait for their answers. A model
// asks for some at once; each costs the root memory.
const maxAsking = 500

// Limits of the reads that a child reports. When one is exceeded, no read is reported.
const (
	maxReads     = 10_000
	maxArguments = 64 << 10 // bytes, of one
)

// ControlVar is the environment variable that tells a process that it is a
// child: its descriptors 3 and 4 are the control pipes, down and up.
const ControlVar = "QQ_CONTROL"

// DepthVar is the environment variable by which a qq that is started by hand
// inside a child knows how deep it is.
const DepthVar = "QQ_RECURSION_DEPTH"

const (
	downFD = 3
	upFD   = 4
)

// Type names a kind of frame. Frames of an unknown type, and unknown fields, are
// ignored: a newer end may say more than an older one understands.
type Type string

// Frames: start, answer, message and cancel go down; hello, event, ask, changed,
// active, leave and result go up.
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

// Frame is one line on a control pipe: a JSON object with the type and, under
// the name of the type, its content. Only that field is set.
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

// Start is the first frame of the root: everything that a child needs to know but the
// text of the task, which comes on stdin.
type Start struct {
	Protocol    int             `json:"protocol"`
	ExecutionID string          `json:"execution_id"`
	Parent      string          `json:"parent,omitempty"`
	BatchID     string          `json:"batch_id,omitempty"`
	Depth       int             `json:"depth"`
	CanDelegate bool            `json:"can_delegate"`
	Agent       agents.Agent    `json:"agent"`
	ReadOnly    bool            `json:"read_only,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
	Events      bool            `json:"events,omitempty"` // events are wanted
	// OneProcessor says that the child was started with GOMAXPROCS=1 and may take
	// more when it has something to compute.
	OneProcessor bool `json:"one_processor,omitempty"`
	// Dir is the working directory that it must find itself in; empty is any.
	Dir string `json:"dir,omitempty"`
	// Denied are tools that it may not use, whatever its agent says.
	Denied []string `json:"denied,omitempty"`
	// Targets are what the task will touch.
	Targets []string `json:"targets,omitempty"`
	// References says that the answer must refer to lines of files.
	References bool `json:"references,omitempty"`
	// Permit says that one request to the model may be sent without asking: the
	// permit with the id 0.
	Permit bool `json:"permit,omitempty"`
	// IdleMS is the time without any activity after which the root ends the child,
	// in milliseconds; 0 is no limit. The child reports activity well within it.
	IdleMS int64 `json:"idle_ms,omitempty"`
	// Retries is how often a request to the model is repeated.
	Retries int `json:"retries,omitempty"`
	// Reads asks for the calls by which the child reads.
	Reads bool `json:"reads,omitempty"`
	// Traceparent is the W3C trace context of the child, for what it starts.
	Traceparent string `json:"traceparent,omitempty"`
	// Model is what answers, for the result.
	Model string `json:"-"`
	// Setup is what only the application reads: the model, the settings of tools.
	Setup json.RawMessage `json:"setup"`
}

// add adds what job says: who the child is, and what its task forbids it.
func (s *Start) add(job task.Job) {
	s.Protocol, s.ExecutionID, s.Parent, s.BatchID = Version, job.ExecutionID, job.Parent, job.BatchID
	s.Depth, s.IdleMS = job.Depth, job.Idle.Milliseconds()
	s.ReadOnly, s.Denied = s.ReadOnly || job.ReadOnly, slices.Concat(s.Denied, job.Denied)
	s.Targets, s.Dir, s.References, s.Schema = job.Targets, job.Dir, job.RequireFileReferences, job.Schema
}

// Ask is a request of a child to the root. One of the fields below ID is set.
type Ask struct {
	ID        int64        `json:"id"`
	Delegate  taskList     `json:"delegate,omitempty"`
	Spawn     *task.Task   `json:"spawn,omitempty"`
	Children  bool         `json:"children,omitempty"`
	Wait      *Wait        `json:"wait,omitempty"`
	Terminate string       `json:"terminate,omitempty"`
	Send      *Send        `json:"send,omitempty"`
	Approve   *tool.Intent `json:"approve,omitempty"`
	Enter     *Enter       `json:"enter,omitempty"`
	Effects   bool         `json:"effects,omitempty"` // to record that the child is about to act
}

// waits reports whether a may take long because other children do it. They may need a
// permit, so the child gives its own back.
func (a Ask) waits() bool {
	return a.Approve != nil || len(a.Delegate) > 0 || a.Spawn != nil || a.Wait != nil
}

// Enter asks for a permit to send a request to a model. The permit has the id of the
// Ask. The answer is empty, or says in Fault why there is no permit. A child that has a
// permit, or waits for one, may not ask for another.
type Enter struct {
	Model string `json:"model"`
	// Again is for a request that the circuit breaker has refused and that may be
	// repeated: it waits until the breaker lets a request pass.
	Again bool `json:"again,omitempty"`
}

// Leave gives a permit back, or ends the wait for it.
type Leave struct {
	ID     int64      `json:"id"`
	Report llm.Report `json:"report"`
}

// MarshalJSON writes l without reflection. Most children send one Leave, and for one
// encoding/json would spend its time on learning the types of the fields.
func (l Leave) MarshalJSON() ([]byte, error) {
	r := l.Report
	kind, err := json.Marshal(string(r.Kind))
	return fmt.Appendf(nil, `{"id":%d,"report":{"kind":%s,"cancelled":%t,"retry_after":%d,`+
		`"usage":{"input_tokens":%d,"output_tokens":%d},"timing":{"queued":%d,"served":%d}}}`,
		l.ID, kind, r.Cancelled, r.RetryAfter,
		r.Usage.InputTokens, r.Usage.OutputTokens, r.Timing.Queued, r.Timing.Served), err
}

// Active says that the child is at work: a token came, a tool runs. It is sent now and
// then while that goes on.
type Active struct {
	// Permits are those whose requests got a part of an answer since the last time.
	Permits []int64 `json:"permits,omitempty"`
}

// Wait asks for the results of children in the background: see [task.Family].
type Wait struct {
	IDs      []string `json:"ids,omitempty"`
	AtMostMS int64    `json:"at_most_ms,omitempty"`
}

// Send asks to hand a text to another agent.
type Send struct {
	To   string `json:"to"`
	Text string `json:"text"`
}

// Message is a text from another agent.
type Message struct {
	Text string `json:"text"`
}

// Changed are files that the child has changed. They are reported at once: the child
// may not live to name them in its result.
type Changed struct {
	Paths []string `json:"paths"`
}

// taskList is at most [MaxAsk] tasks.
type taskList []task.Task

// UnmarshalJSON stops at the first task that is too many.
func (l *taskList) UnmarshalJSON(data []byte) (err error) {
	*l, err = atMost[task.Task](MaxAsk, "tasks", data)
	return err
}

// readList is at most maxReads reads. An empty list says that the child read nothing;
// nil says that its reads are not known.
type readList []task.Read

// UnmarshalJSON stops at the first read that is too many.
func (l *readList) UnmarshalJSON(data []byte) (err error) {
	*l, err = atMost[task.Read](maxReads, "reads", data)
	return err
}

// atMost reads an array and stops at the first element that is too many.
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

// Answer is one part of what an Ask came to; Last marks that no more follow.
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

// Fault is an [llm.Error] on its way to a child.
type Fault struct {
	Kind    llm.Kind `json:"kind"`
	Problem string   `json:"problem"`
	Hint    string   `json:"hint,omitempty"`
	// RetryAfterMS is after how many milliseconds it makes sense to ask again; 0 means
	// never.
	RetryAfterMS int64 `json:"retry_after_ms,omitempty"`
}

// Cancel asks a child to end now and to hand back what it has.
type Cancel struct {
	Reason string `json:"reason,omitempty"`
	// GraceMS is the time for one more turn, in milliseconds, before a signal follows;
	// 0 means no more turn.
	GraceMS int64 `json:"grace_ms,omitempty"`
}

// Result is the last frame of a child: how its task ended. The answer itself is
// on stdout.
type Result struct {
	Status       task.Status     `json:"status"`
	Error        string          `json:"error,omitempty"`
	Usage        task.Usage      `json:"usage"`
	Bytes        int64           `json:"bytes"` // written to stdout
	ChangedFiles []string        `json:"changed_files,omitempty"`
	Structured   json.RawMessage `json:"structured,omitempty"`
	Warnings     []string        `json:"warnings,omitempty"`
	Repeats      int             `json:"repeats,omitempty"` // requests to the model that were sent again
	// Reads are reported where they were asked for and the child did nothing else: see
	// readList.
	Reads readList `json:"reads,omitzero"`
}

// What can be wrong with a frame. After either of them nothing more can be read
// from that pipe with confidence.
var (
	ErrFrameTooLong = errors.New("frame too long")
	ErrFrameBroken  = errors.New("broken frame")
)

// reader reads frames of at most limit bytes.
type reader struct {
	r     *bufio.Reader
	limit int
}

func newReader(r io.Reader, limit int) *reader {
	return &reader{bufio.NewReaderSize(r, 4096), limit}
}

// next returns the next frame. At the end it returns io.EOF; a last line without
// a newline was cut off by the death of the writer and counts as the end too.
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

// whole reports whether f carries what its type promises.
func (f Frame) whole() bool {
	if payload := f.payload(); payload != nil && reflect.ValueOf(payload).Elem().IsNil() {
		return false
	}
	return f.Type != "" && (f.Type != TypeResult || f.Result.Status.Final())
}

// payload is the field of f that its type names, nil for a type of the future.
func (f *Frame) payload() any {
	return map[Type]any{
		TypeStart: &f.Start, TypeAnswer: &f.Answer, TypeMessage: &f.Message, TypeCancel: &f.Cancel,
		TypeHello: &f.Hello, TypeEvent: &f.Event, TypeAsk: &f.Ask, TypeChanged: &f.Changed,
		TypeActive: &f.Active, TypeLeave: &f.Leave, TypeResult: &f.Result,
	}[f.Type]
}

// encode returns f as one line. It encodes the one field that is set and not all of
// Frame: encoding/json first learns a type, and most children send only two frames.
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

// envelope finds the content of a frame without reading it.
type envelope struct {
	Type                           Type
	Start, Answer, Message, Cancel json.RawMessage
	Hello, Event, Ask, Changed     json.RawMessage
	Active, Leave, Result          json.RawMessage
}

// decode is the inverse of encode. Of a type that it does not know only the
// type is read.
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
