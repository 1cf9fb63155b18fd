// Package event reports facts from tasks up to whoever shows or records them: what
// started, what happened, what ended.
//
// Delivery contract: a [Stream] gives every event a sequence number and a time, and
// hands it to each of its sinks, one event at a time, in one total order per root.
// No event is lost. [Stream.Emit] calls the sinks itself, so a sink must be quick
// and must not emit events. A sink such as a screen may drop events itself. Events are
// never requests: no task may depend on somebody acting on an event.
//
// Every event has v, seq, ts, type and trace_id, and says whom it is about:
// execution_id, parent_execution_id, batch_id, call_id, agent and depth. Beyond these:
//
//	sub_agent_start       task, model
//	sub_agent_progress    phase, done, total; or text, attempt, model and duration_ms
//	sub_agent_complete    status, exit_code, usage, duration_ms, attempt, model, cached, summary
//	sub_agent_error       the same, and error
//	tool_start            tool, arguments, text
//	tool_end              tool, failed, error, duration_ms
//	token                 text
//	batch_start           count of its tasks, where that is known
//	plan                  plan: what qq batch --dry-run --json prints; of more than 1,000 tasks only the summary
//	batch_complete        count of its results, failed_tasks: those without success
//	validation_required   question_id, chain, operation, risk, count, tasks, intent
//	validation_resolved   the same, and decision and answered_by
//
// The agent of the root has a start and an end like any other, at the depth of its
// process, which is 0 for one that a person started. It has neither parent nor batch
// ([Event.OfRoot]). A batch without an agent has none.
//
// Progress with a phase says what an agent does now, and how far it is: see [Phase].
// Progress with a text changes nothing about the task: a request to the model is
// repeated, or the process of the agent has died and the task is repeated (attempt is
// the number of the next one, duration_ms the wait before it), or the model server
// holds all requests back (duration_ms is for how long). An end without a start belongs
// to a task that never ran: it was cancelled in the queue, or its result was known
// (cached).
//
// A call_id is the id of a tool call, unique in the conversation of one agent. The
// tool_* and validation_* events of a call have its id. The sub_agent_* events of a
// child have the id of the call of its parent that started it, and the batch_* events
// of a call have that of this call.
//
// A batch is one of "qq batch" or one call of run_parallel_tasks; each such call has a
// new batch_id, which is in events only. The batch_* events of a call are about the
// agent that made it, those of "qq batch" about no agent. The batch_id of an event
// about a task is that of the batch to which the task itself belongs.
//
// A call that is neither allowed nor refused by a rule has two validation events, also
// if nobody can be asked; the decision is then unanswered. operation is the tool, count
// and tasks are the tasks of a delegation: how many, and the first of them, shortened.
//
// A [Trace] is a trace of the W3C. Its id is the trace_id of every event, and the id
// of a span follows from the id of its execution. Not promised: that somebody
// records spans; that is for a sink.
package event

import (
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"qq/pkg/task"
	"qq/pkg/tool"
)

// Type is the type of an event.
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
	Plan             Type = "plan" // before batch_start, of a planned batch
	// A call waits for an approval; later the question is answered or withdrawn.
	ValidationRequired Type = "validation_required"
	ValidationResolved Type = "validation_resolved"
)

// Phase is what an agent does.
type Phase string

// The phases of an agent. A phase ends when the next one begins, or with the agent.
const (
	// PhaseModel: it asks its model. done is how many turns are over, total how many it may have.
	PhaseModel Phase = "model"
	// PhaseTools: it runs the calls of an answer; total is how many these are.
	PhaseTools Phase = "tools"
	// PhaseDelegating: it waits for tasks that it has delegated; done of total have ended. At the beginning,
	// tasks has the first of them.
	PhaseDelegating Phase = "delegating"
	// PhaseWaiting: it waits for children in the background (done of total have ended), for a person or for
	// the model server; text says which.
	PhaseWaiting Phase = "waiting"
	// PhaseParts: the parts of a long document are summarized; done of total have ended.
	PhaseParts Phase = "parts"
)

// AwaitsServer is the text of [PhaseWaiting] while a request waits for its turn at the model server.
const AwaitsServer = "for the model server"

// Version is the version of the JSON of an Event.
const Version = 1

// Event is one fact. The fields down to Depth are in every event; the Type decides which
// of the others are set.
type Event struct {
	V                 int       `json:"v"`                   // [Version]
	Seq               int64     `json:"seq"`                 // counts from 1, without gaps
	TS                time.Time `json:"ts"`                  // time at which it was emitted, in UTC
	Type              Type      `json:"type"`                // what happened
	TraceID           string    `json:"trace_id"`            // see [Trace.TraceID]
	ExecutionID       string    `json:"execution_id"`        // may be empty for the root
	ParentExecutionID string    `json:"parent_execution_id"` // empty for the root and the tasks of a batch
	BatchID           string    `json:"batch_id"`            // empty outside of a batch
	CallID            string    `json:"call_id"`             // tool call that it belongs to; empty for none
	Agent             string    `json:"agent"`               // empty for a batch
	Depth             int       `json:"depth"`               // in the tree of tasks; 0 is the root

	Task       string       `json:"task,omitempty"`        // its text, shortened
	Phase      Phase        `json:"phase,omitempty"`       // of progress
	Done       int          `json:"done,omitempty"`        // of progress: see [Phase]; 0 is left out
	Total      int          `json:"total,omitempty"`       // of progress; 0 means not known
	Text       string       `json:"text,omitempty"`        // of a token or of progress; a call in readable form
	Model      string       `json:"model,omitempty"`       // with its provider
	Attempt    int          `json:"attempt,omitempty"`     // counts from 1; of an end: how many there were
	Cached     bool         `json:"cached,omitempty"`      // of an end: an earlier result was used and nothing was run
	Tool       string       `json:"tool,omitempty"`        // name of the tool
	Arguments  string       `json:"arguments,omitempty"`   // JSON of a call, shortened
	Failed     bool         `json:"failed,omitempty"`      // the call failed
	Status     task.Status  `json:"status,omitempty"`      // how an execution ended
	ExitCode   *int         `json:"exit_code,omitempty"`   // of an end
	Error      string       `json:"error,omitempty"`       // why it failed
	Usage      *task.Usage  `json:"usage,omitempty"`       // tokens of all attempts
	DurationMS int64        `json:"duration_ms,omitempty"` // see the package comment
	Count      int          `json:"count,omitempty"`       // tasks or results of a batch; tasks of a delegation
	Tasks      []string     `json:"tasks,omitempty"`       // the first tasks of a delegation, shortened
	Summary    string       `json:"summary,omitempty"`     // of an end: the beginning of the output
	Result     *task.Result `json:"result,omitempty"`      // of an end, where it is handed on

	FailedTasks int `json:"failed_tasks,omitempty"` // results without success, of a batch

	QuestionID string       `json:"question_id,omitempty"` // of an approval
	Chain      []string     `json:"chain,omitempty"`       // agents from the root to the one that asks
	Operation  string       `json:"operation,omitempty"`   // the tool of the call that is asked about
	Risk       tool.Risk    `json:"risk,omitempty"`        // of that call
	Intent     *tool.Intent `json:"intent,omitempty"`      // what the call would do
	Decision   string       `json:"decision,omitempty"`    // once, session, folder, no, unanswered or cancelled
	AnsweredBy string       `json:"answered_by,omitempty"` // where a person decided: terminal or socket

	Plan json.RawMessage `json:"plan,omitempty"` // see qq/pkg/supervisor/plan.Description
}

// OfRoot reports whether e is about the agent of the root itself, or about no agent.
func (e Event) OfRoot() bool { return e.ParentExecutionID == "" && e.BatchID == "" }

// Sink receives events.
type Sink interface {
	// Handle receives one event. It must be quick, and must not emit events.
	Handle(Event)
}

// SinkFunc is a function that is used as a [Sink].
type SinkFunc func(Event)

// Handle implements [Sink].
func (f SinkFunc) Handle(e Event) { f(e) }

// Stream numbers events and hands them to its sinks. A Stream without sinks, such as the zero
// value, drops every event. Several goroutines may call its methods at once.
type Stream struct {
	// TraceID is the trace_id of every event.
	TraceID string

	wanted  atomic.Bool  // there is a sink
	watched atomic.Int64 // how many want every event
	mu      sync.Mutex
	seq     int64
	sinks   []Sink
}

// NewStream returns a Stream that hands its events to sinks. traceID comes from
// [Trace.TraceID].
func NewStream(traceID string, sinks ...Sink) *Stream {
	s := &Stream{TraceID: traceID, sinks: sinks}
	s.wanted.Store(len(sinks) > 0)
	s.watched.Store(int64(len(sinks)))
	return s
}

// Join adds a sink. It gets every event after the one whose number Join returns. The number is 0 if
// there was no event.
func (s *Stream) Join(sink Sink) int64 {
	s.Watch()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sinks = append(s.sinks, sink)
	s.wanted.Store(true)
	return s.seq
}

// Watch says that a sink that was added by Glance now wants every event, until it calls Unwatch as often.
func (s *Stream) Watch() { s.watched.Add(1) }

// Unwatch takes back one Watch.
func (s *Stream) Unwatch() { s.watched.Add(-1) }

// Glance adds a sink for which no event needs to be made that is expensive: it gets what there is.
func (s *Stream) Glance(sink Sink) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sinks = append(s.sinks, sink)
	s.wanted.Store(true)
}

// Watched reports whether there is a sink that wants every event. If not, those that are expensive need not be made:
// the text of models, and what a short task does.
func (s *Stream) Watched() bool { return s != nil && s.watched.Load() > 0 }

// Emit sets the version, number, time and trace id of e and hands e to each sink. A nil Stream
// drops it.
func (s *Stream) Emit(e Event) {
	if !s.Wanted() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	e.V, e.Seq, e.TS, e.TraceID = Version, s.seq, time.Now().UTC(), s.TraceID
	for _, sink := range s.sinks {
		sink.Handle(e)
	}
}

// Wanted reports whether there is a sink. If not, callers need not build events.
func (s *Stream) Wanted() bool { return s != nil && s.wanted.Load() }
