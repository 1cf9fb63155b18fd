package trace

import (
	"context"
	"errors"
	"fmt"
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
	s.x.Sink(e)
}

var began = time.Date(2026, 2, 4, 10, 30, 15, 0, time.UTC)

const secret = "hunter2"

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
		e.Intent = &tool.Intent{Tool: "run_pty_cmd", Risk: tool.High, Summary: secret, Preview: secret, Paths: []string{secret}}
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
	s.say(time.Second, as(sub, event.SubAgentProgress, func(e *event.Event) { e.Attempt, e.DurationMS, e.Model = 2, 60000, "ollama:m" }))
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
	x := Start(Config{
		Endpoint: c.serve() + "/v1/traces", Headers: map[string]string{"x-api-key": "k"}, Version: "1.2",
		Attributes: map[string]string{"deployment.environment.name": "test"}, Trace: trace, Began: began,
	})
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
	assert.Equal(t, map[string]any{"service.name": "qq", "service.version": "1.2", "deployment.environment.name": "test"}, facts(t, all.Resource.Attributes))
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
	assert.Equal(t, trace.SpanID(""), root.SpanID)
	assert.Equal(t, map[string]any{"qq.depth": 0, "qq.status": "cancelled", "qq.exit_code": 130, "error.type": "cancelled"}, facts(t, root.Attributes))
	assert.Equal(t, began.UnixNano(), root.StartTimeUnixNano)
	assert.Equal(t, s.at.UnixNano(), root.EndTimeUnixNano, "its end is when it was told, not when it was sent")

	one := spans[trace.SpanID("one")]
	assert.Equal(t, map[string]any{
		"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "coder", "gen_ai.request.model": "ollama:m",
		"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 20,
		"qq.execution_id": "one", "qq.batch_id": "b", "qq.depth": 1, "qq.status": "completed", "qq.exit_code": 0, "qq.attempts": 2,
	}, facts(t, one.Attributes))
	assert.Zero(t, one.Status)
	assert.Equal(t, began.Add(time.Second).UnixNano(), one.StartTimeUnixNano)
	assert.Equal(t, began.Add(5*time.Second).UnixNano(), one.EndTimeUnixNano)
	require.Len(t, one.Events, 2)
	assert.Equal(t, "qq.validation_required", one.Events[0].Name)
	assert.Equal(t, map[string]any{"qq.question_id": "q", "gen_ai.tool.name": "run_pty_cmd", "qq.risk": "high"}, facts(t, one.Events[0].Attributes))
	assert.Equal(t, "qq.validation_resolved", one.Events[1].Name)
	assert.Equal(t, began.Add(2*time.Second).UnixNano(), one.Events[1].TimeUnixNano)
	assert.Equal(t, "once", facts(t, one.Events[1].Attributes)["qq.decision"])

	sub := spans[trace.SpanID("sub")]
	assert.Equal(t, 2, sub.Status.Code)
	assert.Equal(t, "timeout", sub.Status.Message)
	assert.Equal(t, "timeout", facts(t, sub.Attributes)["error.type"])
	require.Len(t, sub.Events, 1)
	assert.Equal(t, map[string]any{"qq.attempt": 2, "qq.duration_ms": 60000, "gen_ai.request.model": "ollama:m"}, facts(t, sub.Events[0].Attributes))

	known := spans[trace.SpanID("known")]
	assert.Equal(t, true, facts(t, known.Attributes)["qq.cached"])
	assert.EqualValues(t, 500*time.Millisecond, known.EndTimeUnixNano-known.StartTimeUnixNano, "an end without a start says how long it took")

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
		"qq":                  {nil, "interrupted", 2},
		"invoke_agent coder":  {[]event.Event{{Type: event.SubAgentStart, Agent: "coder"}}, "interrupted", 2},
		"invoke_agent worker": {[]event.Event{{Type: event.SubAgentComplete, Agent: "worker", Status: task.Completed}}, "", 0},
		"invoke_agent two": {[]event.Event{{Type: event.SubAgentError, Agent: "one", Status: task.Failed},
			{Type: event.SubAgentStart, Agent: "two"}, {Type: event.SubAgentComplete, Agent: "two", Status: task.Completed}}, "", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			col := &collector{t: t}
			x := start(Config{Endpoint: "http://c/v1/traces", Trace: event.NewTrace()}, col)
			for _, e := range c.say {
				x.Sink(e)
			}
			x.Sink(event.Event{Type: event.ToolStart, Tool: "a"})
			require.NoError(t, x.Close(t.Context()))
			spans := col.spans()
			require.Len(t, spans, 2)
			root := spans[x.cfg.Trace.SpanID("")]
			assert.Equal(t, name, root.Name)
			assert.Empty(t, root.ParentSpanID)
			assert.Equal(t, c.want, root.Status.Message)
			assert.Equal(t, c.code, root.Status.Code)
		})
	}
}

// What a child says is bounded: names, open calls, events of a span.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{t: t}
		x := start(Config{Endpoint: "http://c/v1/traces", Trace: event.NewTrace()}, c)
		long := "\x1b[31m" + strings.Repeat("ä", 10_000) + "\xff"
		x.Sink(event.Event{Type: event.SubAgentStart, ExecutionID: "e", Agent: "a"})
		for range maxTools + 7 {
			x.Sink(event.Event{Type: event.ToolStart, ExecutionID: "e", Tool: long})
		}
		for range maxMoments + 5 {
			x.Sink(event.Event{Type: event.SubAgentProgress, ExecutionID: "e", Text: secret})
		}
		for _, typ := range []event.Type{event.ToolEnd, event.SubAgentProgress, "of the future"} {
			x.Sink(event.Event{Type: typ, ExecutionID: "unknown", Tool: long}) // nothing to do with anything
		}
		x.Sink(event.Event{Type: event.ToolEnd, ExecutionID: "e", Tool: "never started"})
		x.Sink(event.Event{Type: event.BatchComplete, BatchID: "unknown"})
		x.Sink(event.Event{Type: event.SubAgentComplete, ExecutionID: "e"})
		err := x.Close(t.Context())
		assert.EqualError(t, err, "trace: 7 spans were not exported: they came faster than the collector took them\nhint: the collector is slow or hangs; the run itself lost nothing")
		spans := c.spans()
		assert.Len(t, spans, 2+maxTools)
		run := spans[x.cfg.Trace.SpanID("e")]
		assert.Len(t, run.Events, maxMoments)
		assert.Equal(t, 5, run.DroppedEventsCount)
		for _, s := range spans {
			assert.Less(t, len(s.Name), 300)
			assert.NotContains(t, s.Name, "\x1b")
		}
	})
}

// Requests hold at most 512 spans, and none waits for longer than a second.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{t: t}
		x := start(Config{Endpoint: "http://c/v1/traces", Trace: event.NewTrace()}, c)
		end := func(n int) {
			for range n {
				x.Sink(event.Event{Type: event.SubAgentComplete, ExecutionID: fmt.Sprint(time.Now(), x.made()), Agent: "a"})
			}
		}
		end(600)
		synctest.Wait()
		assert.Equal(t, []int{512}, c.sizes())
		time.Sleep(interval - 1)
		synctest.Wait()
		assert.Equal(t, []int{512}, c.sizes())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.Equal(t, []int{512, 88}, c.sizes())
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, []int{512, 88}, c.sizes(), "nothing is sent when nothing happens")
		end(1)
		require.NoError(t, x.Close(t.Context()))
		assert.Equal(t, []int{512, 88, 2}, c.sizes())
		c.spans()
	})
}

// made numbers the executions of a test.
func (x *Exporter) made() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.tree.made++
	return strconv.Itoa(x.tree.made)
}

// What a collector turns away for the moment is sent once more, when it says so.
func TestRetry(t *testing.T) {
	busy := answer(429, "", "Retry-After", "7")
	for name, c := range map[string]struct {
		answers []func() *http.Response
		after   time.Duration // until the second request; 0 is none
		want    string
	}{
		"busy":          {[]func() *http.Response{busy}, 7 * time.Second, ""},
		"starting":      {[]func() *http.Response{answer(503, "")}, time.Second, ""},
		"by date":       {[]func() *http.Response{answer(503, "", "Retry-After", "Sat, 01 Jan 2000 00:00:31 GMT")}, 30 * time.Second, ""},
		"rubbish":       {[]func() *http.Response{answer(503, "", "Retry-After", "-5")}, time.Second, ""},
		"always busy":   {[]func() *http.Response{busy, busy}, 7 * time.Second, "the collector answered 429 Too Many Requests\nhint: it is busy"},
		"who are you":   {[]func() *http.Response{answer(401, "")}, 0, "401 Unauthorized\nhint: OTEL_EXPORTER_OTLP_HEADERS"},
		"elsewhere":     {[]func() *http.Response{answer(307, "", "Location", "http://evil/")}, 0, "307 Temporary Redirect\nhint: /v1/traces is added"},
		"not found":     {[]func() *http.Response{answer(404, "")}, 0, "404 Not Found\nhint: /v1/traces is added"},
		"no JSON":       {[]func() *http.Response{answer(415, "")}, 0, "415 Unsupported Media Type\nhint: the collector must accept OTLP as JSON"},
		"broken":        {[]func() *http.Response{answer(500, "")}, 0, "500 Internal Server Error\nhint: its log"},
		"some":          {[]func() *http.Response{answer(200, `{"partialSuccess":{"rejectedSpans":"1","errorMessage":"too \u001b[1mold"}}`)}, 0, "the collector rejected them: too [1mold\nhint"},
		"some, number":  {[]func() *http.Response{answer(202, `{"partialSuccess":{"rejectedSpans":1}}`)}, 0, "the collector rejected them"},
		"what it likes": {[]func() *http.Response{answer(200, `<html>`)}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				col := &collector{t: t, answers: c.answers}
				x := start(Config{Endpoint: "http://c/v1/traces", Trace: event.NewTrace()}, col)
				x.Sink(event.Event{Type: event.SubAgentComplete, ExecutionID: "e", Agent: "a"})
				time.Sleep(interval)
				synctest.Wait()
				assert.Equal(t, []int{1}, col.sizes())
				if c.after > 0 {
					time.Sleep(c.after - 1)
					synctest.Wait()
					assert.Equal(t, []int{1}, col.sizes(), "not before the collector wants it")
					time.Sleep(time.Nanosecond)
					synctest.Wait()
					require.Len(t, col.bodies, 2)
					assert.Equal(t, col.bodies[0], col.bodies[1])
				}
				time.Sleep(time.Minute)
				err := x.Close(t.Context())
				if c.want == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, "trace: 1 span was not exported: ")
					assert.ErrorContains(t, err, c.want)
				}
				if c.after == 0 {
					assert.Len(t, col.sizes(), 2, "the second is that of the root")
				}
			})
		})
	}
}

// While the collector wants to be left alone nothing is sent, not even at the end,
// and the end does not wait for what cannot be.
func TestHeldBackAtTheEnd(t *testing.T) {
	for after, want := range map[string]struct {
		lost string
		took time.Duration
	}{
		"1":    {"", time.Second},
		"3600": {"trace: 602 spans were not exported: the collector answered 503", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			col := &collector{t: t, answers: []func() *http.Response{answer(503, "", "Retry-After", after)}}
			x := start(Config{Endpoint: "http://c/v1/traces", Trace: event.NewTrace()}, col)
			for i := range 601 {
				x.Sink(event.Event{Type: event.SubAgentComplete, ExecutionID: strconv.Itoa(i), Agent: "a"})
			}
			synctest.Wait()
			at := time.Now()
			err := x.Close(t.Context())
			assert.Equal(t, want.took, time.Since(at))
			if want.lost == "" {
				require.NoError(t, err)
				assert.Equal(t, []int{512, 512, 90}, col.sizes())
			} else {
				require.ErrorContains(t, err, want.lost)
				assert.Equal(t, []int{512}, col.sizes())
			}
		})
	}
}

// hanging is a collector that takes a request and never answers.
type hanging struct{}

func (hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// A collector that hangs delays no event; the end waits for as long as it is said
// to and no longer; the queue is all that waits.
func TestHanging(t *testing.T) {
	for name, c := range map[string]struct {
		timeout time.Duration
		within  time.Duration // of the context; 0 is none
		want    time.Duration
	}{
		"default":          {0, 0, 2 * time.Second},
		"as set":           {5 * time.Second, 0, 5 * time.Second},
		"a short context":  {0, time.Second, time.Second},
		"a cancelled one":  {0, -1, 0},
		"a longer context": {0, time.Minute, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := start(Config{Endpoint: "http://c/v1/traces", Trace: event.NewTrace(), Timeout: c.timeout}, hanging{})
				at := time.Now()
				for i := range 100_000 {
					id := strconv.Itoa(i)
					x.Sink(event.Event{Type: event.SubAgentStart, ExecutionID: id, Agent: "a"})
					x.Sink(event.Event{Type: event.SubAgentComplete, ExecutionID: id, Agent: "a"})
				}
				assert.Zero(t, time.Since(at), "the sink waits for nothing")
				assert.LessOrEqual(t, len(x.queue), maxQueue)
				assert.Empty(t, x.tree.runs)
				ctx := t.Context()
				if c.within != 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.within)
					defer cancel()
				}
				at = time.Now()
				err := x.Close(ctx)
				assert.Equal(t, c.want, time.Since(at))
				assert.ErrorContains(t, err, "trace: 100001 spans were not exported: they came faster")
			})
		})
	}
}

// A collector that hangs for one request keeps the others waiting for no longer
// than the timeout.
func TestRequestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := start(Config{Endpoint: "http://c/v1/traces", Trace: event.NewTrace()}, hanging{})
		x.Sink(event.Event{Type: event.SubAgentComplete, ExecutionID: "e"})
		time.Sleep(interval + requestTimeout - 1)
		synctest.Wait()
		assert.Zero(t, x.gone())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.Equal(t, 1, x.gone())
		require.ErrorContains(t, x.Close(t.Context()), "trace: 2 spans were not exported: the collector did not take them in time\nhint: ")
	})
}

// gone is how many spans were lost so far.
func (x *Exporter) gone() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.lost
}

// The same with a server that takes the connection and the request.
func TestHangingServer(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer s.Close()
	x := Start(Config{Endpoint: s.URL, Trace: event.NewTrace(), Timeout: 50 * time.Millisecond})
	x.Sink(event.Event{Type: event.SubAgentStart, ExecutionID: "e"})
	at := time.Now()
	require.ErrorContains(t, x.Close(t.Context()), "trace: 2 spans were not exported: the collector did not take them in time\nhint: ")
	assert.Less(t, time.Since(at), closeTimeout)
}

// All spans of a large batch arrive at a collector that keeps up, and what is open
// at any time is what is at work.
func TestManyTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tasks = 20_000
		c := &collector{t: t}
		x := start(Config{Endpoint: "http://c/", Trace: event.NewTrace()}, c)
		for i := range tasks {
			id := strconv.Itoa(i)
			x.Sink(event.Event{Type: event.SubAgentStart, ExecutionID: id, Agent: "a"})
			x.Sink(event.Event{Type: event.SubAgentComplete, ExecutionID: id, Agent: "a"})
			if i%1000 == 0 {
				synctest.Wait()
				assert.Empty(t, x.tree.runs)
			}
		}
		require.NoError(t, x.Close(t.Context()))
		assert.Len(t, c.spans(), tasks+1)
	})
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
	x := Start(Config{Endpoint: "http://c/", Trace: event.StartTrace(parent[:53] + "00")})
	require.Nil(t, x)
	x.Sink(event.Event{Type: event.SubAgentStart})
	require.NoError(t, x.Close(t.Context()))
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
	got, on, err := read(endpoint, "nonsense", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t:4318", "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc",
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf", "OTEL_EXPORTER_OTLP_TIMEOUT", "x", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "1500",
		"OTEL_EXPORTER_OTLP_HEADERS", "a=b", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "authorization=Bearer%20x==, x-y = a%2Cb ,,e=",
		"OTEL_SERVICE_NAME", "mine", "OTEL_RESOURCE_ATTRIBUTES", "service.name=other,team=a%20b")
	require.NoError(t, err)
	assert.True(t, on)
	assert.Equal(t, Config{
		Endpoint: "http://t:4318", Timeout: 1500 * time.Millisecond, Headers: map[string]string{"authorization": "Bearer x==", "x-y": "a,b", "e": ""},
		ServiceName: "mine", Attributes: map[string]string{"service.name": "other", "team": "a b"},
	}, got)

	for _, c := range []struct{ name, value, want string }{
		{endpoint, "localhost:4318", "OTEL_EXPORTER_OTLP_ENDPOINT is no address of a collector\nhint: write it as http://localhost:4318"},
		{endpoint, "http://", "OTEL_EXPORTER_OTLP_ENDPOINT is no address of a collector\nhint: write it as http://localhost:4318"},
		{endpoint, "http://u:" + secret + "@c:99999999999/%zz", "OTEL_EXPORTER_OTLP_ENDPOINT is no address of a collector\nhint: write it as http://localhost:4318"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "OTEL_EXPORTER_OTLP_PROTOCOL is grpc, which qq does not speak\nhint: set it to http/json, and the endpoint to the collector's address for HTTP (usually port 4318)"},
		{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "smoke", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL is \"smoke\"\nhint: accepted is http/json"},
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "10s", "OTEL_EXPORTER_OTLP_TIMEOUT is \"10s\"\nhint: write milliseconds above 0, such as 10000"},
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "0", "OTEL_EXPORTER_OTLP_TIMEOUT is \"0\"\nhint: write milliseconds above 0, such as 10000"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "a=b," + secret, "OTEL_EXPORTER_OTLP_HEADERS: entry 2 is no name=value\nhint: separate entries with commas; write a comma or a percent sign in a value as %2C and %25"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "a=" + secret + "%zz", "OTEL_EXPORTER_OTLP_HEADERS: entry 1 is no name=value\nhint: separate entries with commas; write a comma or a percent sign in a value as %2C and %25"},
		{"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=b%0D%0Ac: " + secret, "OTEL_EXPORTER_OTLP_TRACES_HEADERS: \"a\" is no header\nhint: write name=value, several with commas between them"},
		{"OTEL_RESOURCE_ATTRIBUTES", "=x", "OTEL_RESOURCE_ATTRIBUTES: entry 1 is no name=value\nhint: separate entries with commas; write a comma or a percent sign in a value as %2C and %25"},
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

// BenchmarkEncode is what a request costs.
func BenchmarkEncode(b *testing.B) {
	t := newTree(event.NewTrace(), began)
	var spans []*span
	for i := range maxBatch {
		whole, _ := t.take(event.Event{Type: event.SubAgentComplete, TS: began, ExecutionID: strconv.Itoa(i), Agent: "a", BatchID: "b", Usage: &task.Usage{}})
		spans = append(spans, whole...)
	}
	w := newEnvelope(Config{})
	b.ReportAllocs()
	for b.Loop() {
		body, err := w.encode(spans)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(body)))
	}
}

// BenchmarkSink is what each task of a batch costs with a collector that takes
// nothing.
func BenchmarkSink(b *testing.B) {
	x := start(Config{Endpoint: "http://c/v1/traces", Trace: event.NewTrace()}, hanging{})
	code := 0
	b.ReportAllocs()
	for i := range b.N {
		id := strconv.Itoa(i)
		x.Sink(event.Event{Type: event.SubAgentStart, ExecutionID: id, Agent: "a", BatchID: "b", Depth: 1})
		x.Sink(event.Event{Type: event.SubAgentComplete, ExecutionID: id, Agent: "a", BatchID: "b", Depth: 1,
			Status: task.Completed, ExitCode: &code, Usage: &task.Usage{}})
	}
	ctx, cancel := context.WithCancelCause(b.Context())
	cancel(errors.New("over"))
	_ = x.Close(ctx)
}
