package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/test/ollamatest"
	"qq/test/tinymodel"
)

// say is a script. Any text can be its start: also one that qq itself says.
func say(start, text string) tinymodel.Script { return tinymodel.Script{Start: start, Text: text} }

// use is how a model calls a tool. The marker for what it says next stands in
// args, when the result brings none.
func use(name, args string) string {
	return fmt.Sprintf(`<tool_call>{"name": %q, "arguments": %s}</tool_call>`, name, args)
}

// addModel adds a model with these scripts to the server.
func addModel(t *testing.T, s *ollamatest.Server, name string, list ...tinymodel.Script) {
	t.Helper()
	spec := ollamatest.Spec(list...)
	spec.Context = 32768
	require.NoError(t, s.Create(t.Context(), ollamatest.Model{Name: name, Spec: spec, Template: template}))
}

// chat is a request that reached the server, and how its answer ended.
type chat struct {
	Messages []struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
	Options map[string]any `json:"options"`

	answer *bytes.Buffer // what the server said
}

// of are the texts of one role.
func (c chat) of(role string) []string {
	var texts []string
	for _, m := range c.Messages {
		if m.Role == role {
			texts = append(texts, m.Content)
		}
	}
	return texts
}

// offered are the names of the tools, sorted.
func (c chat) offered() []string {
	var names []string
	for _, t := range c.Tools {
		names = append(names, t.Function.Name)
	}
	slices.Sort(names)
	return names
}

// recorder stands between qq and its server and keeps what is said.
type recorder struct {
	host string
	meddling
	mu    sync.Mutex
	chats []chat
}

// meddling is what a recorder does besides. The zero value does nothing.
type meddling struct {
	// fail is asked about each request; what is not 0 is the status to answer with.
	fail func(nth int) (status int)
	// show are tools that the server is told of and qq did not offer. Without that
	// it keeps back the calls of such tools.
	show []string
}

// answerKey is the key of the writer for the answer to a request.
type answerKey struct{}

// locked is a writer that several goroutines use.
type locked struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// newRecorder records until the test ends.
func newRecorder(t *testing.T, s *ollamatest.Server, m meddling) *recorder {
	t.Helper()
	r := &recorder{meddling: m}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: s.URL.Host})
	proxy.FlushInterval = -1
	proxy.ModifyResponse = func(resp *http.Response) error {
		if to, ok := resp.Request.Context().Value(answerKey{}).(io.Writer); ok {
			resp.Body = struct {
				io.Reader
				io.Closer
			}{io.TeeReader(resp.Body, to), resp.Body}
		}
		return nil
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/api/chat" {
			proxy.ServeHTTP(w, req)
			return
		}
		req, nth, err := r.keep(req)
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusBadRequest)
		case r.fail != nil && r.fail(nth) != 0:
			http.Error(w, `{"error":"out of order"}`, r.fail(nth))
		default:
			proxy.ServeHTTP(w, req)
		}
	}))
	t.Cleanup(server.Close)
	r.host = server.Listener.Addr().String()
	return r
}

// keep keeps a request and returns it to be passed on, with its number.
func (r *recorder) keep(req *http.Request) (*http.Request, int, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, 0, err
	}
	c := chat{answer: &bytes.Buffer{}}
	if err := json.Unmarshal(body, &c); err != nil {
		return nil, 0, err
	}
	if body, err = r.meddle(body); err != nil {
		return nil, 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.chats = append(r.chats, c)
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return req.WithContext(context.WithValue(req.Context(), answerKey{}, &locked{&r.mu, c.answer})), len(r.chats), nil
}

// meddle is a request with the tools that are shown besides, if it has tools.
func (m meddling) meddle(body []byte) ([]byte, error) {
	var fields map[string]json.RawMessage
	var tools []any
	if err := json.Unmarshal(body, &fields); err != nil || len(m.show) == 0 || fields["tools"] == nil {
		return body, err
	}
	if err := json.Unmarshal(fields["tools"], &tools); err != nil {
		return nil, err
	}
	for _, name := range m.show {
		tools = append(tools, map[string]any{"type": "function", "function": map[string]any{
			"name": name, "parameters": map[string]any{"type": "object", "properties": map[string]any{}},
		}})
	}
	var err error
	if fields["tools"], err = json.Marshal(tools); err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}

// all are the requests until now, in their order. What the server said to those
// that are not over may be incomplete.
func (r *recorder) all() []chat {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.chats)
}

// last is the last request whose first message of the user holds text: the whole
// conversation of one agent.
func (r *recorder) last(t *testing.T, text string) chat {
	t.Helper()
	for _, c := range slices.Backward(r.all()) {
		if users := c.of("user"); len(users) > 0 && strings.Contains(users[0], text) {
			return c
		}
	}
	require.FailNow(t, "nobody was asked about "+text)
	return chat{}
}

// entry is one message of a transcript.
type entry struct{ Role, Content string }

// transcript is that of the newest session.
func (w *world) transcript() []entry {
	w.t.Helper()
	var sessions []struct{ ID string }
	require.NoError(w.t, json.Unmarshal([]byte(w.qq("sessions", "--json").stdout), &sessions))
	require.NotEmpty(w.t, sessions)
	var shown struct{ Entries []entry }
	require.NoError(w.t, json.Unmarshal([]byte(w.qq("sessions", "show", sessions[0].ID, "--json").stdout), &shown))
	return shown.Entries
}

// toolResults are what the tools of the newest session answered.
func (w *world) toolResults() []string {
	w.t.Helper()
	var texts []string
	for _, e := range w.transcript() {
		if e.Role == "tool" {
			texts = append(texts, e.Content)
		}
	}
	return texts
}

// happened is an event, as far as scenarios look at it.
type happened struct {
	Type       string          `json:"type"`
	Agent      string          `json:"agent"`
	Depth      int             `json:"depth"`
	Tool       string          `json:"tool"`
	Failed     bool            `json:"failed"`
	Status     string          `json:"status"`
	ExitCode   *int            `json:"exit_code"`
	Error      string          `json:"error"`
	DurationMS int64           `json:"duration_ms"`
	QuestionID string          `json:"question_id"`
	Chain      []string        `json:"chain"`
	Decision   string          `json:"decision"`
	Result     json.RawMessage `json:"result"`
	Intent     struct {
		Tool    string `json:"tool"`
		Effect  string `json:"effect"`
		Risk    string `json:"risk"`
		Summary string `json:"summary"`
		Preview string `json:"preview"`
	} `json:"intent"`
}

// events reads the whole lines of a stream-json output, of one that is still
// being written as well.
func events(t *testing.T, stream string) []happened {
	t.Helper()
	var all []happened
	for line := range strings.Lines(stream) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		var e happened
		require.NoError(t, json.Unmarshal([]byte(line), &e), "%q", line)
		all = append(all, e)
	}
	return all
}

// where are the events of one type.
func where(all []happened, typ string) []happened {
	return slices.DeleteFunc(slices.Clone(all), func(e happened) bool { return e.Type != typ })
}

// files are the contents of all files below a folder of the world.
func (w *world) files(folder string) map[string]string {
	w.t.Helper()
	found := map[string]string{}
	root := filepath.Join(w.dir, folder)
	require.NoError(w.t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if d.Type()&fs.ModeSymlink != 0 {
			found[strings.TrimPrefix(path, root+"/")] = "(link)"
			return nil
		}
		text, err := os.ReadFile(path)
		found[strings.TrimPrefix(path, root+"/")] = string(text)
		return err
	}))
	return found
}

// unchanged takes stock of what an agent could have written to, and returns a
// check that it is as it was.
func (w *world) unchanged() (check func()) {
	w.t.Helper()
	folders := []string{"work", "home", "tmp"}
	before := map[string]map[string]string{}
	for _, f := range folders {
		before[f] = w.files(f)
	}
	names := func() (all []string) {
		entries, err := os.ReadDir(w.dir)
		require.NoError(w.t, err)
		for _, e := range entries {
			all = append(all, e.Name())
		}
		return all
	}
	top := names()
	return func() {
		w.t.Helper()
		for _, f := range folders {
			assert.Equal(w.t, before[f], w.files(f), f)
		}
		assert.Equal(w.t, top, names())
	}
}
