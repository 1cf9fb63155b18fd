// Package llm is the interface between an agent and its model. A [Request] holds a
// conversation of [Message] values; the answer arrives in [Chunk] values while the model
// writes it, and as a [Response] at the end.
//
// A [Backend] promises: a nil error means that the model ended its answer by
// itself (or reached the token limit, which Response.Stop says). A broken stream, a
// truncated prompt or an unreachable server is an [*Error] with its [Kind], and the
// Response still holds the partial answer.
package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"qq/pkg/picture"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Role is the author of a message.
type Role string

// The authors of messages. The system prompt is a field of Request; only a transcript has it as a
// message, with the role System, if it was made for the task.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool"
	System    Role = "system"
)

// Message is one message of a conversation.
type Message struct {
	Role     Role   `json:"role"`
	Content  string `json:"content"`
	Thinking string `json:"thinking,omitempty"` // kept apart from the answer
	// Calls are the tool calls that an Assistant message requests.
	Calls []tool.Call `json:"calls,omitempty"`
	// CallID and Tool identify the call whose result a ToolRole message is.
	CallID string `json:"call_id,omitempty"`
	Tool   string `json:"tool,omitempty"`
	// Images are shown with the content, by a User or by the result of a tool.
	Images []picture.Image `json:"images,omitempty"`
}

// Entry is one message of a transcript, with what is known about it.
type Entry struct {
	Time time.Time `json:"time"` // when it was written down, in UTC
	Message
	Usage task.Usage `json:"usage,omitzero"` // of an answer of a model, if known
	// Started, DurationMS and Failed are about a tool call; its result is the message. An answer of a model has no
	// Started: DurationMS is how long the model took, and FirstMS that to the first piece of the answer.
	Started    time.Time `json:"started,omitzero"`
	DurationMS int64     `json:"duration_ms,omitempty"`
	FirstMS    int64     `json:"first_ms,omitempty"`
	Failed     bool      `json:"failed,omitempty"`
	// Run is the id of the execution that added the message, in a session that several may continue.
	Run string `json:"run,omitempty"`
	// Attempt is the number of the attempt that begins with the message, if it is not the first.
	Attempt int `json:"attempt,omitempty"`
}

// Request is one question to a model.
type Request struct {
	System    string
	Messages  []Message
	Tools     []tool.Spec
	Schema    json.RawMessage // JSON Schema of the answer, or nil
	MaxTokens int             // of the answer; 0 means no limit
	// Temperature is the randomness of the answer; nil means the default of the
	// model.
	Temperature *float64
}

// Chunk is one piece of an answer, received while the model writes.
type Chunk struct {
	Text     string
	Thinking string
	// Allowed is what the header of the reply says about further requests, in a chunk without text before the answer
	// or the error; nil if it says nothing.
	Allowed *Allowance
}

// Stop says why a model ended its answer.
type Stop string

// Reasons to stop.
const (
	StopEnd    Stop = "stop"
	StopLength Stop = "length"
)

// Response is a whole answer.
type Response struct {
	Message Message
	Usage   task.Usage
	Written int // tokens of the input that the server has put into its cache, if it says so
	Stop    Stop
	Timing  Timing
	// First is the time from the request to the first piece of the answer, and Took to its end. They are measured here,
	// without Waited, which is the wait for a slot at the server. A Took of zero means not measured.
	First, Took, Waited time.Duration
}

// Backend sends requests to a model. Several goroutines may use it at once.
type Backend interface {
	// Chat sends r and calls yield for each piece of the answer, in order, from
	// the calling goroutine.
	Chat(ctx context.Context, r Request, yield func(Chunk)) (Response, error)
}

// Kind is the kind of a failure. It is decided by the type of the error and the HTTP status, never
// by words in a text.
type Kind string

// Kinds of failure.
const (
	Unreachable     Kind = "unreachable"      // no connection; temporary
	Busy            Kind = "busy"             // 429, 502, 503, 504, 529, loading; temporary
	Quota           Kind = "quota"            // what the user may use or has paid for is used up
	BrokenStream    Kind = "broken_stream"    // the answer broke off; temporary
	ContextOverflow Kind = "context_overflow" // the prompt does not fit
	UnknownModel    Kind = "unknown_model"    // the server does not have the model
	Rejected        Kind = "rejected"         // the request is wrong; a retry is useless
	Misconfigured   Kind = "misconfigured"    // not sent: a setting is wrong
	Unsupported     Kind = "unsupported"      // the backend cannot do what the request needs
	Server          Kind = "server"           // the server failed
	Open            Kind = "open"             // not sent: the circuit breaker of the server is open
	Spent           Kind = "spent"            // not sent: the budget of tokens is used up
	TooLong         Kind = "too_long"         // the answer did not end and was cut
)

// Statuses that are no part of HTTP: Anthropic is overloaded; Cloudflare, which many model servers stand behind, could
// not reach the server.
const (
	overloaded   = 529
	proxyUnknown = 520
	proxyTimeout = 524
)

// KindOf returns the kind of a failure with an HTTP status that is not success.
func KindOf(status int) Kind {
	switch {
	case status == http.StatusPaymentRequired:
		return Quota
	case status == http.StatusRequestTimeout, status == http.StatusTooManyRequests, status == http.StatusBadGateway,
		status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout,
		status == overloaded, status >= proxyUnknown && status <= proxyTimeout:
		return Busy
	case status >= 500:
		return Server
	}
	return Rejected
}

// IsQuota reports whether class, the type or the code of an error object, means that a quota is used up. OpenAI and
// those who speak its dialect send the status 429 with it, as for requests that come too fast.
func IsQuota(class string) bool {
	switch class {
	case "insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error",
		"insufficient_balance", "insufficient_credits":
		return true
	}
	return false
}

// IsOverflow reports whether class, the type or the code of an error object, means that the prompt does not fit into
// the context: of OpenAI and Groq, of llama.cpp.
func IsOverflow(class string) bool {
	return class == "context_length_exceeded" || class == "exceed_context_size_error"
}

// Error is a failure of a model or its server.
type Error struct {
	Kind       Kind
	Problem    string        // one line: what is wrong
	Hint       string        // one line: what to do; may be empty
	Status     int           // HTTP status; 0 if there is none
	RetryAfter time.Duration // how long the server asked to wait
	Err        error         // the cause, or nil
}

func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Problem
	}
	return fmt.Sprintf("%s\nhint: %s", e.Problem, e.Hint)
}

func (e *Error) Unwrap() error { return e.Err }

// Passing reports whether the failure is temporary: the same request may succeed later.
func (e *Error) Passing() bool {
	return e.Kind == Unreachable || e.Kind == Busy || e.Kind == BrokenStream
}

// Elsewhere reports whether another model may answer what this one cannot: its server cannot be had now.
func (e *Error) Elsewhere() bool {
	return e.Kind == Unreachable || e.Kind == Busy || e.Kind == Open || e.Kind == Quota
}

func asError(err error) (*Error, bool) { return errors.AsType[*Error](err) }

// TaskStatus returns the status of a task that ends with e.
func (e *Error) TaskStatus() task.Status {
	switch e.Kind {
	case Unreachable, Busy, Open, Quota:
		return task.Unavailable
	case Spent:
		return task.Limit
	case BrokenStream:
		return task.Broken
	case UnknownModel, Misconfigured:
		return task.Misused
	}
	return task.Failed
}
