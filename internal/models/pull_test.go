package models

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/models/servers"
	"qq/pkg/llm"
	"qq/pkg/task"
)

// TestPull: a pull has succeeded only if the server said so at the end. The key of a named server is sent.
func TestPull(t *testing.T) {
	for name, c := range map[string]struct {
		status        int
		reply         string
		kind          llm.Kind
		problem, hint string
		steps         int
	}{
		"whole": {200, `{"status":"pulling manifest"}` + "\n" +
			`{"status":"pulling abc","digest":"sha256:abc","total":10,"completed":4}` + "\n" + `{"status":"success"}`, "", "", "", 3},
		"said to fail": {200, `{"status":"pulling manifest"}` + "\n" + `{"error":"pull model manifest: file does not exist"}`,
			llm.Rejected, ": pull model manifest: file does not exist", "check the name", 1},
		"broken off": {200, `{"status":"pulling manifest"}` + "\n", llm.BrokenStream, "broke off", "", 1},
		"empty":      {200, "", llm.BrokenStream, "broke off", "", 0},
		"no page":    {404, "404 page not found", llm.Rejected, "answered 404", "", 0},
		"failed":     {500, `{"error":"disk is full"}`, llm.Server, "disk is full", "log of the", 0},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			assert.Equal(t, "/api/pull", r.URL.Path)
			assert.Equal(t, "Bearer secret", r.Header.Get("Authorization"))
			w.WriteHeader(c.status)
			_, err := w.Write([]byte(c.reply))
			assert.NoError(t, err)
		}))
		client, err := Open(servers.Server{Name: "lab", Kind: servers.Ollama, URL: s.URL}, "secret")
		require.NoError(t, err)
		steps, failed := 0, error(nil)
		for p, err := range client.Pull(t.Context(), "m", false) {
			if failed = err; err == nil {
				steps++
				assert.NotEmpty(t, p.Status)
			}
		}
		client.Close()
		s.Close()
		assert.Equal(t, c.steps, steps, name)
		if c.kind == "" {
			require.NoError(t, failed, name)
			continue
		}
		assert.True(t, isKind(failed, c.kind), "%s: %v", name, failed)
		problem, hint := task.Explain(failed)
		assert.Contains(t, problem, c.problem, name)
		assert.Contains(t, hint, c.hint, name)
	}
}

// TestPullStopped: who hears enough does not hear more.
func TestPullStopped(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(strings.Repeat(`{"status":"pulling"}`+"\n", 9)))
	}))
	defer s.Close()
	client, err := New(s.URL)
	require.NoError(t, err)
	defer client.Close()
	steps := 0
	for range client.Pull(t.Context(), "m", false) {
		if steps++; steps == 2 {
			break
		}
	}
	assert.Equal(t, 2, steps)
}
