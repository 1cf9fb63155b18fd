package wire

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"qq/pkg/llm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server and returns a transport to it, and its address.
func serve(t *testing.T, h http.HandlerFunc) (*Transport, string) {
	t.Helper()
	s := httptest.NewServer(h)
	base, err := url.Parse(s.URL)
	require.NoError(t, err)
	tr := NewTransport(base)
	t.Cleanup(func() { tr.CloseIdleConnections(); s.Close() })
	return tr, s.URL
}

func demand(t *testing.T, err error, kind llm.Kind) *Fault {
	t.Helper()
	var f *Fault
	require.ErrorAs(t, err, &f)
	require.Equal(t, kind, f.Kind, "%v", f)
	return f
}

func TestPost(t *testing.T) {
	tr, u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		assert.Equal(t, "application/json", r.Header.Get("Content-Type"))
		assert.Equal(t, "Bearer key", r.Header.Get("Authorization"))
		assert.EqualValues(t, len(body), r.ContentLength)
		_, _ = w.Write(append([]byte("you said "), body...))
	})
	stream, err := tr.Post(t.Context(), u+"/x", http.Header{"Authorization": {"Bearer key"}}, []byte("hello"))
	require.NoError(t, err)
	defer stream.Close()
	got, err := io.ReadAll(stream)
	require.NoError(t, err)
	assert.Equal(t, "you said hello", string(got))
}

func TestStatusIsAFault(t *testing.T) {
	for _, tt := range []struct {
		status     int
		header     http.Header
		body, text string
		kind       llm.Kind
		after      time.Duration
	}{
		{429, http.Header{"Retry-After": {"7"}}, `{"error":"slow down"}`, "slow down", llm.Busy, 7 * time.Second},
		{503, nil, "", "service unavailable", llm.Busy, 0},
		{502, nil, "<html>", "bad gateway", llm.Busy, 0},
		{504, nil, "late", "late", llm.Busy, 0},
		{500, nil, `{"error":{"code":1}}`, `{"code":1}`, llm.Server, 0},
		{529, nil, "overloaded", "overloaded", llm.Busy, 0},
		{524, nil, "<html>", "", llm.Busy, 0},
		{408, nil, "slow", "slow", llm.Busy, 0},
		{422, nil, `{"object":"error","message":"no such id","code":"3280"}`, "no such id", llm.Rejected, 0},
		{422, nil, `{"object":"error","message":{"detail":[1]}}`, `{"detail":[1]}`, llm.Rejected, 0},
		{400, nil, `{"error":{"message":"Provider returned error","metadata":{"raw":"no tools"}}}`,
			"Provider returned error: no tools", llm.Rejected, 0},
		{400, nil, `{"error":{"message":"no","metadata":{"raw":7}}}`, "no", llm.Rejected, 0},
		{401, nil, `{"detail":"no key"}`, "no key", llm.Rejected, 0},
		{400, nil, `{"object":"error","message":"long","type":"x","code":400}`, "long", llm.Rejected, 0},
		{400, nil, `{"error":{"message":"long","code":"context_length_exceeded"}}`, "long", llm.ContextOverflow, 0},
		{500, nil, `{"error":{"code":500,"message":"long","type":"exceed_context_size_error"}}`, "long",
			llm.ContextOverflow, 0},
		{403, nil, `{"error":{"message":"none left","code":"insufficient_quota"}}`, "none left", llm.Rejected, 0},
		{400, nil, "a\nb", "a b", llm.Rejected, 0},
		{401, nil, `{"error":"no key"}`, "no key", llm.Rejected, 0},
		{404, nil, `{"error":"no model"}`, "no model", llm.Rejected, 0},
		{307, http.Header{"Location": {"http://elsewhere/"}}, "", "it redirects to http://elsewhere/", llm.Rejected, 0},
	} {
		tr, u := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			for name, values := range tt.header {
				w.Header()[name] = values
			}
			w.WriteHeader(tt.status)
			_, _ = w.Write([]byte(tt.body))
		})
		_, err := tr.Post(t.Context(), u, nil, nil)
		f := demand(t, err, tt.kind)
		assert.Equal(t, tt.status, f.Status)
		assert.Equal(t, tt.text, f.Text, tt.status)
		assert.Equal(t, tt.after, f.RetryAfter)
		_, err = (&http.Client{Transport: tr}).Get(u)
		assert.Equal(t, tt.status, demand(t, err, tt.kind).Status, "the same for a look-up")
	}
}

// What a server says about an error beside its text.
func TestFaultIsDescribed(t *testing.T) {
	for body, want := range map[string]Fault{
		`{"error":{"param":"reasoning_effort","code":null}}`:                               {Param: "reasoning_effort"},
		`{"object":"error","param":"tools"}`:                                               {Param: "tools"},
		`{"error":{"message":7,"param":"tools"}}`:                                          {Param: "tools"},
		`{"error":{"status":"x","details":[{"reason":"y"},{"reason":"API_KEY_INVALID"}]}}`: {BadKey: true},
		`{"error":"text"}`: {},
		`[]`:               {},
	} {
		f := &Fault{Status: http.StatusBadRequest}
		f.describe([]byte(body))
		want.Status = http.StatusBadRequest
		assert.Equal(t, want, *f, body)
	}
}

func TestConnectionFaults(t *testing.T) {
	tr, u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/cut":
			w.Header().Set("Content-Length", "9")
			_, _ = w.Write([]byte("one"))
		case "/long":
			_, _ = w.Write(make([]byte, MaxReply+1))
		case "/silent":
			<-r.Context().Done()
		default:
			panic(http.ErrAbortHandler)
		}
	})
	post := func(ctx context.Context, path string) (string, error) {
		stream, err := tr.Post(ctx, u+path, nil, nil)
		if err != nil {
			return "", err
		}
		defer stream.Close()
		got, err := io.ReadAll(stream)
		return string(got), err
	}
	_, err := post(t.Context(), "/hangs-up")
	demand(t, err, llm.Unreachable)
	got, err := post(t.Context(), "/cut")
	assert.Equal(t, "one", got)
	assert.Equal(t, "unexpected EOF", demand(t, err, llm.BrokenStream).Text)
	got, err = post(t.Context(), "/long")
	require.NoError(t, err, "a stream may be long")
	assert.Len(t, got, MaxReply+1)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = post(ctx, "/silent")
	require.ErrorIs(t, err, context.DeadlineExceeded)

	resp, err := (&http.Client{Transport: tr}).Get(u + "/long")
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.ReadAll(resp.Body)
	assert.Contains(t, demand(t, err, llm.BrokenStream).Text, "longer than")

	_, err = tr.Post(t.Context(), "https"+strings.TrimPrefix(u, "http"), nil, nil)
	assert.Zero(t, demand(t, err, llm.Rejected).Status, "no secure connection")
	_, err = tr.Post(t.Context(), ":", nil, nil)
	require.Error(t, err)
	assert.False(t, errors.As(err, new(*Fault)), "nothing was sent")
}

func TestLoopbackNeedsNoProxy(t *testing.T) {
	for host, loopback := range map[string]bool{"localhost": true, "[::1]:1": true, "127.3.2.1": true,
		"example.com": false, "10.0.0.1": false, "localhost.example.com": false} {
		tr := NewTransport(&url.URL{Scheme: "http", Host: host})
		assert.Equal(t, loopback, tr.http.Proxy == nil, host)
	}
}

func events(t *testing.T, stream io.Reader) (got []string, err error) {
	t.Helper()
	for e := NewEvents(stream); ; {
		event, err := e.Next()
		if err != nil {
			return got, err
		}
		got = append(got, event.Name+"|"+string(event.Data))
	}
}

func TestEvents(t *testing.T) {
	for stream, want := range map[string][]string{
		"data: a\n\ndata:b\r\n\r\n":                 {"|a", "|b"},
		"event: ping\ndata: {}\n\ndata: x\n\n":      {"ping|{}", "|x"},
		"data: a\ndata\ndata:  b\n\n":               {"|a\n\n b"},
		": comment\nid: 7\nretry: 9\ndata: a:b\n\n": {"|a:b"},
		"event: nothing\n\ndata: a\n\n":             {"|a"},
		"\n\n\ufeffdata: no\n\n":                    nil,
		"\ufeffdata: a\n\n":                         {"|a"},
		"data: a\n\ndata: cut off\n":                {"|a"},
		"data\n\n":                                  {"|"},
		"":                                          nil,
	} {
		got, err := events(t, iotest.OneByteReader(strings.NewReader(stream)))
		assert.Equal(t, io.EOF, err, "%q", stream)
		assert.Equal(t, want, got, "%q", stream)
	}
	got, err := events(t, io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(io.ErrClosedPipe)))
	assert.Equal(t, io.ErrClosedPipe, err)
	assert.Equal(t, []string{"|a"}, got)
}

func TestBounds(t *testing.T) {
	lines := NewLines(strings.NewReader("a\n\n" + strings.Repeat("x", MaxLine+1)))
	line, err := lines.Next()
	require.NoError(t, err)
	assert.Equal(t, "a", string(line.Data))
	_, err = lines.Next()
	require.ErrorIs(t, err, bufio.ErrTooLong)
	half := "data: " + strings.Repeat("x", MaxLine/2) + "\n"
	_, err = events(t, strings.NewReader(half+half+half+"\n"))
	assert.Equal(t, errEventTooLong, err)
}

// However a stream is cut into reads, it has the same events, and none that is
// incomplete.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{"data: a\n\n", "event: x\r\ndata\r\n\r\n", ":\n\n", "data: a\ndata: b\n\nx",
		"\ufeffdata: a\n\n", "\r\n", "data:\n\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, stream string) {
		whole, err := events(t, strings.NewReader(stream))
		assert.Equal(t, io.EOF, err)
		pieces, err := events(t, iotest.HalfReader(strings.NewReader(stream)))
		assert.Equal(t, io.EOF, err)
		assert.Equal(t, whole, pieces)
		more, err := events(t, strings.NewReader(stream+"\n\ndata: last\n\n"))
		assert.Equal(t, io.EOF, err)
		assert.GreaterOrEqual(t, len(more), len(whole))
		assert.Equal(t, whole, append([]string(nil), more[:len(whole)]...))
		for _, event := range whole {
			assert.LessOrEqual(t, strings.Count(event, "\n"), strings.Count(stream, "data"))
		}
	})
}

func FuzzErrorMessage(f *testing.F) {
	for _, s := range []string{`{"error":"x"}`, `{"error":{"message":"y"}}`, "plain\r\ntext", "<html>", `{}`, `null`,
		"\x1b[31mred", "\xff", `{"error":null}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got := errorMessage(body)
		assert.True(t, utf8.ValidString(got))
		assert.LessOrEqual(t, utf8.RuneCountInString(got), 300)
		assert.False(t, strings.ContainsFunc(got, unicode.IsControl), "%q", got)
	})
}
