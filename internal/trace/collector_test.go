package trace

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The messages as a collector reads them, written down from the specification
// and not from what the exporter has.
type (
	request struct {
		ResourceSpans []struct {
			Resource struct {
				Attributes []pair `json:"attributes"`
			} `json:"resource"`
			ScopeSpans []struct {
				Scope struct {
					Name    string `json:"name"`
					Version string `json:"version"`
				} `json:"scope"`
				Spans []received `json:"spans"`
			} `json:"scopeSpans"`
		} `json:"resourceSpans"`
	}
	received struct {
		TraceID            string `json:"traceId"`
		SpanID             string `json:"spanId"`
		ParentSpanID       string `json:"parentSpanId"`
		Name               string `json:"name"`
		Kind               int    `json:"kind"`
		StartTimeUnixNano  int64  `json:"startTimeUnixNano,string"`
		EndTimeUnixNano    int64  `json:"endTimeUnixNano,string"`
		Attributes         []pair `json:"attributes"`
		DroppedEventsCount int    `json:"droppedEventsCount"`
		Events             []struct {
			TimeUnixNano int64  `json:"timeUnixNano,string"`
			Name         string `json:"name"`
			Attributes   []pair `json:"attributes"`
		} `json:"events"`
		Status struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"status"`
	}
	pair struct {
		Key   string `json:"key"`
		Value struct {
			StringValue *string `json:"stringValue"`
			IntValue    *int64  `json:"intValue,string"`
			BoolValue   *bool   `json:"boolValue"`
		} `json:"value"`
	}
)

// facts makes attributes comparable.
func facts(t *testing.T, pairs []pair) map[string]any {
	t.Helper()
	m := map[string]any{}
	for _, p := range pairs {
		require.NotContains(t, m, p.Key, "a key stands there once")
		switch v := p.Value; {
		case v.StringValue != nil:
			m[p.Key] = *v.StringValue
		case v.IntValue != nil:
			m[p.Key] = int(*v.IntValue)
		case v.BoolValue != nil:
			m[p.Key] = *v.BoolValue
		default:
			t.Errorf("%s has no value", p.Key)
		}
	}
	return m
}

// collector takes spans. As a RoundTripper it needs no network, so that time can
// be made up around it.
type collector struct {
	t *testing.T

	mu       sync.Mutex
	requests []request
	bodies   []string
	headers  []http.Header
	answers  []func() *http.Response // of the first requests; nil is 200
}

func (c *collector) take(r *http.Request) *http.Response {
	body, err := io.ReadAll(r.Body)
	assert.NoError(c.t, err)
	dec := json.NewDecoder(strings.NewReader(string(body)))
	dec.DisallowUnknownFields()
	var req request
	assert.NoError(c.t, dec.Decode(&req))
	c.mu.Lock()
	n := len(c.requests)
	c.requests, c.bodies, c.headers = append(c.requests, req), append(c.bodies, string(body)),
		append(c.headers, r.Header)
	c.mu.Unlock()
	if n < len(c.answers) && c.answers[n] != nil {
		return c.answers[n]()
	}
	return answer(200, `{"partialSuccess":{}}`)()
}

func (c *collector) RoundTrip(r *http.Request) (*http.Response, error) {
	return c.take(r), r.Context().Err()
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	assert.Equal(c.t, http.MethodPost, r.Method)
	assert.Equal(c.t, "/v1/traces", r.URL.Path)
	resp := c.take(r)
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}

// serve gives the collector an address.
func (c *collector) serve() string {
	s := httptest.NewServer(c)
	c.t.Cleanup(s.Close)
	return s.URL
}

func answer(code int, body string, headers ...string) func() *http.Response {
	return func() *http.Response {
		h := http.Header{}
		for i := 0; i < len(headers); i += 2 {
			h.Set(headers[i], headers[i+1])
		}
		return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(strings.NewReader(body))}
	}
}

// spans are all that came, checked for what is true of each.
func (c *collector) spans() map[string]received {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]received{}
	for _, r := range c.requests {
		for _, s := range r.ResourceSpans[0].ScopeSpans[0].Spans {
			_, twice := all[s.SpanID]
			require.False(c.t, twice, "a span is sent once")
			id, err := hex.DecodeString(s.SpanID)
			require.NoError(c.t, err)
			assert.Len(c.t, id, 8)
			assert.Len(c.t, s.TraceID, 32)
			assert.Equal(c.t, 1, s.Kind)
			assert.GreaterOrEqual(c.t, s.EndTimeUnixNano, s.StartTimeUnixNano)
			all[s.SpanID] = s
		}
	}
	return all
}
