package control

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"qq/internal/approval"
	"qq/internal/control/board"
	"qq/pkg/event"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Version is the version of the protocol. New types of frames and new fields do not change it.
const Version = 1

// Limits of the protocol. The first two are the longest lines in bytes, with their newline.
const (
	MaxRequest = 512 << 10 // from a client
	MaxReply   = 8 << 20   // from a root
	MaxID      = 128       // bytes of the id of a request
	MaxJobs    = 10_000    // at work at once
	MaxClients = 32        // clients of one root at a time
	// MaxSubscribers is how many of them may have a subscription. The others are there for a moment, so
	// that there is always room for a client that cancels.
	MaxSubscribers = 24
	// MaxQueued is how many bytes may wait for a client that reads too slowly. A client with more is
	// dropped.
	MaxQueued = 16 << 20
	// QuietTime is how long a client without a subscription may send no request. WriteTime is how
	// long a client may take to read one line.
	QuietTime = 30 * time.Second
	WriteTime = 5 * time.Second
)

// Type is the type of a frame. A reader ignores fields that it does not know. A client also ignores
// frames of a type that it does not know; a root answers them with an error.
type Type string

// The types of frames. A client sends snapshot to resume. A root sends hello first, and then for each
// request one reply: snapshot, log, done or error. After a subscription it sends event, and end as the
// last one.
const (
	TypeSnapshot  Type = "snapshot"
	TypeSubscribe Type = "subscribe"
	TypeLog       Type = "log" // also the reply
	TypeCancel    Type = "cancel"
	TypeAnswer    Type = "answer"
	TypeMessage   Type = "message"
	TypeJobs      Type = "jobs"
	TypePause     Type = "pause"
	TypeResume    Type = "resume"
	TypeHello     Type = "hello"
	TypeDone      Type = "done"
	TypeError     Type = "error"
	TypeEvent     Type = "event"
	TypeEnd       Type = "end"
)

// Request is one line from a client: a JSON object with its type and, under the name of the type,
// its content. Snapshot, pause and resume have no content, and subscribe may have none. Pause says that no
// further job starts until resume.
type Request struct {
	V         int        `json:"v"`            // [Version]
	Type      Type       `json:"type"`         // what the client wants
	ID        string     `json:"id,omitempty"` // chosen by the client; the reply has the same
	Subscribe *Subscribe `json:"subscribe,omitempty"`
	Log       *Log       `json:"log,omitempty"`
	Cancel    *Cancel    `json:"cancel,omitempty"`
	Answer    *Answer    `json:"answer,omitempty"`
	Message   *Message   `json:"message,omitempty"`
	Jobs      *Jobs      `json:"jobs,omitempty"`
}

// Subscribe asks for events.
type Subscribe struct {
	// From is the number of the last event that the client knows; 0 means that it knows none. A client that comes again
	// misses nothing, unless it comes too late ([CodeGone]).
	From int64 `json:"from,omitempty"`
	// Light leaves out the events that cost something to make: the text of models, and what a short job does.
	Light bool `json:"light,omitempty"`
	// Ends leaves out all events but the ends of jobs.
	Ends bool `json:"ends,omitempty"`
	// Answers says that the client may answer questions. Those wait for it that nobody at the terminal can answer.
	Answers bool `json:"answers,omitempty"`
}

// Log asks for the transcript of a job, which may have ended, and for the text that its model writes now.
type Log struct {
	ExecutionID string `json:"execution_id"`   // the whole id
	From        int64  `json:"from,omitempty"` // [Entries.Next] of the reply before; 0 is the beginning
}

// Entries is the reply to log.
type Entries struct {
	// Entries are lines of the transcript, see package session. The first line of a transcript is its header.
	Entries []json.RawMessage `json:"entries"`
	Next    int64             `json:"next"`           // where the next ones begin
	More    bool              `json:"more,omitempty"` // there are more now
	// Text is what the model has written of its turn, at most its last 64 KiB. A child that started while nobody had a
	// subscription reports it once a second.
	Text string `json:"text,omitempty"`
}

// Cancel ends a job with all that it has started. The id of the root, or that of its batch, ends the
// whole run. The reply does not wait for the end.
type Cancel struct {
	ExecutionID string `json:"execution_id"` // the whole id
}

// Answer answers an open question of [Snapshot.Questions]. The first answer counts, whoever gives it.
type Answer struct {
	QuestionID string          `json:"question_id"`
	Answer     approval.Answer `json:"answer"` // once, session, folder or no
}

// Message is a text for the agent of a job. The agent reads it before its next request to the model.
type Message struct {
	ExecutionID string `json:"execution_id"` // the whole id
	Text        string `json:"text"`
}

// Jobs changes how many jobs may be at work at once. Those that are at work go on.
type Jobs struct {
	Max int `json:"max"` // 1 to [MaxJobs]
}

// Frame is one line from a root: a JSON object with its type and, under the name of the type, its
// content. Done and end have no content.
type Frame struct {
	V        int          `json:"v"`    // [Version]
	Type     Type         `json:"type"` // names the field that is set
	ID       string       `json:"id,omitempty"`
	Hello    *Root        `json:"hello,omitempty"`
	Snapshot *Snapshot    `json:"snapshot,omitempty"`
	Log      *Entries     `json:"log,omitempty"`
	Error    *Fault       `json:"error,omitempty"`
	Event    *event.Event `json:"event,omitempty"`
}

// Root says which root a socket belongs to. It is the content of hello.
type Root struct {
	ExecutionID string    `json:"execution_id"` // of its own agent; the parent of its children
	BatchID     string    `json:"batch_id"`     // empty if it runs no batch
	PID         int       `json:"pid"`
	Started     time.Time `json:"started"`
	Dir         string    `json:"dir"`     // its working directory
	Command     string    `json:"command"` // run or batch
	Version     string    `json:"version"` // of qq
}

// Snapshot is the reply to snapshot and to subscribe. It holds whatever events up to Seq have told.
type Snapshot struct {
	Seq       int64         `json:"seq"` // number of the last event; 0 if there was none
	Root      Root          `json:"root"`
	Jobs      []board.Job   `json:"jobs"`                // those that have not ended; parents come first
	Ended     []board.Ended `json:"ended,omitempty"`     // those that ended last, the oldest first
	Batch     *board.Batch  `json:"batch,omitempty"`     // of qq batch
	Questions []Question    `json:"questions,omitempty"` // that wait for a person, the oldest first
	Max       int           `json:"max"`                 // how many jobs may be at work at once
	AtWork    int           `json:"at_work"`             // how many of those slots are in use
	Paused    bool          `json:"paused,omitempty"`    // no further job starts
	Used      task.Usage    `json:"used"`                // by all jobs so far, also those that have ended
}

// Question is a call that waits for the approval of a person.
type Question struct {
	QuestionID  string      `json:"question_id"`
	ExecutionID string      `json:"execution_id"` // of the job that asks; empty for the root's own agent
	Chain       []string    `json:"chain"`        // agents from the top of the tree to the one that asks
	Depth       int         `json:"depth"`
	Task        string      `json:"task"`             // what that agent was asked to do
	Number      int         `json:"number,omitempty"` // of the task of the batch that it works for, from 1
	Input       string      `json:"input,omitempty"`  // of that task: its file, or else its text
	Folder      string      `json:"folder,omitempty"` // in which the call would run
	Intent      tool.Intent `json:"intent"`           // what the call would do, with a preview
	Tasks       []string    `json:"tasks,omitempty"`  // a line for each task that the call hands on
	// Lasting is the rule that the answer folder would make; empty if that answer is not offered.
	Lasting string `json:"lasting,omitempty"`
	// Later says that there is no room for the preview now: Intent is cut, so that a face does not allow the call. The
	// preview comes when some of the questions before it are answered.
	Later bool `json:"later,omitempty"`
}

// maxPreviews is how many bytes the questions of one snapshot have, about. In JSON each may take six.
const maxPreviews = 1 << 20

// questionOf returns an open question as a snapshot shows it.
func questionOf(q tool.Question) Question {
	return Question{
		QuestionID: q.ID, ExecutionID: q.ExecutionID, Chain: q.Chain, Depth: q.Depth, Task: q.Task,
		Number: q.Number, Input: q.Input, Folder: filepath.Join(q.Folder, q.Intent.Dir), Intent: q.Intent,
		Tasks: q.Intent.Tasks, Lasting: q.Lasting,
	}
}

// size returns about how many bytes the texts of q take.
func (q Question) size() int {
	n := len(q.Intent.Preview) + len(q.Intent.Command) + len(q.Intent.Summary) + len(q.Task) + len(q.Input)
	for _, t := range q.Tasks {
		n += len(t)
	}
	return n
}

// later returns q without its long texts.
func (q Question) later() Question {
	q.Later, q.Intent.Cut = true, true
	q.Intent.Preview, q.Intent.Command, q.Tasks, q.Lasting = "", "", nil, ""
	q.Intent.Summary, q.Task = task.Shorten(q.Intent.Summary, 200), task.Shorten(q.Task, 200)
	q.Input = task.Shorten(q.Input, 200)
	return q
}

// Code says for programs why a request failed.
type Code string

// The codes of errors. After bad_request, too_long, busy and forbidden the root closes the
// connection.
const (
	CodeBadRequest  Code = "bad_request"  // the line is no request
	CodeTooLong     Code = "too_long"     // the line, or the reply, is longer than the limit
	CodeVersion     Code = "version"      // the root speaks another version
	CodeUnknownType Code = "unknown_type" // the root does not know the type, or not for clients
	CodeUnknownJob  Code = "unknown_job"  // no job with that id queues or runs
	CodeSubscribed  Code = "subscribed"   // the client has a subscription already
	CodeGone        Code = "gone"         // the events after that number are not kept any more
	CodeAnswered    Code = "answered"     // the question was answered, or nobody asks any more
	CodeRefused     Code = "refused"      // the job cannot take that message
	CodeBusy        Code = "busy"         // the root has too many clients, or too many with a subscription
	CodeForbidden   Code = "forbidden"    // the client may not use the socket
)

// Fault is the content of an error: why a request failed.
type Fault struct {
	Code    Code   `json:"code"`
	Problem string `json:"problem"`        // one line
	Hint    string `json:"hint,omitempty"` // one line: what to do
}

// Error implements error. It has the form of a [task.Error].
func (f *Fault) Error() string { return (&task.Error{Problem: f.Problem, Hint: f.Hint}).Error() }

// closes reports whether the connection ends after the fault.
func (f *Fault) closes() bool {
	return f.Code == CodeBadRequest || f.Code == CodeTooLong || f.Code == CodeBusy || f.Code == CodeForbidden
}

// errTooLong says that a line is longer than the limit.
var errTooLong = errors.New("the line is too long")

// readLine returns the next line of r, without its newline. A last line without a newline counts as
// the end. The bytes are valid until the next call.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		long := bytes.Clone(line)
		for errors.Is(err, bufio.ErrBufferFull) && len(long) <= limit {
			line, err = r.ReadSlice('\n')
			long = append(long, line...)
		}
		line = long
	}
	if len(line) > limit {
		return nil, errTooLong
	}
	if err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(line, []byte("\n")), nil
}

// parse returns the request of a line, or what is wrong with it. Its id is set if it can be read.
func parse(line []byte) (Request, *Fault) {
	var r Request
	if err := json.Unmarshal(line, &r); err != nil {
		hint := `for example: {"v":1,"type":"snapshot","id":"1"}`
		return Request{}, &Fault{CodeBadRequest, fmt.Sprintf("the line is no request: %v", err), hint}
	}
	bad := func(code Code, hint, format string, args ...any) (Request, *Fault) {
		return Request{ID: r.ID}, &Fault{code, fmt.Sprintf(format, args...), hint}
	}
	if len(r.ID) > MaxID {
		r.ID = ""
		return bad(CodeBadRequest, "choose a shorter one", "the id is longer than %d bytes", MaxID)
	}
	if r.V != Version {
		return bad(CodeVersion, "use the qq of that root", "this root speaks version %d, not %d", Version, r.V)
	}
	example, known := missing(r)
	switch {
	case !known:
		return bad(CodeUnknownType, "docs/control.md lists the types of requests", "unknown type %.40q", r.Type)
	case example != "":
		hint := fmt.Sprintf(`for example: {"v":1,"type":%q,"id":"1",%q:%s}`, r.Type, r.Type, example)
		return bad(CodeBadRequest, hint, "%s comes without its content", r.Type)
	}
	return r, nil
}

// missing returns an example of the content of r if that is missing or incomplete, else "". false means that the type
// is unknown.
func missing(r Request) (example string, known bool) {
	whole := true
	switch r.Type {
	case TypeSnapshot, TypeSubscribe, TypePause, TypeResume:
	case TypeCancel:
		example, whole = `{"execution_id":"…"}`, r.Cancel != nil && r.Cancel.ExecutionID != ""
	case TypeLog:
		whole = r.Log != nil && r.Log.ExecutionID != "" && r.Log.From >= 0
		example = `{"execution_id":"…","from":0}`
	case TypeAnswer:
		whole = r.Answer != nil && r.Answer.QuestionID != "" && r.Answer.Answer != ""
		example = `{"question_id":"…","answer":"once"} (or session, folder, no)`
	case TypeMessage:
		whole = r.Message != nil && r.Message.ExecutionID != "" && strings.TrimSpace(r.Message.Text) != ""
		example = `{"execution_id":"…","text":"…"}`
	case TypeJobs:
		example, whole = `{"max":4}`, r.Jobs != nil && r.Jobs.Max >= 1 && r.Jobs.Max <= MaxJobs
	default:
		return "", false
	}
	if whole {
		return "", true
	}
	return example, true
}

// encode returns v, a [Request] or a [Frame], as one line.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // it only makes lines longer
	err := e.Encode(v)
	return b.Bytes(), err
}

// line returns f as one line of at most [MaxReply] bytes. An event that is too long loses its texts,
// and any other frame becomes an error.
func (f Frame) line() []byte {
	f.V = Version
	line, err := encode(f)
	if err == nil && len(line) <= MaxReply {
		return line
	}
	if f.Event != nil {
		e := *f.Event
		e.Text, e.Task, e.Arguments, e.Error, e.Intent, e.Result = "", "", "", "(left out: too long)", nil, nil
		f.Event = &e
	} else {
		f = Frame{V: Version, Type: TypeError, ID: f.ID, Error: &Fault{CodeTooLong, "the reply is too long", ""}}
	}
	line, _ = encode(f) // nothing is left that could fail
	return line
}

// receive returns the next frame from a root. At the end of the connection the error is io.EOF.
func receive(r *bufio.Reader) (Frame, error) {
	var f Frame
	line, err := readLine(r, MaxReply)
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(line, &f); err != nil {
		return f, fmt.Errorf("read a frame: %w", err)
	}
	whole := map[Type]bool{
		TypeHello: f.Hello != nil, TypeSnapshot: f.Snapshot != nil,
		TypeError: f.Error != nil, TypeEvent: f.Event != nil, TypeLog: f.Log != nil,
	}
	if ok, known := whole[f.Type]; known && !ok || f.V != Version {
		return f, fmt.Errorf("read a frame: %q of version %d is not as it should be", f.Type, f.V)
	}
	return f, nil
}
