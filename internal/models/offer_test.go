package models

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/models/servers"
	"qq/internal/standin"
)

// serverOf runs a server that answers each path with a text, and returns its description.
func serverOf(t *testing.T, kind string, pages map[string]string) servers.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, err := w.Write([]byte(page))
		assert.NoError(t, err)
	}))
	t.Cleanup(s.Close)
	return servers.Server{Name: "lab", Kind: kind, URL: s.URL + "/v1", Own: true}
}

// TestOffers: what each kind of server says of its models is understood, and what it does not say is not known. Models
// that cannot chat are left out.
func TestOffers(t *testing.T) {
	yes, no := known(true), known(false)
	type offer struct {
		name    string
		context int
		tools   *bool
		vision  *bool
		size    int64
	}
	for name, c := range map[string]struct {
		kind  string
		pages map[string]string
		want  []offer
	}{
		"says nothing": {servers.OpenAI, map[string]string{
			"/v1/models": `{"data":[{"id":"old","created":1},{"id":"new","created":1700000000},` +
				`{"id":"text-embedding-3"}]}`,
		}, []offer{{"new", 0, nil, nil, 0}, {"old", 0, nil, nil, 0}}},
		"llama.cpp": {servers.OpenAI, map[string]string{
			"/v1/models": `{"models":[{"name":"x","capabilities":["completion"]}],` +
				`"data":[{"id":"x","meta":{"size":77}}]}`,
			"/props": `{"default_generation_settings":{"n_ctx":4096},"modalities":{"vision":true}}`,
		}, []offer{{"x", 4096, nil, yes, 77}}},
		"of other types": {servers.OpenAI, map[string]string{
			"/v1/models": `{"data":[null,{"id":""},{"id":"a","max_model_len":"many","context_length":8.5,"thinking":"on",` +
				`"meta":[1]},{"id":"b","max_model_len":4096}]}`,
		}, []offer{{"a", 0, nil, nil, 0}, {"b", 4096, nil, nil, 0}}},
		"llama.cpp, new": {servers.OpenAI, map[string]string{
			"/v1/models": `{"data":[{"id":"x","owned_by":"llamacpp","meta":{"size":77,"n_ctx":2048,"n_ctx_train":9000}}]}`,
			"/props":     `{"default_generation_settings":{"n_ctx":0},"modalities":{"vision":true}}`, // with several models
		}, []offer{{"x", 2048, nil, yes, 77}}},
		"llama.cpp with a context that nobody has": {servers.OpenAI, map[string]string{
			"/v1/models": `{"data":[{"id":"x","owned_by":"llamacpp"}]}`,
			"/props":     `{"default_generation_settings":{"n_ctx":1000000000000000000}}`,
		}, []offer{{"x", 0, nil, nil, 0}}},
		"OpenAI is not asked for more": {servers.OpenAI, map[string]string{
			"/v1/models": `{"data":[{"id":"x","owned_by":"system"}]}`,
			"/props":     `{"default_generation_settings":{"n_ctx":4096}}`,
		}, []offer{{"x", 0, nil, nil, 0}}},
		"vLLM": {servers.OpenAI, map[string]string{
			"/v1/models": `{"data":[{"id":"q","max_model_len":32768}]}`}, []offer{{"q", 32768, nil, nil, 0}}},
		"OpenRouter": {servers.OpenAI, map[string]string{
			"/v1/models": `{"data":[{"id":"a/b","context_length":9000,"supported_parameters":["tools"],` +
				`"architecture":{"input_modalities":["text","image"]}},` +
				`{"id":"c","supported_parameters":[],"architecture":{"input_modalities":["text"]}}]}`,
		}, []offer{{"a/b", 9000, yes, yes, 0}, {"c", 0, no, no, 0}}},
		"Mistral": {servers.OpenAI, map[string]string{
			"/v1/models": `{"data":[{"id":"m","max_context_length":5000,"capabilities":{"completion_chat":true,` +
				`"function_calling":true,"vision":false}},{"id":"e","capabilities":{"completion_chat":false}}]}`,
		}, []offer{{"m", 5000, yes, no, 0}}},
		"odd": {servers.OpenAI, map[string]string{
			"/v1/models": `{"data":[{"id":"o","created":"now","capabilities":"all","architecture":7}]}`,
		}, []offer{{"o", 0, nil, nil, 0}}},
		"Anthropic": {servers.Anthropic, map[string]string{
			"/v1/models": `{"data":[{"id":"claude","max_input_tokens":200000,` +
				`"capabilities":{"image_input":{"supported":true}}}]}`,
		}, []offer{{"claude", 200000, nil, yes, 0}}},
		"Gemini": {servers.Gemini, map[string]string{
			"/v1/models": `{"models":[{"name":"models/g","inputTokenLimit":1000,"supportedGenerationMethods":` +
				`["generateContent"]},{"name":"models/e","supportedGenerationMethods":["embedContent"]}]}`,
		}, []offer{{"g", 1000, nil, yes, 0}}},
	} {
		client, err := Open(serverOf(t, c.kind, c.pages), "")
		require.NoError(t, err)
		offers, err := client.Offers(t.Context())
		require.NoError(t, err, name)
		var got []offer
		for _, o := range offers {
			got = append(got, offer{o.Name, o.Context, o.ToolCalls, o.Seen(), o.Size})
		}
		assert.Equal(t, c.want, got, name)
		client.Close()
	}
}

// TestOffersOfOllama: what each model can do is asked for.
func TestOffersOfOllama(t *testing.T) {
	server := standin.Start(t, standin.Models(
		standin.Model{Name: "a", Context: 4096, Capabilities: []string{"completion", "tools", "vision"}},
		standin.Model{Name: "e", Capabilities: []string{"embedding"}},
	))
	client, err := New(server.URL)
	require.NoError(t, err)
	defer client.Close()
	offers, err := client.Offers(t.Context())
	require.NoError(t, err)
	require.Len(t, offers, 1, "an embedding model cannot chat")
	assert.Equal(t, "a", offers[0].Name)
	assert.Equal(t, 4096, offers[0].Context)
	assert.Equal(t, known(true), offers[0].ToolCalls)
	assert.Equal(t, known(true), offers[0].Seen())
}

// TestBest: a model that is said to call tools comes first, and a proposal is never one that is not for chats.
func TestBest(t *testing.T) {
	offer := func(name string, tools *bool) Offer {
		return Offer{Model: Model{Kind: servers.OpenAI, Name: name}, ToolCalls: tools}
	}
	cloud := Offer{Model: Model{Kind: servers.Ollama, Name: "c", Remote: "ollama.com"}, ToolCalls: known(true)}
	for want, offers := range map[string][]Offer{
		"b": {offer("a", nil), offer("b", known(true))},
		"d": {offer("c", known(false)), offer("d", nil)},
		"e": {cloud, offer("e", known(false))},
		"f": {offer("gpt-image-1", nil), offer("whisper-1", nil), offer("f", nil)},
		"":  {cloud, offer("tts-1", nil)},
	} {
		got, ok := Best(offers)
		assert.Equal(t, want, got.Name)
		assert.Equal(t, want != "", ok)
	}
}

// TestAutoOrder: Ollama comes first, then other servers on this machine that a setting names. None that nobody named is
// asked, and none on another machine.
func TestAutoOrder(t *testing.T) {
	list := map[string]string{"/v1/models": `{"data":[{"id":"m"}]}`}
	ollama := standin.Start(t)
	here, unnamed := serverOf(t, servers.OpenAI, list), serverOf(t, servers.OpenAI, list)
	unnamed.Own = false
	far := servers.Server{Name: "far", Kind: servers.OpenAI, URL: "http://192.0.2.1/v1", Own: true}
	empty := serverOf(t, servers.OpenAI, map[string]string{"/v1/models": `{"data":[]}`})
	for name, c := range map[string]struct {
		ollama  string
		others  []servers.Server
		strict  bool
		verbose bool
		want    string
		note    string
	}{
		"Ollama":       {ollama.URL, []servers.Server{here}, false, false, "ollama:stand-in:latest", ""},
		"Ollama, told": {ollama.URL, nil, false, true, "ollama:stand-in:latest", "auto: using ollama:stand-in"},
		"here":         {"127.0.0.1:1", []servers.Server{far, here}, false, false, "lab:m", ": using lab:m, on this"},
		"batch":        {"127.0.0.1:1", []servers.Server{here}, true, false, "lab:m", "on this machine"},
		"second":       {"127.0.0.1:1", []servers.Server{empty, here}, false, false, "lab:m", "on this machine"},
		"elsewhere":    {"127.0.0.1:1", []servers.Server{far}, false, false, Extract, "using the built-in"},
		"not named":    {"127.0.0.1:1", []servers.Server{unnamed}, false, false, Extract, "using the built-in"},
	} {
		told := ""
		note := noted(func(format string, args ...any) { told += fmt.Sprintf(format, args...) })
		r := &Resolver{Servers: append(c.others, servers.Server{Name: "ollama", Kind: servers.Ollama, URL: c.ollama}),
			Run: Auto, Notes: note, Warnings: note, Strict: c.strict, Verbose: c.verbose, Keys: near{t}}
		began := time.Now()
		m, err := r.Resolve(t.Context(), "")
		require.NoError(t, err, name)
		assert.Equal(t, c.want, m.String(), name)
		assert.Contains(t, told, c.note, name)
		assert.Less(t, time.Since(began), pickTimeout, "%s: nobody elsewhere is asked", name)
		if c.want == "lab:m" {
			assert.Empty(t, m.Remote, "it is on this machine")
		}
	}
}

// near has no keys, and must not be asked for that of a server elsewhere: who asks for one is about to use it.
type near struct{ *testing.T }

func (t near) Key(_ context.Context, s servers.Server) (string, error) {
	assert.True(t, s.IsHere(), "%s is asked", s.Name)
	return "", nil
}

// TestOffersWithKey: look-ups at a named Ollama server carry its key, as chats do.
func TestOffersWithKey(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, "unauthorized", http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"models":[{"name":"m","size":5}]}`))
	}))
	defer s.Close()
	client, err := Open(servers.Server{Name: "lab", Kind: servers.Ollama, URL: s.URL}, "secret")
	require.NoError(t, err)
	defer client.Close()
	offers, err := client.Offers(t.Context())
	require.NoError(t, err)
	require.Len(t, offers, 1)
	assert.Equal(t, "lab:m", offers[0].String())
}
