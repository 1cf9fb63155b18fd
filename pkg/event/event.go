// Package event carries facts up: what started, what happened, what ended.
//
// Delivery contract: a [Stream] gives every event a sequence number and a time,
// and hands it to each of its sinks, one event at a time, in one total order
// per root. A sink is called synchronously and never loses an event, so it must
// be quick and must not emit events itself; a face that may lose some (a screen)
// decides so itself. Intent never travels here: nobody may act on an event in
// order to make a task succeed.
//
// Every event has v, seq, ts, type and trace_id, and says whom it is about:
// execution_id, parent_execution_id, batch_id, agent and depth. Beyond these:
//
//	sub_agent_start       task, model
//	sub_agent_progress    text; attempt, model and duration_ms where it is about them
//	sub_agent_complete    status, exit_code, usage, duration_ms, attempt, model, cached
//	sub_agent_error       the same, and error
//	tool_start            tool, arguments
//	tool_end              tool, failed, error, duration_ms
//	token                 text
//	batch_start           count of its tasks, where that is known
//	batch_complete        count of its results, failed_tasks: those without success
//	validation_required   question_id, chain, intent
//	validation_resolved   the same, and decision
//
// Progress is a fact on the way that changes nothing about the task: a request to
// the model is repeated (attempt is which one follows, duration_ms how long after),
// the model server holds everybody back (duration_ms is how long). An end without a
// start is one of a task that never ran: it was cancelled in the queue, or its
// result was known (cached). Several ends of calls of one tool at once come in any
// order, and a call has no id: who pairs them can tell only how many there were.
//
// A [Trace] is the place of the root in a trace of the W3C. Its id is the trace_id
// of every event, and the id of the span of an execution follows from its id. Not
// promised: that somebody records spans; that is for a sink.
package event

import (
	"sync"
	"time"

	"qq/pkg/task"
	"qq/pkg/tool"
)

// Type names a kind of fact.
type Type string

// The types of events.
const (
	SubAgentStart    Type = "sub_agent_start"
	SubAgentProgress Type = "sub_agent_progress"
	SubAgentComplete Type = "sub_agent_complete"
	SubAgentError    Type = "sub_agent_error"
	ToolStart        Type = "tool_start"
	ToolEnd          Type = "tool_end"
	Token            Type = "token"
	BatchStart       Type = "batch_start"
	BatchComplete    Type = "batch_complete"
	// A call waits for an approval, and what became of the question.
	ValidationRequired Type = "validation_required"
	ValidationResolved Type = "validation_resolved"
)

// Version is the version of the schema of Event.
const Version = 1

// Event is one fact. The fields down to Depth are in every one; which of the
// others are set depends on Type.
type Event struct {
	V                 int       `json:"v"`
	Seq               int64     `json:"seq"`
	TS                time.Time `json:"ts"`
	Type              Type      `json:"type"`
	TraceID           string    `json:"trace_id"`
	ExecutionID       string    `json:"execution_id"`        // empty for the root
	ParentExecutionID string    `json:"parent_execution_id"` // empty for a child of the root
	BatchID           string    `json:"batch_id"`            // empty outside of a batch
	Agent             string    `json:"agent"`               // empty for a batch
	Depth             int       `json:"depth"`

	Task       string       `json:"task,omitempty"`      // shortened
	Text       string       `json:"text,omitempty"`      // token, progress
	Model      string       `json:"model,omitempty"`     // sub_agent_start and after
	Attempt    int          `json:"attempt,omitempty"`   // counts from 1; of an end: how many there were
	Cached     bool         `json:"cached,omitempty"`    // an end: an earlier result holds, nothing was run
	Tool       string       `json:"tool,omitempty"`      // tool_start, tool_end
	Arguments  string       `json:"arguments,omitempty"` // tool_start, shortened
	Failed     bool         `json:"failed,omitempty"`    // tool_end
	Status     task.Status  `json:"status,omitempty"`
	ExitCode   *int         `json:"exit_code,omitempty"`
	Error      string       `json:"error,omitempty"`
	Usage      *task.Usage  `json:"usage,omitempty"`
	DurationMS int64        `json:"duration_ms,omitempty"`
	Count      int          `json:"count,omitempty"` // batch_start, batch_complete
	Result     *task.Result `json:"result,omitempty"`

	FailedTasks int `json:"failed_tasks,omitempty"` // batch_complete

	// Of validation_required and validation_resolved: which question, who asks
	// (the agents from the root to the one that calls), what, and the decision
	// (once, session, no, unanswered, cancelled).
	QuestionID string       `json:"question_id,omitempty"`
	Chain      []string     `json:"chain,omitempty"`
	Intent     *tool.Intent `json:"intent,omitempty"`
	Decision   string       `json:"decision,omitempty"`
}

// Sink takes events.
type Sink func(Event)

// Stream numbers events and hands them to its sinks. The zero Stream without
// sinks drops what it gets. Its methods may be called by several goroutines.
type Stream struct {
	TraceID string

	mu    sync.Mutex
	seq   int64
	sinks []Sink
	now   func() time.Time
}

// NewStream returns a Stream into sinks. The trace id is that of
// [Trace.TraceID]: 32 digits.
func NewStream(traceID string, sinks ...Sink) *Stream {
	return &Stream{TraceID: traceID, sinks: sinks, now: time.Now}
}

// Emit completes e and delivers it. A nil Stream drops it.
func (s *Stream) Emit(e Event) {
	if s == nil || len(s.sinks) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	e.V, e.Seq, e.TS, e.TraceID = Version, s.seq, s.now().UTC(), s.TraceID
	for _, sink := range s.sinks {
		sink(e)
	}
}

// Wanted reports whether anybody listens.
func (s *Stream) Wanted() bool { return s != nil && len(s.sinks) > 0 }
