package trace

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/event"
	"qq/pkg/task"
	"qq/pkg/tool"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// speaker hands events to an exporter as a stream does, at times that a test
// sets.
type speaker struct {
	x  *Exporter
	at time.Time
}

func (s *speaker) say(after time.Duration, e event.Event) {
	s.at = s.at.Add(after)
	e.TS = s.at
	s.x.Handle(e)
}

const (
	rootID = "root"
	secret = "hunter2"
)

// start returns an exporter to a collector without a network.
func start(to http.RoundTripper) *Exporter {
	x := Start(Config{Endpoint: "http://c/v1/traces", Trace: event.NewTrace(), RootID: rootID})
	x.transport = to
	return x
}

// The run of a batch: two tasks, one of which delegates and is asked about a
// call.
func aRun(s *speaker) {
	one := event.Event{ExecutionID: "one", BatchID: "b", Agent: "coder", Depth: 1}
	two := event.Event{ExecutionID: "two", BatchID: "b", Agent: "explorer", Depth: 1}
	sub := event.Event{ExecutionID: "sub", ParentExecutionID: "one", Agent: "worker", Depth: 2}
	as := func(e event.Event, t event.Type, also func(*event.Event)) event.Event {
		e.Type, e.Task, e.Text, e.Arguments, e.Error = t, secret, secret, secret, secret
		if also != nil {
			also(&e)
		}
		return e
	}
	calling := func(name string) func(*event.Event) { return func(e *event.Event) { e.Tool = name } }
	asking := func(e *event.Event) {
		e.QuestionID, e.Chain = "q", []string{"coder"}
		e.Intent = &tool.Intent{Tool: "run_pty_cmd", Risk: tool.High, Summary: secret, Preview: secret,
			Paths: []string{secret}}
	}
	ending := func(status task.Status, code int) func(*event.Event) {
		return func(e *event.Event) {
			e.Status, e.ExitCode, e.Usage = status, &code, &task.Usage{InputTokens: 10, OutputTokens: 20}
			e.DurationMS, e.Attempt, e.Model = 500, 2, "ollama:m"
		}
	}
	s.say(0, event.Event{Type: event.BatchStart, BatchID: "b"})
	s.say(time.Second, as(one, event.SubAgentStart, nil))
	s.say(0, as(two, event.SubAgentStart, nil))
	s.say(0, as(one, event.Token, nil))
	s.say(0, as(one, event.ToolStart, calling("run_pty_cmd")))
	s.say(0, as(one, event.ValidationRequired, asking))
	s.say(time.Second, as(one, event.ValidationResolved, func(e *event.Event) { asking(e); e.Decision = "once" }))
	s.say(time.Second, as(one, event.ToolEnd, func(e *event.Event) { e.Tool, e.Failed = "run_pty_cmd", true }))
	s.say(0, as(one, event.ToolStart, calling("delegate_task")))
	s.say(0, as(sub, event.SubAgentStart, nil))
	s.say(0, as(sub, event.ToolStart, calling("grep_file")))
	s.say(time.Second, as(sub, event.SubAgentProgress,
		func(e *event.Event) { e.Attempt, e.DurationMS, e.Model = 2, 60000, "ollama:m" }))
	s.say(0, as(sub, event.SubAgentError, ending(task.Timeout, 124)))
	s.say(time.Second, as(one, event.ToolEnd, calling("delegate_task")))
	s.say(0, as(one, event.SubAgentComplete, ending(task.Completed, 0)))
	s.say(0, as(event.Event{ExecutionID: "known", BatchID: "b", Agent: "coder", Depth: 1}, event.SubAgentComplete,
		func(e *event.Event) { ending(task.Completed, 0)(e); e.Cached = true }))
	s.say(0, event.Event{Type: event.BatchComplete, BatchID: "b", Count: 3})
}

func TestTree(t *testing.T) {
	c := &collector{t: t}
	trace := event.StartTrace(parent)
	before := time.Now()
	x := Start(Config{
		Endpoint: c.serve() + "/v1/traces", Headers: map[string]string{"x-api-key": "k"}, Version: "1.2",
		Attributes: map[string]string{"deployment.environment.name": "test"}, Trace: trace, RootID: rootID,
	})
	began := time.Now()
	s := &speaker{x, began}
	aRun(s)
	s.say(0, event.Event{Type: event.SubAgentStart, ExecutionID: "late", Agent: "coder", Depth: 1})
	code := 130
	s.say(time.Second, event.Event{Type: event.SubAgentError, Status: task.Cancelled, ExitCode: &code})
	require.NoError(t, x.Close(t.Context()))
	require.NoError(t, x.Close(t.Context()), "a second time is nothing")
	s.say(0, event.Event{Type: event.SubAgentComplete, ExecutionID: "afterwards"})

	require.Len(t, c.requests, 1)
	assert.Equal(t, "application/json", c.headers[0].Get("Content-Type"))
	assert.Equal(t, "k", c.headers[0].Get("X-Api-Key"))
	all := c.requests[0].ResourceSpans[0]
	assert.Equal(t, map[string]any{"service.name": "qq", "service.version": "1.2",
		"deployment.environment.name": "test"},
		facts(t, all.Resource.Attributes))
	assert.Equal(t, "qq", all.ScopeSpans[0].Scope.Name)
	assert.NotContains(t, c.bodies[0], secret, "no text leaves the machine")

	spans := c.spans()
	paths := map[string]received{}
	for _, s := range spans {
		assert.Equal(t, trace.TraceID(), s.TraceID)
		path := s.Name
		for up := s.ParentSpanID; up != trace.ParentID(); up = spans[up].ParentSpanID {
			require.Contains(t, spans, up, "the parent of %s is a span", path)
			path = spans[up].Name + " > " + path
		}
		paths[path] = s
	}
	names := []string{}
	for p := range paths {
		names = append(names, p)
	}
	slices.Sort(names)
	assert.Equal(t, []string{
		"qq",
		"qq > batch",
		"qq > batch > invoke_agent coder", // twice: one of them was known
		"qq > batch > invoke_agent coder > execute_tool delegate_task",
		"qq > batch > invoke_agent coder > execute_tool run_pty_cmd",
		"qq > batch > invoke_agent coder > invoke_agent worker",
		"qq > batch > invoke_agent coder > invoke_agent worker > execute_tool grep_file",
		"qq > batch > invoke_agent explorer",
		"qq > invoke_agent coder",
	}, names)
	assert.Len(t, spans, 10)

	root := paths["qq"]
	assert.Equal(t, trace.SpanID(rootID), root.SpanID)
	assert.Equal(t, map[string]any{"qq.depth": 0, "qq.status": "cancelled", "qq.exit_code": 130,
		"error.type": "cancelled"}, facts(t, root.Attributes))
	assert.GreaterOrEqual(t, root.StartTimeUnixNano, before.UnixNano())
	assert.LessOrEqual(t, root.StartTimeUnixNano, began.UnixNano())
	assert.Equal(t, s.at.UnixNano(), root.EndTimeUnixNano, "its end is when it was told, not when it was sent")

	one := spans[trace.SpanID("one")]
	assert.Equal(t, map[string]any{
		"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "coder", "gen_ai.request.model": "ollama:m",
		"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 20,
		"qq.execution_id": "one", "qq.batch_id": "b", "qq.depth": 1, "qq.status": "completed", "qq.exit_code": 0,
		"qq.attempts": 2,
	}, facts(t, one.Attributes))
	assert.Zero(t, one.Status)
	assert.Equal(t, began.Add(time.Second).UnixNano(), one.StartTimeUnixNano)
	assert.Equal(t, began.Add(5*time.Second).UnixNano(), one.EndTimeUnixNano)
	require.Len(t, one.Events, 2)
	assert.Equal(t, "qq.validation_required", one.Events[0].Name)
	assert.Equal(t, map[string]any{"qq.question_id": "q", "gen_ai.tool.name": "run_pty_cmd", "qq.risk": "high"},
		facts(t, one.Events[0].Attributes))
	assert.Equal(t, "qq.validation_resolved", one.Events[1].Name)
	assert.Equal(t, began.Add(2*time.Second).UnixNano(), one.Events[1].TimeUnixNano)
	assert.Equal(t, "once", facts(t, one.Events[1].Attributes)["qq.decision"])

	sub := spans[trace.SpanID("sub")]
	assert.Equal(t, 2, sub.Status.Code)
	assert.Equal(t, "timeout", sub.Status.Message)
	assert.Equal(t, "timeout", facts(t, sub.Attributes)["error.type"])
	require.Len(t, sub.Events, 1)
	assert.Equal(t, map[string]any{"qq.attempt": 2, "qq.duration_ms": 60000, "gen_ai.request.model": "ollama:m"},
		facts(t, sub.Events[0].Attributes))

	known := spans[trace.SpanID("known")]
	assert.Equal(t, true, facts(t, known.Attributes)["qq.cached"])
	assert.EqualValues(t, 500*time.Millisecond, known.EndTimeUnixNano-known.StartTimeUnixNano,
		"an end without a start says how long it took")

	shell := paths["qq > batch > invoke_agent coder > execute_tool run_pty_cmd"]
	assert.Equal(t, 2, shell.Status.Code)
	assert.EqualValues(t, 2*time.Second, shell.EndTimeUnixNano-shell.StartTimeUnixNano)
	assert.Zero(t, paths["qq > batch > invoke_agent coder > execute_tool delegate_task"].Status)
	for _, open := range []string{"qq > batch > invoke_agent explorer", "qq > invoke_agent coder",
		"qq > batch > invoke_agent coder > invoke_agent worker > execute_tool grep_file"} {
		assert.Equal(t, "interrupted", paths[open].Status.Message, open)
	}
	assert.Equal(t, 3, facts(t, paths["qq > batch"].Attributes)["qq.tasks"])
}

// Of a root whose end nobody tells, the end is an interruption; an agent of its
// own gives it a name; each turn of a conversation ends it anew.
func TestRoot(t *testing.T) {
	for name, c := range map[string]struct {
		say  []event.Event
		want string
		code int
	}{
		"qq":                 {nil, "interrupted", 2},
		"invoke_agent coder": {[]event.Event{{Type: event.SubAgentStart, Agent: "coder"}}, "interrupted", 2},
		"invoke_agent worker": {[]event.Event{{Type: event.SubAgentComplete, Agent: "worker", Status: task.Completed}},
			"", 0},
		"invoke_agent two": {[]event.Event{{Type: event.SubAgentError, Agent: "one", Status: task.Failed},
			{Type: event.SubAgentStart, Agent: "two"},
			{Type: event.SubAgentComplete, Agent: "two", Status: task.Completed}},
			"", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			col := &collector{t: t}
			x := start(col)
			for _, e := range c.say {
				x.Handle(e)
			}
			x.Handle(event.Event{Type: event.ToolStart, Tool: "a"})
			require.NoError(t, x.Close(t.Context()))
			spans := col.spans()
			require.Len(t, spans, 2)
			root := spans[x.cfg.Trace.SpanID(rootID)]
			assert.Equal(t, name, root.Name)
			assert.Empty(t, root.ParentSpanID)
			assert.Equal(t, c.want, root.Status.Message)
			assert.Equal(t, c.code, root.Status.Code)
		})
	}
}

// The root is known by its id, and by none: what hangs on either hangs on its span.
func TestRootID(t *testing.T) {
	c := &collector{t: t}
	x := start(c)
	for i, id := range []string{"", rootID} {
		x.Handle(event.Event{Type: event.ToolStart, ExecutionID: id, Tool: "a"})
		x.Handle(event.Event{Type: event.BatchStart, ExecutionID: id, BatchID: strconv.Itoa(i)})
		x.Handle(event.Event{Type: event.SubAgentStart, ExecutionID: "child of " + id, ParentExecutionID: id,
			Agent: "a"})
	}
	require.NoError(t, x.Close(t.Context()))
	spans := c.spans()
	require.Len(t, spans, 7)
	root := x.cfg.Trace.SpanID(rootID)
	for id, s := range spans {
		if id != root {
			assert.Equal(t, root, s.ParentSpanID, s.Name)
		}
	}
}

// What a child says is bounded: names, and the events of a span.
func TestBounds(t *testing.T) {
	c := &collector{t: t}
	x := start(c)
	long := "\x1b[31m" + strings.Repeat("ä", 10_000) + "\xff"
	x.Handle(event.Event{Type: event.SubAgentStart, ExecutionID: "e", Agent: "a"})
	x.Handle(event.Event{Type: event.ToolStart, ExecutionID: "e", Tool: long})
	for range maxMoments + 5 {
		x.Handle(event.Event{Type: event.SubAgentProgress, ExecutionID: "e", Text: secret})
	}
	for _, typ := range []event.Type{event.ToolEnd, event.SubAgentProgress, "of the future"} {
		x.Handle(event.Event{Type: typ, ExecutionID: "unknown", Tool: long}) // nothing to do with anything
	}
	x.Handle(event.Event{Type: event.ToolEnd, ExecutionID: "e", Tool: "never started"})
	x.Handle(event.Event{Type: event.BatchComplete, BatchID: "unknown"})
	x.Handle(event.Event{Type: event.SubAgentComplete, ExecutionID: "e"})
	require.NoError(t, x.Close(t.Context()))
	spans := c.spans()
	assert.Len(t, spans, 3)
	run := spans[x.cfg.Trace.SpanID("e")]
	assert.Len(t, run.Events, maxMoments)
	assert.Equal(t, 5, run.DroppedEventsCount)
	for _, s := range spans {
		assert.Less(t, len(s.Name), 300)
		assert.NotContains(t, s.Name, "\x1b")
	}
}

// Of a large batch the collector gets the spans that began first, each with its
// parent, and a person is told how many were left out.
func TestManyTasks(t *testing.T) {
	for tasks, left := range map[int]int{maxSpans/2 - 1: 0, maxSpans: maxSpans + 2} {
		c := &collector{t: t}
		x := start(c)
		x.Handle(event.Event{Type: event.BatchStart, BatchID: "b"})
		for i := range tasks {
			id := strconv.Itoa(i)
			x.Handle(event.Event{Type: event.SubAgentStart, ExecutionID: id, Agent: "a", BatchID: "b"})
			x.Handle(event.Event{Type: event.ToolStart, ExecutionID: id, Tool: "t"})
			x.Handle(event.Event{Type: event.SubAgentProgress, ExecutionID: strconv.Itoa(tasks), Attempt: 2})
			x.Handle(event.Event{Type: event.ToolEnd, ExecutionID: id, Tool: "t"})
			x.Handle(event.Event{Type: event.SubAgentComplete, ExecutionID: id, Agent: "a", BatchID: "b"})
		}
		assert.Len(t, x.runs, 2, "only the root is open, by two names")
		err := x.Close(t.Context())
		if left == 0 {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, "trace: 10002 spans were not exported: "+
				"a trace holds 10000 spans and events, the first ones\n"+
				"hint: `--output-format stream-json` has all events; the run itself lost nothing")
		}
		assert.Len(t, c.requests, 1)
		spans := c.spans()
		assert.Len(t, spans, 2+2*tasks-left)
		for id, s := range spans {
			if _, there := spans[s.ParentSpanID]; !there && id != x.cfg.Trace.SpanID(rootID) {
				t.Fatalf("%s has no parent", s.Name)
			}
		}
		first := spans[x.cfg.Trace.SpanID("0")]
		assert.Equal(t, "invoke_agent a", first.Name)
		assert.Empty(t, first.Status, "the end of a span that was kept is told")
	}
}

// What happens to executions while there is no room costs no memory, and is counted
// once.
func TestFull(t *testing.T) {
	x := start(&collector{t: t})
	for i := range maxSpans - 2 {
		x.Handle(event.Event{Type: event.SubAgentComplete, ExecutionID: strconv.Itoa(i), Agent: "a"})
	}
	x.Handle(event.Event{Type: event.SubAgentStart, ExecutionID: "last", Agent: "a"})
	x.Handle(event.Event{Type: event.SubAgentStart, ExecutionID: "too many", Agent: "a"})
	for _, id := range []string{"last", "too many"} {
		x.Handle(event.Event{Type: event.ToolStart, ExecutionID: id, Tool: "a"})
		x.Handle(event.Event{Type: event.SubAgentProgress, ExecutionID: id, Attempt: 2})
		assert.Empty(t, x.runs[id].calls)
		assert.Empty(t, x.runs[id].Events)
		x.Handle(event.Event{Type: event.ToolEnd, ExecutionID: id, Tool: "a"})
	}
	x.Handle(event.Event{Type: event.SubAgentComplete, ExecutionID: "too many", Agent: "a"})
	x.Handle(event.Event{Type: event.BatchStart, BatchID: "too late"})
	x.Handle(event.Event{Type: event.BatchComplete, BatchID: "too late"})
	require.ErrorContains(t, x.Close(t.Context()),
		"trace: 4 spans were not exported: a trace holds 10000 spans and events, the first ones\n")
}

// There is one request, whatever the collector says to it.
func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answer func() *http.Response
		want   string
	}{
		"fine": {answer(200, `{"partialSuccess":{}}`), ""},
		"busy": {answer(429, "", "Retry-After", "7"),
			"2 spans were not exported: the collector answered 429 Too Many Requests\n" +
				"hint: it is busy or starting; the run itself lost nothing"},
		"starting": {answer(503, ""), "2 spans were not exported: the collector answered 503 Service Unavailable\n" +
			"hint: it is busy"},
		"who are you": {answer(401, ""), "2 spans were not exported: the collector answered 401 Unauthorized\n" +
			"hint: OTEL_EXPORTER_OTLP_HEADERS"},
		"elsewhere": {answer(307, "", "Location", "http://evil/"),
			"answered 307 Temporary Redirect\nhint: /v1/traces is added"},
		"not found": {answer(404, ""), "answered 404 Not Found\nhint: /v1/traces is added"},
		"no JSON": {answer(415, ""), "answered 415 Unsupported Media Type\nhint: the collector must accept OTLP " +
			"as JSON"},
		"broken": {answer(500, ""), "answered 500 Internal Server Error\nhint: its log"},
		"some": {answer(200, `{"partialSuccess":{"rejectedSpans":"1","errorMessage":"too \u001b[1mold"}}`),
			"1 span was not exported: the collector rejected them: too [1mold\nhint"},
		"some, number": {answer(202, `{"partialSuccess":{"rejectedSpans":1}}`),
			"1 span was not exported: the collector rejected them"},
		"what it likes": {answer(200, `<html>`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			col := &collector{t: t, answers: []func() *http.Response{c.answer}}
			x := start(col)
			x.Handle(event.Event{Type: event.SubAgentComplete, ExecutionID: "e", Agent: "a"})
			err := x.Close(t.Context())
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, "trace: ")
				assert.ErrorContains(t, err, c.want)
			}
			assert.Len(t, col.spans(), 2)
			assert.Len(t, col.requests, 1)
		})
	}
}

// hanging is a collector that never answers.
type hanging struct{}

func (hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// A collector that hangs costs the timeout at the end of the run, or less where the
// caller says so, and nothing before.
func TestTimeout(t *testing.T) {
	for name, c := range map[string]struct{ set, within, want time.Duration }{
		"by default":   {0, 0, postTimeout},
		"set":          {time.Second, 0, time.Second},
		"set higher":   {time.Minute, 0, time.Minute},
		"caller's end": {0, 300 * time.Millisecond, 300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := start(hanging{})
				x.cfg.Timeout = c.set
				at := time.Now()
				x.Handle(event.Event{Type: event.SubAgentComplete, ExecutionID: "e", Agent: "a"})
				assert.Zero(t, time.Since(at))
				ctx := t.Context()
				if c.within != 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.within)
					defer cancel()
				}
				go func() {
					time.Sleep(time.Millisecond)
					x.Handle(event.Event{Type: event.SubAgentComplete, ExecutionID: "late"})
					assert.Equal(t, time.Millisecond, time.Since(at), "an event waits for no collector")
				}()
				err := x.Close(ctx)
				assert.Equal(t, c.want, time.Since(at))
				assert.EqualError(t, err, "trace: 2 spans were not exported: the collector did not take them in time\n"+
					"hint: the collector is slow or hangs; OTEL_EXPORTER_OTLP_TIMEOUT allows more, in milliseconds")
			})
		})
	}
}

// The same with a server that takes the connection and the request.
func TestHangingServer(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer s.Close()
	x := Start(Config{Endpoint: s.URL, Trace: event.NewTrace(), Timeout: 50 * time.Millisecond})
	x.Handle(event.Event{Type: event.SubAgentStart, ExecutionID: "e"})
	at := time.Now()
	require.ErrorContains(t, x.Close(t.Context()),
		"trace: 2 spans were not exported: the collector did not take them in time\nhint: ")
	assert.Less(t, time.Since(at), postTimeout)
}

// Nobody listens there.
func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	x := Start(Config{Endpoint: "http://u:" + secret + "@" + l.Addr().String() + "/", Trace: event.NewTrace()})
	require.NoError(t, l.Close())
	err = x.Close(t.Context())
	require.ErrorContains(t, err, "trace: 1 span was not exported: send to the collector: ")
	assert.ErrorContains(t, err, "connection refused\nhint: is it running")
	assert.NotContains(t, err.Error(), secret)
	assert.Equal(t, 1, strings.Count(err.Error(), "\n"))
}

func TestNotSampled(t *testing.T) {
	require.Nil(t, Start(Config{Endpoint: "http://c/", Trace: event.StartTrace(parent[:53] + "00")}))
}

func TestFromEnv(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	read := func(env ...string) (Config, bool, error) {
		m := map[string]string{}
		for i := 0; i < len(env); i += 2 {
			m[env[i]] = env[i+1]
		}
		return FromEnv(func(k string) string { return m[k] })
	}
	for _, env := range [][]string{
		nil,
		{endpoint, ""},
		{"OTEL_EXPORTER_OTLP_HEADERS", "a=b", "OTEL_SERVICE_NAME", "x"},
		{endpoint, "http://c", "OTEL_SDK_DISABLED", "True"},
		{endpoint, "http://c", "OTEL_TRACES_EXPORTER", "none"},
		{endpoint, "no url", "OTEL_TRACES_EXPORTER", "console"},
	} {
		c, on, err := read(env...)
		require.NoError(t, err, env)
		assert.False(t, on, env)
		assert.Zero(t, c, env)
	}
	for _, c := range []struct{ env, want string }{
		{"http://c:4318", "http://c:4318/v1/traces"},
		{"https://c/otlp/ ", "https://c/otlp/v1/traces"},
		{"http://u:p@c/?a=b", "http://u:p@c/v1/traces?a=b"},
	} {
		got, on, err := read(endpoint, c.env, "OTEL_TRACES_EXPORTER", "otlp", "OTEL_SDK_DISABLED", "no")
		require.NoError(t, err)
		assert.True(t, on)
		assert.Equal(t, Config{Endpoint: c.want}, got)
	}
	got, on, err := read(endpoint, "nonsense", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t:4318",
		"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf",
		"OTEL_EXPORTER_OTLP_TIMEOUT", "x", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "1500",
		"OTEL_EXPORTER_OTLP_HEADERS", "a=b",
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "authorization=Bearer%20x==, x-y = a%2Cb ,,e=",
		"OTEL_SERVICE_NAME", "mine", "OTEL_RESOURCE_ATTRIBUTES", "service.name=other,team=a%20b")
	require.NoError(t, err)
	assert.True(t, on)
	assert.Equal(t, Config{
		Endpoint: "http://t:4318", Timeout: 1500 * time.Millisecond,
		Headers:     map[string]string{"authorization": "Bearer x==", "x-y": "a,b", "e": ""},
		ServiceName: "mine", Attributes: map[string]string{"service.name": "other", "team": "a b"},
	}, got)

	for _, c := range []struct{ name, value, want string }{
		{endpoint, "localhost:4318", "OTEL_EXPORTER_OTLP_ENDPOINT is no address of a collector\n" +
			"hint: write it as http://localhost:4318"},
		{endpoint, "http://", "OTEL_EXPORTER_OTLP_ENDPOINT is no address of a collector\n" +
			"hint: write it as http://localhost:4318"},
		{endpoint, "http://u:" + secret + "@c:99999999999/%zz",
			"OTEL_EXPORTER_OTLP_ENDPOINT is no address of a collector\nhint: write it as http://localhost:4318"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "OTEL_EXPORTER_OTLP_PROTOCOL is grpc, which qq does not speak\n" +
			"hint: set it to http/json, and the endpoint to the collector's address for HTTP (usually port 4318)"},
		{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "smoke", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL is \"smoke\"\n" +
			"hint: accepted is http/json"},
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "10s", "OTEL_EXPORTER_OTLP_TIMEOUT is \"10s\"\n" +
			"hint: write milliseconds above 0, such as 10000"},
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "0", "OTEL_EXPORTER_OTLP_TIMEOUT is \"0\"\n" +
			"hint: write milliseconds above 0, such as 10000"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "a=b," + secret, "OTEL_EXPORTER_OTLP_HEADERS: entry 2 is no name=value\n" +
			"hint: separate entries with commas; write a comma or a percent sign in a value as %2C and %25"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "a=" + secret + "%zz",
			"OTEL_EXPORTER_OTLP_HEADERS: entry 1 is no name=value\n" +
				"hint: separate entries with commas; write a comma or a percent sign in a value as %2C and %25"},
		{"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=b%0D%0Ac: " + secret,
			"OTEL_EXPORTER_OTLP_TRACES_HEADERS: \"a\" is no header\nhint: write name=value, several with commas " +
				"between them"},
		{"OTEL_RESOURCE_ATTRIBUTES", "=x", "OTEL_RESOURCE_ATTRIBUTES: entry 1 is no name=value\n" +
			"hint: separate entries with commas; write a comma or a percent sign in a value as %2C and %25"},
	} {
		_, on, err := read(endpoint, "http://c", c.name, c.value)
		assert.EqualError(t, err, c.want)
		assert.False(t, on)
	}
}

func FuzzPairs(f *testing.F) {
	for _, s := range []string{"a=b", "a=b,c=%2C", ",,", "a", "%zz=1", "a==", " a = b "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := pairs("NAME", s)
		if err != nil {
			assert.Nil(t, got)
			assert.Equal(t, 1, strings.Count(err.Error(), "\n"))
			return
		}
		assert.NotContains(t, got, "")
		assert.LessOrEqual(t, len(got), 1+strings.Count(s, ","))
	})
}

// BenchmarkClose is what the end of a large run costs.
func BenchmarkClose(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		x := start(hanging{})
		sink(x, maxSpans)
		body, err := x.body()
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(body)))
	}
}

// BenchmarkHandle is what each task of a batch costs.
func BenchmarkHandle(b *testing.B) {
	b.ReportAllocs()
	sink(start(hanging{}), b.N)
}

// sink hands the events of n tasks to x.
func sink(x *Exporter, n int) {
	code := 0
	for i := range n {
		id := strconv.Itoa(i)
		x.Handle(event.Event{Type: event.SubAgentStart, ExecutionID: id, Agent: "a", BatchID: "b", Depth: 1})
		x.Handle(event.Event{Type: event.SubAgentComplete, ExecutionID: id, Agent: "a", BatchID: "b", Depth: 1,
			Status: task.Completed, ExitCode: &code, Usage: &task.Usage{}})
	}
}

// The root's own agent has no span beside that of the root, which keeps the status of its agent. A batch
// within the tree stands below the agent that called for it, and has its tasks below it. Two calls of one
// tool are told apart by their ids.
func TestAgentOfRoot(t *testing.T) {
	c := &collector{t: t}
	x := Start(Config{Endpoint: c.serve() + "/v1/traces", Trace: event.StartTrace(parent), RootID: rootID})
	s := &speaker{x, time.Now()}
	zero := event.Event{ExecutionID: rootID, Agent: "default"}
	child := event.Event{ExecutionID: "c", ParentExecutionID: rootID, BatchID: "b", CallID: "two", Agent: "coder",
		Depth: 1}
	say := func(after time.Duration, e event.Event, typ event.Type, more func(*event.Event)) {
		if e.Type = typ; more != nil {
			more(&e)
		}
		s.say(after, e)
	}
	code := 124
	calls := func(id string) func(*event.Event) {
		return func(e *event.Event) { e.Tool, e.CallID = "run_parallel_tasks", id }
	}
	say(0, zero, event.SubAgentStart, nil)
	say(0, zero, event.SubAgentProgress, func(e *event.Event) { e.Phase, e.Total = event.PhaseModel, 9 })
	say(0, zero, event.ToolStart, calls("one"))
	say(0, zero, event.ToolStart, calls("two"))
	say(0, zero, event.BatchStart, func(e *event.Event) { e.BatchID, e.CallID = "b", "two" })
	say(0, child, event.SubAgentStart, nil)
	say(time.Second, child, event.SubAgentComplete, func(e *event.Event) { e.Summary = secret })
	say(0, zero, event.BatchComplete, func(e *event.Event) { e.BatchID = "b" })
	say(0, zero, event.ToolEnd, func(e *event.Event) { calls("two")(e); e.Failed = true })
	say(0, zero, event.ToolEnd, calls("one"))
	say(0, zero, event.SubAgentError, func(e *event.Event) { e.Status, e.ExitCode = task.Timeout, &code })
	s.say(time.Second, event.Event{Type: event.SubAgentError, Status: task.Failed, ExitCode: &code})
	require.NoError(t, x.Close(t.Context()))

	require.Len(t, c.requests, 1)
	spans := c.requests[0].ResourceSpans[0].ScopeSpans[0].Spans
	require.Len(t, spans, 5)
	root, one, two, batch, sub := spans[0], spans[1], spans[2], spans[3], spans[4]
	assert.Equal(t, "invoke_agent default", root.Name)
	assert.Equal(t, "timeout", facts(t, root.Attributes)["error.type"])
	assert.Equal(t, "timeout", facts(t, root.Attributes)["qq.status"])
	assert.Empty(t, root.Events, "phases are no events of a span")
	assert.Equal(t, []string{root.SpanID, batch.SpanID}, []string{batch.ParentSpanID, sub.ParentSpanID})
	assert.Equal(t, "one", facts(t, one.Attributes)["gen_ai.tool.call.id"])
	assert.Nil(t, facts(t, one.Attributes)["error.type"])
	assert.Equal(t, "tool_error", facts(t, two.Attributes)["error.type"])
}
