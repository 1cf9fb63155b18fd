// Package trace sends what a run did to a collector of OpenTelemetry, as spans:
// one for the root, one for each batch, each execution of an agent and each tool
// call. An approval or a repeated request is an event of the span of its
// execution.
//
// An [Exporter] is an event sink that keeps spans in memory. When the run ends,
// [Exporter.Close] sends all of them in one POST, OTLP as JSON over HTTP. There is
// no retry, and five seconds are the limit unless the environment sets another.
// The first 10,000 spans and events are kept, so that every span in a trace has its
// parent there; later spans are counted and left out. Close says how many spans were
// not exported and why. No run fails because of it.
//
// A span has names, numbers and ids: agent, tool, model, status, exit code, tokens.
// It never has the text of a task, arguments, output or an error text, which may
// hold secrets. The attributes are those of the conventions for generative AI where
// they have one; other names begin with "qq.".
//
// The settings are the variables of OpenTelemetry: see [FromEnv]. Without an
// endpoint nothing is kept and nothing is sent. A trace that its parent does not
// sample is not exported.
// Not promised: spans before the run ends; spans of a process that was killed;
// gRPC, protocol buffers, compression, own certificates, samplers, metrics and
// logs; that the span of a call contains the children which that call started (they
// are beside it).
package trace

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"qq/pkg/event"
	"qq/pkg/task"
)

// Limits on memory: a child may send any number of events.
const (
	maxSpans   = 10_000 // of a trace, together with the events of all spans
	maxMoments = 128    // events of one span
	maxName    = 100    // characters of a name that came from elsewhere
)

// Config says where spans are sent and what they describe.
type Config struct {
	Endpoint    string            // the URL of the collector
	Headers     map[string]string // of the request
	Timeout     time.Duration     // of the request; 0 is 5 s
	ServiceName string            // empty is "qq"
	Version     string            // of the program
	Attributes  map[string]string // of the resource, besides its name and version
	Trace       event.Trace
	RootID      string // execution id of the root
}

// Exporter turns events into spans, and sends them at the end of the run. Several goroutines may call its methods.
type Exporter struct {
	cfg       Config
	transport http.RoundTripper

	mu      sync.Mutex
	closed  bool
	spans   []*span // in the order in which they began
	left    int     // number of spans and events that may still be kept
	dropped int     // number of spans that were not kept
	calls   int     // number of tool calls so far
	root    *run
	runs    map[string]*run  // open executions by id, and the root
	batches map[string]*span // open batches by id
}

// run is one execution of an agent.
type run struct {
	*span
	calls []call // open tool calls, oldest first
	exit  *int   // exit code with which its agent has ended; nil before that
}

// call is an open tool call.
type call struct {
	*span
	id string // may be empty
}

// Start returns an exporter, or nil for a trace that is not sampled. It opens the span of the root; events without
// an execution id belong to that span.
func Start(cfg Config) *Exporter {
	if !cfg.Trace.Sampled() {
		return nil
	}
	x := &Exporter{
		cfg: cfg, transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true},
		left: maxSpans, batches: map[string]*span{},
	}
	x.root = &run{span: x.begin(cfg.Trace.SpanID(cfg.RootID), cfg.Trace.ParentID(), "qq", time.Now())}
	x.root.Attributes.number("qq.depth", 0)
	x.runs = map[string]*run{"": x.root, cfg.RootID: x.root}
	return x
}

// begin opens a span. If the limit is reached, the span is counted as dropped and not sent.
func (x *Exporter) begin(id, parent, name string, at time.Time) *span {
	s := &span{
		TraceID: x.cfg.Trace.TraceID(), ID: id, ParentID: parent, Name: name, Kind: kindInternal,
		Start: at.UnixNano(),
	}
	if x.left > 0 {
		x.left--
		x.spans = append(x.spans, s)
	} else {
		x.dropped++
	}
	return s
}

// ownID returns a span id that differs between roots. A batch needs one, because its id stays the same when another
// process resumes it, maybe in the same trace.
func (x *Exporter) ownID(kind, id string) string {
	return x.cfg.Trace.SpanID(x.cfg.RootID + "/" + kind + "/" + id)
}

// spanID returns the span id of an execution; an empty id means the root.
func (x *Exporter) spanID(executionID string) string {
	if executionID == "" {
		return x.root.ID
	}
	return x.cfg.Trace.SpanID(executionID)
}

// Handle implements [event.Sink].
func (x *Exporter) Handle(e event.Event) {
	if e.Type == event.Token {
		return
	}
	if e.TS.IsZero() {
		e.TS = time.Now()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return
	}
	r := x.runs[e.ExecutionID] // nil if it is not open
	switch e.Type {
	case event.SubAgentStart:
		x.started(r, e)
	case event.SubAgentComplete, event.SubAgentError:
		x.ended(r, e)
	case event.BatchStart:
		s := x.begin(x.ownID("batch", e.BatchID), x.spanID(e.ExecutionID), "batch", e.TS)
		s.Attributes.text("qq.batch_id", e.BatchID)
		s.Attributes.number("qq.depth", e.Depth)
		x.batches[e.BatchID] = s
	case event.BatchComplete:
		if s := x.batches[e.BatchID]; s != nil {
			delete(x.batches, e.BatchID)
			s.Attributes.number("qq.tasks", e.Count)
			s.finish(e.TS)
		}
	case event.ToolStart:
		x.callStarted(r, e)
	case event.ToolEnd:
		callEnded(r, e)
	case event.SubAgentProgress, event.ValidationRequired, event.ValidationResolved:
		if e.Phase == "" { // there are many, and the spans show them
			x.moment(r, e)
		}
	}
}

// started opens the span of an execution. The span of the root is already open, and a
// second start of an execution is another attempt.
func (x *Exporter) started(r *run, e event.Event) {
	switch r {
	case nil:
		x.runs[e.ExecutionID] = x.newRun(e, e.TS)
	case x.root:
		r.describe(e)
		r.End, r.Status, r.exit = 0, status{}, nil // the conversation has one more turn
	default:
		x.moment(r, e)
	}
}

func (x *Exporter) newRun(e event.Event, began time.Time) *run {
	parent := x.spanID(e.ParentExecutionID)
	if b := x.batches[e.BatchID]; b != nil && parent == b.ParentID {
		parent = b.ID
	}
	r := &run{span: x.begin(x.spanID(e.ExecutionID), parent, "invoke_agent", began)}
	r.describe(e)
	return r
}

// describe adds attributes to s that say which execution it belongs to.
func (s *span) describe(e event.Event) {
	if e.Agent == "" {
		return
	}
	s.Name = "invoke_agent " + printable(e.Agent, maxName)
	s.Attributes.text("gen_ai.operation.name", "invoke_agent")
	s.Attributes.text("gen_ai.agent.name", e.Agent)
	s.Attributes.text("gen_ai.request.model", e.Model)
	s.Attributes.text("qq.execution_id", e.ExecutionID)
	s.Attributes.text("qq.batch_id", e.BatchID)
	s.Attributes.number("qq.depth", e.Depth)
}

// ended closes the span of an execution with the spans of its open calls. The span of the
// root may be opened again; that of a root whose agent has ended keeps the status of its agent.
func (x *Exporter) ended(r *run, e event.Event) {
	if r == nil { // it has no span because it never ran
		r = x.newRun(e, e.TS.Add(-time.Duration(e.DurationMS)*time.Millisecond))
	}
	if e.ExecutionID == "" && r.exit != nil && e.ExitCode != nil && *r.exit == *e.ExitCode {
		r.End = max(r.End, e.TS.UnixNano())
		return
	}
	r.exit = e.ExitCode
	r.describe(e)
	r.finish(e.TS)
	if e.Type == event.SubAgentError {
		r.fail(string(e.Status))
	}
	r.Attributes.text("qq.status", string(e.Status))
	r.Attributes.count("qq.attempts", e.Attempt)
	if e.Cached {
		r.Attributes.put("qq.cached", value{Bool: true})
	}
	if e.ExitCode != nil {
		r.Attributes.number("qq.exit_code", *e.ExitCode)
	}
	if e.Usage != nil {
		r.Attributes.number("gen_ai.usage.input_tokens", e.Usage.InputTokens)
		r.Attributes.number("gen_ai.usage.output_tokens", e.Usage.OutputTokens)
	}
	if r == x.root {
		return
	}
	delete(x.runs, e.ExecutionID)
	for _, call := range r.calls {
		call.interrupt(e.TS)
	}
}

func (x *Exporter) callStarted(r *run, e event.Event) {
	x.calls++
	if r == nil || x.left == 0 {
		x.dropped++
		return
	}
	tool := printable(e.Tool, maxName)
	s := x.begin(x.ownID("call", strconv.Itoa(x.calls)), r.ID, "execute_tool "+tool, e.TS)
	s.Attributes.text("gen_ai.operation.name", "execute_tool")
	s.Attributes.text("gen_ai.tool.name", tool)
	s.Attributes.text("gen_ai.agent.name", e.Agent)
	s.Attributes.text("gen_ai.tool.call.id", e.CallID)
	r.calls = append(r.calls, call{s, e.CallID})
}

// callEnded closes the open call of e. Without an id, that is the oldest one of its tool.
func callEnded(r *run, e event.Event) {
	if r == nil {
		return
	}
	name := "execute_tool " + printable(e.Tool, maxName)
	i := slices.IndexFunc(r.calls, func(c call) bool { return c.Name == name && c.id == e.CallID })
	if i < 0 {
		return
	}
	s := r.calls[i]
	r.calls = slices.Delete(r.calls, i, i+1)
	s.finish(e.TS)
	if e.Failed {
		s.fail("tool_error")
	}
}

// moment adds e as an event to the span of r, which may be nil. Beyond the limits the event is only counted. The
// text of a progress event is left out, because it may contain anything.
func (x *Exporter) moment(r *run, e event.Event) {
	if r == nil {
		return
	}
	if x.left == 0 || len(r.Events) == maxMoments {
		r.LostEvents++
		return
	}
	x.left--
	m := moment{Time: e.TS.UnixNano(), Name: "qq." + string(e.Type)}
	switch e.Type {
	case event.SubAgentStart:
		m.Name = "qq.attempt"
	case event.SubAgentProgress:
		m.Name = "qq.progress"
	}
	m.Attributes.count("qq.attempt", e.Attempt)
	m.Attributes.count("qq.duration_ms", int(e.DurationMS))
	m.Attributes.text("gen_ai.request.model", e.Model)
	m.Attributes.text("qq.question_id", e.QuestionID)
	m.Attributes.text("qq.decision", e.Decision)
	if e.Intent != nil {
		m.Attributes.text("gen_ai.tool.name", e.Intent.Tool)
		m.Attributes.text("qq.risk", string(e.Intent.Risk))
	}
	r.Events = append(r.Events, m)
}

// finish closes s without a failure. The end is never before the start, even if the clock
// was set back.
func (s *span) finish(at time.Time) {
	s.End, s.Status = max(at.UnixNano(), s.Start), status{}
	s.Attributes = slices.DeleteFunc(s.Attributes, func(a attribute) bool { return a.Key == "error.type" })
}

// interrupt closes s as interrupted, unless it is closed already.
func (s *span) interrupt(at time.Time) {
	if s.End == 0 {
		s.finish(at)
		s.fail(string(task.Interrupted))
	}
}

// fail marks s as failed with an error type of one word.
func (s *span) fail(kind string) {
	s.Status = status{Message: kind, Code: statusError}
	s.Attributes.text("error.type", kind)
}

// Close ends the spans that are still open as interrupted, and sends all spans. It returns when they are sent, at
// the timeout or when ctx ends. Its error is a warning for a person: how many spans were not exported, and why. A
// second call does nothing.
func (x *Exporter) Close(ctx context.Context) error {
	x.mu.Lock()
	closed := x.closed
	x.closed = true // from here on Handle changes nothing
	x.mu.Unlock()
	if closed {
		return nil
	}
	now := time.Now()
	for _, s := range x.spans {
		s.interrupt(now)
	}
	lost, err := x.send(ctx)
	if lost += x.dropped; lost == 0 {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("a trace holds %d spans and events, the first ones\n"+
			"hint: `--output-format stream-json` has all events; the run itself lost nothing", maxSpans)
	}
	spans := "spans were"
	if lost == 1 {
		spans = "span was"
	}
	return fmt.Errorf("trace: %d %s not exported: %v", lost, spans, err)
}
