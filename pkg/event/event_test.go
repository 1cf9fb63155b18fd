package event

import (
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/task"
)

// However many speak at once, each sink gets every event, one at a time, in the
// order of their numbers, and all sinks see the same.
func TestTotalOrder(t *testing.T) {
	const speakers, each = 8, 200
	var busy atomic.Int32
	var seen [2][]Event
	sink := func(i int) Sink {
		return SinkFunc(func(e Event) {
			assert.EqualValues(t, 1, busy.Add(1), "two events are delivered at once")
			seen[i] = append(seen[i], e)
			busy.Add(-1)
		})
	}
	s := NewStream("trace", sink(0), sink(1))
	var wg sync.WaitGroup
	for who := range speakers {
		wg.Go(func() {
			for n := range each {
				s.Emit(Event{Type: Token, Depth: who, Count: n})
			}
		})
	}
	wg.Wait()
	require.Len(t, seen[0], speakers*each)
	assert.Equal(t, seen[0], seen[1])
	next := map[int]int{}
	for i, e := range seen[0] {
		require.EqualValues(t, i+1, e.Seq)
		require.Equal(t, next[e.Depth], e.Count, "the events of one speaker changed their order")
		next[e.Depth]++
	}
}

// What the stream knows better than its speaker is overwritten.
func TestEmitCompletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got Event
		s := NewStream("trace", SinkFunc(func(e Event) { got = e }))
		s.Emit(Event{V: 9, Seq: 99, TS: time.Unix(1, 0), TraceID: "other", Type: ToolEnd, Tool: "read_file"})
		assert.Equal(t, Event{
			V: Version, Seq: 1, TS: time.Now().UTC(), TraceID: "trace", Type: ToolEnd, Tool: "read_file",
		}, got)
	})
}

func TestNobodyListens(t *testing.T) {
	for _, s := range []*Stream{nil, {}, NewStream("trace")} {
		assert.False(t, s.Wanted())
		s.Emit(Event{Type: Token})
	}
	assert.True(t, NewStream("", SinkFunc(func(Event) {})).Wanted())
}

// The lines that scripts read. A change here is a change of [Version].
func TestSchema(t *testing.T) {
	at := time.Date(2026, 2, 4, 10, 30, 15, 123456789, time.UTC)
	code := 124
	problem := "Child process timed out after 300s"
	for _, c := range []struct {
		event Event
		want  string
	}{
		{Event{Type: BatchStart},
			`{"v":0,"seq":0,"ts":"2026-02-04T10:30:15.123456789Z","type":"batch_start","trace_id":"",` +
				`"execution_id":"",` +
				`"parent_execution_id":"","batch_id":"","call_id":"","agent":"","depth":0}`},
		{Event{Type: BatchComplete, Count: 4, FailedTasks: 2},
			`{"v":0,"seq":0,"ts":"2026-02-04T10:30:15.123456789Z","type":"batch_complete","trace_id":"",` +
				`"execution_id":"",` +
				`"parent_execution_id":"","batch_id":"","call_id":"","agent":"","depth":0,"count":4,"failed_tasks":2}`},
		{Event{Type: SubAgentProgress, Text: "request repeated", Model: "ollama:m", Attempt: 2, Cached: true,
			DurationMS: 500},
			`{"v":0,"seq":0,"ts":"2026-02-04T10:30:15.123456789Z","type":"sub_agent_progress","trace_id":"",` +
				`"execution_id":"",` +
				`"parent_execution_id":"","batch_id":"","call_id":"","agent":"","depth":0,"text":"request repeated",` +
				`"model":"ollama:m",` +
				`"attempt":2,` +
				`"cached":true,"duration_ms":500}`},
		{Event{
			V: 1, Seq: 7, Type: SubAgentError, TraceID: "t", ExecutionID: "e", ParentExecutionID: "p", BatchID: "b",
			CallID: "c", Agent: "coder", Depth: 2,
			Task: "do", Text: "so far", Tool: "read_file", Arguments: `{"path":"x"}`, Failed: true,
			Status:   task.Timeout,
			ExitCode: &code,
			Error:    problem, Usage: &task.Usage{InputTokens: 1, OutputTokens: 2}, DurationMS: 3, Count: 4,
			Result: &task.Result{Task: "do", Agent: "coder", Error: &problem, Status: task.Timeout, ExitCode: 124},
		},
			`{"v":1,"seq":7,"ts":"2026-02-04T10:30:15.123456789Z","type":"sub_agent_error","trace_id":"t",` +
				`"execution_id":"e",` +
				`"parent_execution_id":"p","batch_id":"b","call_id":"c","agent":"coder","depth":2,"task":"do","text":"so far",` +
				`"tool":"read_file",` +
				`"arguments":"{\"path\":\"x\"}","failed":true,"status":"timeout","exit_code":124,` +
				`"error":"Child process timed out after 300s","usage":{"input_tokens":1,"output_tokens":2},` +
				`"duration_ms":3,` +
				`"count":4,` +
				`"result":{"task":"do","agent":"coder","success":false,"output":"","error":"Child process timed ` +
				`out after 300s",` +
				`"index":0,"status":"timeout","exit_code":124,"attempts":0,"duration_ms":0,"queued_ms":0,` +
				`"usage":{"input_tokens":0,"output_tokens":0},"truncated":false}}`},
	} {
		c.event.TS = at
		line, err := json.Marshal(c.event)
		require.NoError(t, err)
		assert.Equal(t, c.want, string(line))
	}
	assert.Equal(t, 1, Version)
	assert.Equal(t, []Type{"sub_agent_start", "sub_agent_progress", "sub_agent_complete", "sub_agent_error",
		"tool_start",
		"tool_end", "token",
		"batch_start", "batch_complete", "validation_required", "validation_resolved"}, types())
}

func types() []Type {
	return []Type{SubAgentStart, SubAgentProgress, SubAgentComplete, SubAgentError, ToolStart, ToolEnd, Token,
		BatchStart,
		BatchComplete,
		ValidationRequired, ValidationResolved}
}

// Every event says which one it is and whom it is about, even where that is
// nobody: a script need not ask whether a field is there.
func TestIDs(t *testing.T) {
	var lines []string
	trace := NewTrace()
	s := NewStream(trace.TraceID(), SinkFunc(func(e Event) {
		line, err := json.Marshal(e)
		require.NoError(t, err)
		lines = append(lines, string(line))
	}))
	for _, typ := range types() {
		s.Emit(Event{Type: typ})
	}
	require.Len(t, lines, len(types()))
	for i, line := range lines {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields))
		assert.Len(t, fields, 11, line)
		for _, f := range []string{"v", "ts", "execution_id", "parent_execution_id", "batch_id", "call_id", "agent",
			"depth"} {
			assert.Contains(t, fields, f)
		}
		assert.EqualValues(t, types()[i], fields["type"])
		assert.Equal(t, trace.TraceID(), fields["trace_id"])
		assert.EqualValues(t, i+1, fields["seq"])
	}
}

// A sink that joins late gets every later event, and knows which is the first.
func TestJoin(t *testing.T) {
	var s Stream
	s.Emit(Event{})
	var seen []int64
	assert.Zero(t, s.Join(SinkFunc(func(e Event) { seen = append(seen, e.Seq) })), "nobody wanted the first")
	assert.True(t, s.Wanted())
	s.Emit(Event{})
	s.Emit(Event{})
	var late []int64
	assert.EqualValues(t, 2, s.Join(SinkFunc(func(e Event) { late = append(late, e.Seq) })))
	s.Emit(Event{})
	assert.Equal(t, []int64{1, 2, 3}, seen)
	assert.Equal(t, []int64{3}, late)
}

// A sink that only glances gets what there is, and nothing is made for it alone.
func TestGlance(t *testing.T) {
	var s Stream
	var seen []int64
	s.Glance(SinkFunc(func(e Event) { seen = append(seen, e.Seq) }))
	assert.True(t, s.Wanted())
	assert.False(t, s.Watched())
	s.Emit(Event{})
	s.Join(SinkFunc(func(Event) {}))
	assert.True(t, s.Watched())
	s.Emit(Event{})
	assert.Equal(t, []int64{1, 2}, seen)
	assert.True(t, NewStream("", SinkFunc(func(Event) {})).Watched())
	assert.False(t, (*Stream)(nil).Watched())
}
