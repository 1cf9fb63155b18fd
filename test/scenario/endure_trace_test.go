package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/ollama/ollama/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	endureTraceID = "0af7651916cd43dd8448eb211c80319c"
	endureCaller  = "b7ad6b7169203331" // the span that qq is started in
	endureParent  = "TRACEPARENT=00-" + endureTraceID + "-" + endureCaller + "-01"
)

// endureTracer is a lead with one child that looks into its environment.
func endureTracer(_ context.Context, k endureTalk) api.Message {
	switch {
	case k.text() == "Lead" && k.turn() == 0:
		return workAsk(workCall("delegate_task", "agent", "looker", "task", "Look"))
	case k.turn() == 0:
		return workAsk(workCall("run_pty_cmd", "command", "printenv TRACEPARENT; env | grep ^OTEL_; true"))
	}
	return endureSay(strings.TrimSpace(k.last().Content))
}

func endureTraced(t *testing.T, env ...string) *world {
	t.Helper()
	m := endurePlay(t, endureTracer)
	w := newWorld(t, m.addr, played, append(env, "QQ_APPROVE=auto")...)
	w.file(".qq/agents/looker.md", "---\nname: looker\ndescription: looks\ntools: [run_pty_cmd]\n---\nYou look.\n")
	return w
}

// TestTraceThrough: qq is a part of the trace that it was started in, its children
// are parts of it, and so are the commands of their shells.
func TestTraceThrough(t *testing.T) {
	w := endureTraced(t, endureParent)
	e := w.qq("Lead", "--output-format", "stream-json")
	require.Equal(t, 0, e.code, "exit code")
	events, answer := 0, ""
	for line := range strings.Lines(e.stdout) {
		var v struct {
			Type    string
			TraceID string `json:"trace_id"`
			Output  string
		}
		endureDecode(t, line, &v)
		if v.Type == "result" {
			answer = v.Output
			continue
		}
		events++
		assert.Equal(t, endureTraceID, v.TraceID, v.Type)
	}
	assert.Greater(t, events, 4)
	assert.Contains(t, answer, "00-"+endureTraceID+"-")
	assert.NotContains(t, answer, endureCaller, "a child has a span of its own")

	// Without one there is a trace all the same: the child's is that of the events.
	w = endureTraced(t)
	e = w.qq("Lead", "--output-format", "stream-json")
	var first struct {
		TraceID string `json:"trace_id"`
	}
	line, _, _ := strings.Cut(e.stdout, "\n")
	endureDecode(t, line, &first)
	assert.Regexp(t, `^[0-9a-f]{32}$`, first.TraceID)
	assert.NotEqual(t, endureTraceID, first.TraceID)
	assert.Contains(t, e.stdout, "00-"+first.TraceID+"-")
}

// endureSpan is a span as a collector gets it.
type endureSpan struct {
	TraceID      string `json:"traceId"`
	SpanID       string `json:"spanId"`
	ParentSpanID string `json:"parentSpanId"`
	Name         string `json:"name"`
	Status       struct{ Code int }
}

// endureCollector is an HTTP stand-in for a collector.
type endureCollector struct {
	url   string
	mu    sync.Mutex
	spans []endureSpan
	seen  []*http.Request
}

func endureCollect(t *testing.T) *endureCollector {
	t.Helper()
	c := &endureCollector{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		var sent struct {
			ResourceSpans []struct {
				ScopeSpans []struct{ Spans []endureSpan }
			}
		}
		assert.NoError(t, json.NewDecoder(bytes.NewReader(body)).Decode(&sent), "%q", body)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.seen = append(c.seen, r)
		for _, resource := range sent.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(s.Close)
	c.url = s.URL
	return c
}

// TestTraceExport: a collector gets one trace, with the root and its agent, its child and their
// tools below each other, and the headers that it asked for. No child knows them.
func TestTraceExport(t *testing.T) {
	c := endureCollect(t)
	w := endureTraced(t, endureParent, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.url,
		"OTEL_EXPORTER_OTLP_HEADERS=x-secret=s3cr3t",
		"OTEL_SERVICE_NAME=night")
	e := w.qq("Lead")
	require.Equal(t, 0, e.code, "exit code")
	assert.NotContains(t, e.stdout, "OTEL_", "variables of the exporter in the shell of a child")

	require.NotEmpty(t, c.seen)
	for _, r := range c.seen {
		assert.Equal(t, "/v1/traces", r.URL.Path)
		assert.Equal(t, "s3cr3t", r.Header.Get("X-Secret"))
		assert.Equal(t, "application/json", r.Header.Get("Content-Type"))
	}
	name, above := map[string]string{endureCaller: "caller"}, map[string]string{}
	for _, s := range c.spans {
		assert.Equal(t, endureTraceID, s.TraceID, s.Name)
		name[s.SpanID] = s.Name
	}
	for _, s := range c.spans {
		above[s.Name] = name[s.ParentSpanID]
	}
	assert.Equal(t, map[string]string{
		"invoke_agent default": "caller", "execute_tool delegate_task": "invoke_agent default",
		"invoke_agent looker": "invoke_agent default", "execute_tool run_pty_cmd": "invoke_agent looker",
	}, above)
	assert.Contains(t, e.stdout, c.of("looker").SpanID, "what the child's shell was told is its span")
}

// of is the span whose name has that part.
func (c *endureCollector) of(part string) endureSpan {
	for _, s := range c.spans {
		if strings.Contains(s.Name, part) {
			return s
		}
	}
	return endureSpan{}
}

// TestTraceNotExported: nothing is sent where nobody asked for it, and a collector
// that is not there costs a line, not the answer.
func TestTraceNotExported(t *testing.T) {
	c := endureCollect(t)
	w := endureTraced(t, endureParent, "OTEL_EXPORTER_OTLP_HEADERS=x-secret=s3cr3t")
	assert.Equal(t, 0, w.qq("Lead").code, "exit code")
	assert.Empty(t, c.seen)

	w = endureTraced(t, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_TIMEOUT=500")
	e := w.qq("Lead")
	assert.Equal(t, 0, e.code, "exit code")
	assert.NotEmpty(t, e.stdout)
	assert.Contains(t, e.stderr, "trace")
}
