package trace

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"qq/pkg/event"
	"qq/pkg/task"
)

// Bounds on what is open: a child may say anything.
const (
	maxRuns    = 10_000 // executions
	maxTools   = 1_000  // calls of one execution
	maxMoments = 128    // events of one span
	maxName    = 100    // characters of a name that came from elsewhere
)

// tree holds the spans that have begun and not ended.
type tree struct {
	trace   event.Trace
	id      string // of the trace
	made    int    // calls so far
	root    *run
	runs    map[string]*run // by execution id
	batches map[string]*span
}

// run is one execution with its calls, oldest first.
type run struct {
	*span
	tools []*call
}

type call struct {
	*span
	tool string
}

func newTree(trace event.Trace, began time.Time) tree {
	t := tree{trace: trace, id: trace.TraceID(), runs: map[string]*run{}, batches: map[string]*span{}}
	t.root = &run{span: t.begin(trace.SpanID(""), trace.ParentID(), "qq", began)}
	t.root.number("qq.depth", 0)
	return t
}

// own is the id of a span that nobody else has to know. A batch that is resumed has
// the same id in another process, maybe in the same trace: the root makes it one of
// its own.
func (t *tree) own(kind, id string) string {
	return t.trace.SpanID(t.root.SpanID + "/" + kind + "/" + id)
}

// take notes what e says and returns the spans that are whole with it. Dropped
// counts those that were too many to keep.
func (t *tree) take(e event.Event) (whole []*span, dropped int) {
	switch e.Type {
	case event.SubAgentStart:
		t.start(e)
	case event.SubAgentComplete, event.SubAgentError:
		whole = t.ended(e)
	case event.ToolStart:
		dropped = t.toolStart(e)
	case event.ToolEnd:
		whole = t.toolEnd(e)
	case event.BatchStart:
		s := t.begin(t.own("batch", e.BatchID), t.trace.SpanID(e.ExecutionID), "batch", e.TS)
		s.text("qq.batch_id", e.BatchID)
		s.number("qq.depth", e.Depth)
		t.batches[e.BatchID] = s
	case event.BatchComplete:
		if s := t.batches[e.BatchID]; s != nil {
			delete(t.batches, e.BatchID)
			s.number("qq.tasks", e.Count)
			s.end(e.TS)
			whole = []*span{s}
		}
	default:
		t.moment(e)
	}
	return whole, dropped
}

// of is the run that e is about, nil when it is not open.
func (t *tree) of(e event.Event) *run {
	r := t.runs[e.ExecutionID]
	if e.ExecutionID == "" || r == nil && t.trace.SpanID(e.ExecutionID) == t.root.SpanID { // see [event.Trace.Of]
		return t.root
	}
	return r
}

// start opens the span of an execution. That of the root is open from the
// beginning, and a second start is one more attempt.
func (t *tree) start(e event.Event) {
	switch r := t.of(e); {
	case r == t.root:
		t.describe(r.span, e)
		r.End, r.Status = 0, status{} // one more turn of a conversation
	case r != nil:
		r.moment(e.TS, "qq.attempt", number("qq.attempt", e.Attempt))
	case len(t.runs) < maxRuns: // of one that is too many the end makes a span
		t.runs[e.ExecutionID] = t.run(e, e.TS)
	}
}

// run makes the span of an execution.
func (t *tree) run(e event.Event, began time.Time) *run {
	parent := t.trace.SpanID(e.ParentExecutionID)
	if b := t.batches[e.BatchID]; b != nil && e.ParentExecutionID == "" {
		parent = b.SpanID
	}
	r := &run{span: t.begin(t.trace.SpanID(e.ExecutionID), parent, "", began)}
	t.describe(r.span, e)
	return r
}

// describe says whose execution s is.
func (t *tree) describe(s *span, e event.Event) {
	s.Name = strings.TrimSpace("invoke_agent " + name(e.Agent))
	s.text("gen_ai.operation.name", "invoke_agent")
	s.text("gen_ai.agent.name", e.Agent)
	s.text("gen_ai.request.model", e.Model)
	s.text("qq.execution_id", e.ExecutionID)
	s.text("qq.batch_id", e.BatchID)
	s.number("qq.depth", e.Depth)
}

// ended ends an execution, and those of its calls whose end nobody told. The root
// only gets to know how: its span lasts until the exporter is closed.
func (t *tree) ended(e event.Event) (whole []*span) {
	r := t.of(e)
	if r == nil { // it never ran, or was one too many
		r = t.run(e, e.TS.Add(-time.Duration(e.DurationMS)*time.Millisecond))
	}
	if r == t.root && e.Agent != "" {
		t.describe(r.span, e)
	}
	r.outcome(e)
	r.end(e.TS)
	if r == t.root {
		return nil
	}
	delete(t.runs, e.ExecutionID)
	return append(r.abandon(e.TS), r.span)
}

// outcome says how an execution ended.
func (s *span) outcome(e event.Event) {
	s.text("gen_ai.request.model", e.Model)
	s.text("qq.status", string(e.Status))
	if e.ExitCode != nil {
		s.number("qq.exit_code", *e.ExitCode)
	}
	if e.Usage != nil {
		s.number("gen_ai.usage.input_tokens", e.Usage.InputTokens)
		s.number("gen_ai.usage.output_tokens", e.Usage.OutputTokens)
	}
	if e.Attempt > 0 {
		s.number("qq.attempts", e.Attempt)
	}
	if e.Cached {
		s.set(attribute{Key: "qq.cached", Value: value{Bool: true}})
	}
	s.Status = status{}
	if e.Type == event.SubAgentError {
		s.fail(string(e.Status))
	}
}

func (t *tree) toolStart(e event.Event) (dropped int) {
	r := t.of(e)
	if r == nil || len(r.tools) == maxTools {
		return 1
	}
	t.made++
	tool := name(e.Tool)
	s := t.begin(t.own("call", strconv.Itoa(t.made)), r.SpanID, "execute_tool "+tool, e.TS)
	s.text("gen_ai.operation.name", "execute_tool")
	s.text("gen_ai.tool.name", tool)
	s.text("gen_ai.agent.name", e.Agent)
	r.tools = append(r.tools, &call{s, tool})
	return 0
}

// toolEnd ends the oldest open call of that tool: calls have no id. Those that are
// open at once differ in their start by next to nothing.
func (t *tree) toolEnd(e event.Event) []*span {
	r := t.of(e)
	if r == nil {
		return nil
	}
	tool := name(e.Tool)
	i := slices.IndexFunc(r.tools, func(c *call) bool { return c.tool == tool })
	if i < 0 {
		return nil
	}
	s := r.tools[i].span
	r.tools = slices.Delete(r.tools, i, i+1)
	s.end(e.TS)
	if e.Failed {
		s.fail("tool_error")
	}
	return []*span{s}
}

// moment notes what happened in the middle of an execution.
func (t *tree) moment(e event.Event) {
	r := t.of(e)
	if r == nil {
		return
	}
	switch e.Type {
	case event.SubAgentProgress: // the text may say anything
		var about []attribute
		if e.Attempt > 0 {
			about = append(about, number("qq.attempt", e.Attempt))
		}
		if e.DurationMS > 0 {
			about = append(about, number("qq.duration_ms", int(e.DurationMS)))
		}
		if e.Model != "" {
			about = append(about, text("gen_ai.request.model", e.Model))
		}
		r.moment(e.TS, "qq.progress", about...)
	case event.ValidationRequired, event.ValidationResolved:
		about := []attribute{text("qq.question_id", e.QuestionID)}
		if e.Intent != nil {
			about = append(about, text("gen_ai.tool.name", e.Intent.Tool), text("qq.risk", string(e.Intent.Risk)))
		}
		if e.Decision != "" {
			about = append(about, text("qq.decision", e.Decision))
		}
		r.moment(e.TS, "qq."+string(e.Type), about...)
	}
}

// close ends everything that is open, the root first: if only some of it can be
// sent, it is what all the rest hangs on.
func (t *tree) close(at time.Time) []*span {
	whole := []*span{t.root.span}
	t.root.interrupt(at)
	for _, s := range t.batches {
		s.interrupt(at)
		whole = append(whole, s)
	}
	for _, r := range t.runs {
		r.interrupt(at)
		whole = append(append(whole, r.span), r.abandon(at)...)
	}
	return append(whole, t.root.abandon(at)...)
}

// abandon ends the calls that are still open.
func (r *run) abandon(at time.Time) []*span {
	open := make([]*span, len(r.tools))
	for i, c := range r.tools {
		c.interrupt(at)
		open[i] = c.span
	}
	r.tools = nil
	return open
}

// interrupt ends s unless its end was told.
func (s *span) interrupt(at time.Time) {
	if s.End == 0 {
		s.end(at)
		s.fail(string(task.Interrupted))
	}
}
