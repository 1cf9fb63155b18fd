package models

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/models/servers"
	"qq/internal/models/wire"
	"qq/internal/standin"
	"qq/pkg/llm"
)

func day(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }

func TestLookUp(t *testing.T) {
	s := standin.Start(t, standin.Models(
		standin.Model{Name: "old:1b", Modified: day(1), Context: 4096, Capabilities: []string{"completion"}},
		standin.Model{Name: "new:8b", Modified: day(2), Context: 40960,
			Capabilities: []string{"completion", "tools", "thinking"}}))
	c := clientOf(t, s)
	v, err := c.Version(t.Context())
	require.NoError(t, err)
	assert.Equal(t, standin.Version, v)
	names, err := c.List(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"new:8b", "old:1b"}, names)
	m, err := c.Show(t.Context(), "new:8b")
	require.NoError(t, err)
	assert.Equal(t, Model{Kind: servers.Ollama, Host: s.URL, Name: "new:8b", Context: 40960, Tools: true,
		Thinking: true, Modified: day(2)}, m)
	assert.Equal(t, s.URL, c.Host())

	_, err = c.Show(t.Context(), "nope")
	e := failure(t, err, llm.UnknownModel)
	assert.Contains(t, e.Problem, `"nope"`)
	assert.Equal(t, "ollama pull nope", e.Hint)
	assert.Equal(t, 404, e.Status)

	// A model is handed to other processes as JSON.
	b, err := json.Marshal(m)
	require.NoError(t, err)
	assert.JSONEq(t,
		`{"kind":"ollama","host":"`+s.URL+`","name":"new:8b","context":40960,"tools":true,"thinking":true,`+
			`"modified":"2026-01-02T00:00:00Z"}`, string(b))
	var handed Model
	require.NoError(t, json.Unmarshal(b, &handed))
	assert.Equal(t, m, handed)
}

func TestContextLength(t *testing.T) {
	for _, tt := range []struct {
		info map[string]any
		want int
	}{
		{map[string]any{"general.architecture": "a", "a.context_length": 2048.0, "b.context_length": 1e6}, 2048},
		{map[string]any{"general.architecture": "x", "b.context_length": 4096.0}, 4096},
		{map[string]any{"general.architecture": 7, "a.context_length": "many"}, 0},
		{map[string]any{"general.architecture": "a", "a.context_length": -5.0}, 0},
		{map[string]any{"general.architecture": "a", "a.context_length": 1e300}, 0},
		{nil, 0},
	} {
		assert.Equal(t, tt.want, contextLength(tt.info), "%v", tt.info)
	}
}

func TestPick(t *testing.T) {
	chat, tools, embed := []string{"completion"}, []string{"completion", "tools"}, []string{"embedding"}
	for name, tt := range map[string]struct {
		models []standin.Model
		want   string
	}{
		"newest with tools": {[]standin.Model{
			{Name: "a", Modified: day(1), Capabilities: tools}, {Name: "b", Modified: day(3), Capabilities: tools},
			{Name: "c", Modified: day(4), Capabilities: chat}, {Name: "d", Modified: day(2), Capabilities: tools}},
			"b"},
		"without tools the newest that can chat": {[]standin.Model{
			{Name: "a", Modified: day(1), Capabilities: chat}, {Name: "b", Modified: day(2), Capabilities: chat},
			{Name: "c", Modified: day(3), Capabilities: embed}}, "b"},
		"not a model of another host": {[]standin.Model{
			{Name: "a", Modified: day(1), Capabilities: chat},
			{Name: "b", Modified: day(2), RemoteHost: "https://ollama.com"}}, "a"},
		"none": {[]standin.Model{{Name: "e", Capabilities: embed}, {Name: "r", RemoteHost: "https://ollama.com"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := clientOf(t, standin.Start(t, standin.Models(tt.models...))).Pick(t.Context())
			if tt.want == "" {
				e := failure(t, err, llm.UnknownModel)
				assert.Contains(t, e.Hint, "ollama pull")
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.want, m.Name)
		})
	}
	t.Run("one broken model does not hide the rest", func(t *testing.T) {
		s := standin.Start(t, standin.Faulty("/api/show", standin.Fault{Status: 500, Error: "bad manifest", Times: 1}),
			standin.Models(standin.Model{Name: "a", Modified: day(1)}, standin.Model{Name: "b", Modified: day(2)}))
		m, err := clientOf(t, s).Pick(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "a", m.Name)
	})
	t.Run("one that may answer soon is not passed over", func(t *testing.T) {
		s := standin.Start(t, standin.Faulty("/api/show", standin.Fault{Status: 503, Error: "loading", Times: 1}),
			standin.Models(standin.Model{Name: "a", Modified: day(1)}, standin.Model{Name: "b", Modified: day(2)}))
		_, err := clientOf(t, s).Pick(t.Context())
		failure(t, err, llm.Busy)
		m, err := clientOf(t, s).Pick(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "b", m.Name)
	})
	t.Run("all broken", func(t *testing.T) {
		s := standin.Start(t, standin.Faulty("/api/show", standin.Fault{Status: 500, Error: "bad manifest"}))
		_, err := clientOf(t, s).Pick(t.Context())
		assert.Contains(t, failure(t, err, llm.Server).Problem, "bad manifest")
	})
}

// closedPort is an address where nothing listens: a listener that was closed.
// Another program may take the port before it is used, but not one that
// answers as Ollama does.
func closedPort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

func TestNobodyThere(t *testing.T) {
	c := clientAt(t, closedPort(t))
	_, err := c.Pick(t.Context())
	e := failure(t, err, llm.Unreachable)
	assert.Contains(t, e.Problem, "connection refused")
	assert.Contains(t, e.Problem, c.base.Host)
	assert.Contains(t, e.Hint, "ollama serve")
	assert.Contains(t, e.Hint, "OLLAMA_HOST")

	_, err = c.Backend(standIn, Options{}).Chat(t.Context(), ask("x"), ignore)
	failure(t, err, llm.Unreachable)
}

func TestPickGivesUpOnAServerThatHangs(t *testing.T) {
	s := standin.Start(t, standin.Faulty("/api/tags", standin.Fault{Break: standin.Stall}))
	_, err := clientOf(t, s).Pick(t.Context())
	e := failure(t, err, llm.Unreachable)
	assert.Contains(t, e.Problem, "within 2s")

	_, err = clientOf(t, s).Pick(stopped(t.Context()))
	require.Equal(t, errStop, err)
}

func TestNotOllama(t *testing.T) {
	var hits int
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits++ }))
	defer elsewhere.Close()
	for name, h := range map[string]http.HandlerFunc{
		"a page": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>hello</html>")) },
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
		"a long reply": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, wire.MaxReply+1)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(h)
			defer s.Close()
			c := clientAt(t, s.URL)
			_, err := c.Version(t.Context())
			var e *llm.Error
			require.ErrorAs(t, err, &e)
			switch name {
			case "a long reply":
				assert.Contains(t, e.Problem, "longer than")
			default:
				assert.Equal(t, llm.Rejected, e.Kind)
				assert.Contains(t, e.Hint, "OLLAMA_HOST")
			}
			_, err = c.Backend(standIn, Options{}).Chat(t.Context(), ask("x"), ignore)
			require.Error(t, err)
		})
	}
	assert.Zero(t, hits, "followed to a server that nobody named")
}

func TestTLSFaults(t *testing.T) {
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	_, err := clientAt(t, secure.URL).Version(t.Context())
	assert.Contains(t, failure(t, err, llm.Rejected).Problem, "certificate")

	plain := standin.Start(t)
	_, err = clientAt(t, "https://"+plain.URL[len("http://"):]).Version(t.Context())
	var e *llm.Error
	require.ErrorAs(t, err, &e)
}

func TestContextEnded(t *testing.T) {
	c := clientOf(t, standin.Start(t))
	ctx := stopped(t.Context())
	_, err := c.Version(ctx)
	require.Equal(t, errStop, err)
	_, err = c.Show(ctx, "stand-in")
	require.Equal(t, errStop, err)
	_, err = c.List(ctx)
	require.Equal(t, errStop, err)
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	_, err = c.Pick(ctx)
	require.True(t, errors.Is(err, context.DeadlineExceeded), err)
}
