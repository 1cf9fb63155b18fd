package models

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/models/listing"
	"qq/internal/models/servers"
	"qq/internal/standin"
	"qq/pkg/llm"
	"qq/pkg/picture"
	"qq/pkg/tool"
)

// What a server says of images decides who sees: yes, no, or nobody knows.
func TestVision(t *testing.T) {
	const yes, no, unknown = "sees", "blind", "unknown"
	for name, tt := range map[string]struct {
		kind, list, props string
		vision            bool // of the setting
		want              string
	}{
		"OpenRouter, with images": {servers.OpenAI,
			`{"data":[{"id":"m","context_length":9,"architecture":{"input_modalities":["text","image"]}}]}`, "", false, yes},
		"OpenRouter, text alone": {servers.OpenAI,
			`{"data":[{"id":"m","context_length":9,"architecture":{"input_modalities":["text"]}}]}`, "", false, no},
		"Mistral, with images": {servers.OpenAI,
			`{"data":[{"id":"m","max_context_length":9,"capabilities":{"vision":true}}]}`, "", false, yes},
		"Mistral, text alone": {servers.OpenAI,
			`{"data":[{"id":"m","max_context_length":9,"capabilities":{"vision":false}}]}`, "", false, no},
		"other capabilities": {servers.OpenAI,
			`{"data":[{"id":"m","max_model_len":9,"capabilities":["completion"]}]}`, "", false, unknown},
		"OpenAI":             {servers.OpenAI, `{"data":[{"id":"m"}]}`, "", false, unknown},
		"OpenAI, by setting": {servers.OpenAI, `{"data":[{"id":"m"}]}`, "", true, yes},
		"llama.cpp, images":  {servers.OpenAI, `{"data":[{"id":"m"}]}`, `{"modalities":{"vision":true}}`, false, yes},
		"llama.cpp, text":    {servers.OpenAI, `{"data":[{"id":"m"}]}`, `{"modalities":{"vision":false}}`, false, no},
		"llama.cpp, old":     {servers.OpenAI, `{"data":[{"id":"m"}]}`, `{}`, false, unknown},
		"llama.cpp, set":     {servers.OpenAI, `{"data":[{"id":"m"}]}`, `{"modalities":{"vision":false}}`, true, yes},
		"llama.cpp, new": {servers.OpenAI, `{"data":[{"id":"m","owned_by":"llamacpp","meta":{"n_ctx":9}}]}`,
			`{"modalities":{"vision":true}}`, false, yes},
		"another one": {servers.OpenAI, `{"data":[{"id":"m","owned_by":"system"}]}`, `{"modalities":{"vision":true}}`,
			false, unknown}, // it is not asked
		"like Anthropic":      {servers.Anthropic, `{"data":[{"id":"m"}]}`, "", false, unknown},
		"Gemini":              {servers.Gemini, `{"models":[{"name":"models/m"}]}`, "", false, yes},
		"the setting is more": {servers.OpenAI, `{"data":[{"id":"m","capabilities":{"vision":false}}]}`, "", true, yes},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/v1/models":
					_, _ = io.WriteString(w, tt.list)
				case r.URL.Path == "/props" && tt.props != "":
					_, _ = io.WriteString(w, tt.props)
				default:
					http.NotFound(w, r)
				}
			}))
			defer server.Close()
			at := servers.Server{Name: "s", Kind: tt.kind, URL: server.URL + "/v1", Vision: tt.vision}
			client, err := Open(at, "")
			require.NoError(t, err)
			defer client.Close()
			m, err := client.Find(context.Background(), "m")
			require.NoError(t, err)
			assert.Equal(t, tt.want, sight(m))
		})
	}
	assert.Equal(t, no, sight(Model{Kind: Extract}))
	for _, s := range servers.BuiltIn() {
		if s.Name == "anthropic" {
			client, err := Open(s, "")
			require.NoError(t, err)
			assert.Equal(t, yes, sight(client.offer(listing.Entry{ID: "m"}).Model))
		}
	}
}

// sight says whether a model is known to see.
func sight(m Model) string {
	switch {
	case m.Sees() && m.Blind():
		return "both"
	case m.Sees():
		return "sees"
	case m.Blind():
		return "blind"
	}
	return "unknown"
}

// TestNoTools: a server that refuses requests with tools, such as vLLM without a parser for them, is asked without.
func TestNoTools(t *testing.T) {
	refusal := `{"error":{"message":"\"auto\" tool choice requires --enable-auto-tool-choice","code":400}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.URL.Path == "/v1/models":
			_, _ = io.WriteString(w, `{"data":[{"id":"m","max_model_len":4096}]}`)
		case strings.Contains(string(body), `"tools"`):
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, refusal)
		}
	}))
	defer server.Close()
	for _, without := range []bool{false, true} {
		s := servers.Server{Name: "s", Kind: servers.OpenAI, URL: server.URL + "/v1", NoTools: without}
		client, err := Open(s, "")
		require.NoError(t, err)
		defer client.Close()
		m, err := client.Find(t.Context(), "m")
		require.NoError(t, err)
		assert.Equal(t, !without, m.CallsTools())
		if without {
			continue
		}
		req := ask("hi")
		req.Tools = []tool.Spec{{Name: "look", Parameters: json.RawMessage(`{"type":"object"}`)}}
		_, err = client.Backend(m, Options{}).Chat(t.Context(), req, ignore)
		e, ok := errors.AsType[*llm.Error](err)
		require.True(t, ok, err)
		assert.Equal(t, llm.Rejected, e.Kind)
		assert.Equal(t, "if it takes no requests with tools, write no-tools in QQ_SERVER_s", e.Hint)
	}
	ollama, err := Open(servers.Server{Name: "ollama", Kind: servers.Ollama, URL: server.URL}, "")
	require.NoError(t, err)
	defer ollama.Close()
	req := ask("hi")
	req.Tools = []tool.Spec{{Name: "look", Parameters: json.RawMessage(`{"type":"object"}`)}}
	m := Model{Kind: servers.Ollama, Name: "m", Host: server.URL, Tools: true}
	_, err = ollama.Backend(m, Options{}).Chat(t.Context(), req, ignore)
	e, ok := errors.AsType[*llm.Error](err)
	require.True(t, ok, err)
	assert.NotContains(t, e.Hint, "no-tools", "OLLAMA_HOST takes no such word")
}

func TestVisionOfOllama(t *testing.T) {
	server := standin.Start(t, standin.Models(
		standin.Model{Name: "sees", Capabilities: []string{"completion", "vision"}},
		standin.Model{Name: "blind", Capabilities: []string{"completion"}},
		standin.Model{Name: "old", Capabilities: []string{}},
	))
	for _, vision := range []bool{false, true} {
		client, err := Open(servers.Server{Name: "o", Kind: servers.Ollama, URL: server.URL, Vision: vision}, "")
		require.NoError(t, err)
		defer client.Close()
		for name, want := range map[string]string{"sees": "sees", "blind": "blind", "old": "unknown"} {
			m, err := client.Find(context.Background(), name)
			require.NoError(t, err)
			if vision {
				want = "sees"
			}
			assert.Equal(t, want, sight(m), "%s, set: %v", name, vision)
		}
	}
}

// Images need room in the context. How much differs by server, so they alone are no reason to refuse a prompt, and
// their count says nothing about the estimate of texts.
func TestRoomForImages(t *testing.T) {
	s := standin.Start(t, standin.Models(standin.Model{Name: "stand-in", Context: 40960}))
	m := Model{Name: "stand-in", Context: 40960, Vision: true}
	b := clientOf(t, s).Backend(m, Options{})
	for _, n := range []int{0, 1, 20, 90} {
		r := ask("look")
		r.Messages[0].Images = make([]picture.Image, n)
		_, err := b.Chat(t.Context(), r, ignore)
		require.NoError(t, err)
	}
	assert.Equal(t, []int{8192, 8192, 32768, 40960}, sizes(t, s))
	before := m.Room(ask("look"))
	r := ask("look")
	r.Messages[0].Images = make([]picture.Image, 2)
	assert.Equal(t, before-2*768, m.Room(r))
}
