package control

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"qq/pkg/event"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/task"
)

// Version is the version of the protocol. New types of frames and new fields do not change it.
const Version = 1

// Limits of the protocol. The first two are the longest lines in bytes, with their newline.
const (
	MaxRequest = 512 << 10 // from a client
	MaxReply   = 8 << 20   // from a root
	MaxID      = 128       // bytes of the id of a request
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

// The types of frames. A client sends snapshot, subscribe and cancel. A root sends hello first, and
// then for each request one reply: snapshot, done or error. After a subscription it sends event, and
// end as the last one.
const (
	TypeSnapshot  Type = "snapshot"
	TypeSubscribe Type = "subscribe"
	TypeCancel    Type = "cancel"
	TypeHello     Type = "hello"
	TypeDone      Type = "done"
	TypeError     Type = "error"
	TypeEvent     Type = "event"
	TypeEnd       Type = "end"
)

// Request is one line from a client: a JSON object with its type and, under the name of the type,
// its content. Snapshot and subscribe have no content.
type Request struct {
	V      int     `json:"v"`            // [Version]
	Type   Type    `json:"type"`         // what the client wants
	ID     string  `json:"id,omitempty"` // chosen by the client; the reply has the same
	Cancel *Cancel `json:"cancel,omitempty"`
}

// Cancel ends a job with all that it has started. The id of the root, or that of its batch, ends the
// whole run. The reply does not wait for the end.
type Cancel struct {
	ExecutionID string `json:"execution_id"` // the whole id
}

// Frame is one line from a root: a JSON object with its type and, under the name of the type, its
// content. Done and end have no content.
type Frame struct {
	V        int          `json:"v"`    // [Version]
	Type     Type         `json:"type"` // names the field that is set
	ID       string       `json:"id,omitempty"`
	Hello    *Root        `json:"hello,omitempty"`
	Snapshot *Snapshot    `json:"snapshot,omitempty"`
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
	Seq  int64      `json:"seq"` // number of the last event; 0 if there was none
	Root Root       `json:"root"`
	Jobs []jobs.Job `json:"jobs"` // those that have not ended; parents come first
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
	switch r.Type {
	case TypeSnapshot, TypeSubscribe:
	case TypeCancel:
		if r.Cancel == nil || r.Cancel.ExecutionID == "" {
			const hint = `for example: {"v":1,"type":"cancel","id":"1","cancel":{"execution_id":"…"}}`
			return bad(CodeBadRequest, hint, "cancel names no execution_id")
		}
	default:
		return bad(CodeUnknownType, "this root knows snapshot, subscribe and cancel", "unknown type %.40q", r.Type)
	}
	return r, nil
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
		TypeError: f.Error != nil, TypeEvent: f.Event != nil,
	}
	if ok, known := whole[f.Type]; known && !ok || f.V != Version {
		return f, fmt.Errorf("read a frame: %q of version %d is not as it should be", f.Type, f.V)
	}
	return f, nil
}
