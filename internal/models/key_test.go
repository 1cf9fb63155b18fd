package models

import (
	"fmt"
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

// TestKeyInErrors: what a server says about a request, or in the middle of an answer, never shows the key that it got.
func TestKeyInErrors(t *testing.T) {
	const key = "7Zq-0123456789abcdefghijklmnopqrstuvwxyz"
	for _, kind := range servers.Kinds() {
		for what, say := range map[string]http.HandlerFunc{
			"error object": func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusUnauthorized)
				fmt.Fprintf(w, `{"error":{"message":"wrong key %s, not %s"}}`, key, key)
			},
			"error text": func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "Bearer "+key, http.StatusForbidden)
			},
			"cut": func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, strings.Repeat("x", 277)+key, http.StatusBadGateway)
			},
			"status": func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusTooManyRequests)
				fmt.Fprintf(w, "%v", r.Header)
			},
			"redirect": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "https://elsewhere.example/?key="+key)
				w.WriteHeader(http.StatusTemporaryRedirect)
			},
			"not JSON":  func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "data: %s\n\n%s\n", key, key) },
			"no answer": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "data: {%q:1}\n\n", key) },
			"error in a stream": func(w http.ResponseWriter, _ *http.Request) {
				line := fmt.Sprintf(`{"error":{"message":"key %s","code":400},"type":"error"}`, key)
				if kind == servers.Ollama {
					line = fmt.Sprintf(`{"error":"key %s"}`, key)
				} else {
					line = "data: " + line + "\n"
				}
				fmt.Fprintln(w, line)
			},
			"status of a pull": func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, "{%q:%q}\n", "status", key)
			},
			"unknown model": func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/models") {
					fmt.Fprintf(w, `{"data":[{"id":%q}],"models":[{"name":%q}]}`, key, key)
					return
				}
				http.Error(w, "no "+key, http.StatusNotFound)
			},
		} {
			t.Run(kind+" "+what, func(t *testing.T) {
				server := httptest.NewServer(say)
				defer server.Close()
				c, err := Open(servers.Server{Name: "lab", Kind: kind, URL: server.URL}, key)
				require.NoError(t, err)
				defer c.Close()
				b := c.Backend(Model{Kind: kind, Server: "lab", Host: server.URL, Name: "m", Context: 8192}, Options{})
				_, err = b.Chat(t.Context(), llm.Request{Messages: []llm.Message{{Role: llm.User, Content: "hi"}}}, nil)
				require.Error(t, err)
				assert.NotContains(t, err.Error(), key[:8])
				assert.NotContains(t, err.Error(), "ollama signin", "there is a key")
				_, err = c.Find(t.Context(), "m")
				assert.NotContains(t, fmt.Sprint(err), key[:8])
				if kind == servers.Ollama {
					for p, err := range c.Pull(t.Context(), "m", false) {
						assert.NotContains(t, fmt.Sprint(p, err), key[:8])
					}
				}
			})
		}
	}
}

// TestNoKey: a word that stands for no key, such as none, stays in what a server says.
func TestNoKey(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "there is none", http.StatusBadRequest)
	}))
	defer server.Close()
	c, err := Open(servers.Server{Name: "lab", Kind: servers.OpenAI, URL: server.URL}, "none")
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Find(t.Context(), "m")
	assert.ErrorContains(t, err, "answered 400: there is none")
}

// TestKeyStaysAtItsServer: a server that redirects, whatever it answers, sends the key nowhere.
func TestKeyStaysAtItsServer(t *testing.T) {
	asked := make(chan string, 100)
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- fmt.Sprint(r.URL, r.Header)
	}))
	defer thief.Close()
	for _, kind := range servers.Kinds() {
		for _, status := range []int{301, 302, 303, 307, 308} {
			got := ""
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got = fmt.Sprint(r.Header)
				http.Redirect(w, r, thief.URL+r.URL.Path, status)
			}))
			c, err := Open(servers.Server{Name: "lab", Kind: kind, URL: server.URL}, "the-key-of-lab")
			require.NoError(t, err)
			b := c.Backend(Model{Kind: kind, Server: "lab", Name: "m"}, Options{})
			_, err = b.Chat(t.Context(), llm.Request{Messages: []llm.Message{{Role: llm.User, Content: "hi"}}}, nil)
			assert.ErrorContains(t, err, "it redirects to "+thief.URL, "%s %d", kind, status)
			assert.ErrorContains(t, err, "set QQ_SERVER_lab to that address if it is meant")
			assert.Contains(t, got, "the-key-of-lab", "its own server has it")
			_, err = c.Find(t.Context(), "m")
			assert.ErrorContains(t, err, "it redirects to "+thief.URL, "%s %d", kind, status)
			c.Close()
			server.Close()
		}
	}
	assert.Empty(t, asked)
}

// TestMisspelt: a model of a server whose name has a slip is looked for at Ollama, which says what may be meant.
func TestMisspelt(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	own := append(servers.BuiltIn()[1:], servers.Server{Name: "ollama", Kind: servers.Ollama, URL: server.URL})
	r := &Resolver{Servers: own}
	for name, want := range map[string]string{
		"openia:gpt-5": "hint: did you mean openai:gpt-5? ", "OpenAI:gpt-5": "hint: did you mean openai:gpt-5? ",
		"qwen3:4b": "hint: ollama pull qwen3:4b", "gemni": "hint: ollama pull gemni",
	} {
		_, err := r.Resolve(t.Context(), name)
		assert.ErrorContains(t, err, want, name)
	}
	server.Close()
	_, err := r.Resolve(t.Context(), "opnai:gpt-5")
	assert.ErrorContains(t, err, "hint: did you mean openai:gpt-5? start it with", "Ollama is not to blame alone")
	_, err = r.Resolve(t.Context(), "qwen3:4b")
	assert.ErrorContains(t, err, "hint: start it with")
}

// TestWrongPath: an address without the path of its interface is the usual mistake; what a server says of it ends with
// no mark where more follows.
func TestWrongPath(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"message":"Not here."}}`, http.StatusNotFound)
	}))
	defer server.Close()
	for _, c := range []struct{ kind, path, hint string }{
		{servers.OpenAI, "", ": that of a server that speaks openai ends with /v1 as a rule"},
		{servers.OpenAI, "/v1/", ""},
		{servers.Anthropic, "/api", ": that of a server that speaks anthropic ends with /v1 as a rule"},
		{servers.Gemini, "/v1", ": that of a server that speaks gemini ends with /v1beta as a rule"},
		{servers.Ollama, "", ""},
	} {
		client, err := Open(servers.Server{Name: "lab", Kind: c.kind, URL: server.URL + c.path}, "")
		require.NoError(t, err)
		_, err = client.Offers(t.Context())
		client.Close()
		problem, hint := task.Explain(err)
		assert.True(t, strings.HasSuffix(problem, " answered 404: Not here"), problem)
		assert.Equal(t, "check the address in QQ_SERVER_lab"+c.hint, hint, c)
	}
}

// TestPathOfAddress: every request goes below the path of the address, as behind a proxy that knows servers by it.
func TestPathOfAddress(t *testing.T) {
	for _, kind := range servers.Kinds() {
		for _, below := range []string{"", "/", "/a", "/a/b", "/a/b/"} {
			var paths []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				paths = append(paths, r.URL.Path)
				http.NotFound(w, r)
			}))
			c, err := Open(servers.Server{Name: "lab", Kind: kind, URL: server.URL + below}, "")
			require.NoError(t, err)
			_, _ = c.Find(t.Context(), "m")
			_, _ = c.Offers(t.Context())
			b := c.Backend(Model{Kind: kind, Server: "lab", Name: "m"}, Options{})
			_, _ = b.Chat(t.Context(), ask("hi"), ignore)
			c.Close()
			server.Close()
			assert.NotEmpty(t, paths)
			for _, path := range paths {
				rest, ok := strings.CutPrefix(path, strings.TrimSuffix(below, "/")+"/")
				assert.True(t, ok && !strings.HasPrefix(rest, "a/") && !strings.Contains(rest, "//"), "%s%s: %s",
					kind, below, path)
			}
		}
	}
}

func TestSame(t *testing.T) {
	r := &Resolver{Servers: servers.BuiltIn(), Aliases: map[string]string{"fast": "openai:small"}, Run: "ollama:x"}
	for name, want := range map[string]bool{
		"fast": true, "openai:small": true, "openai:small:latest": true, "small": false,
		"ollama:small": false, "groq:small": false, "": false,
	} {
		assert.Equal(t, want, r.Same(name, "openai:small"), name)
	}
	assert.True(t, r.Same("", "x:latest"))
}

func TestHome(t *testing.T) {
	assert.False(t, Model{Kind: servers.OpenAI, Server: "openai", Name: "small"}.Home())
	assert.True(t, Model{Kind: servers.Ollama, Name: "x"}.Home())
	assert.True(t, Model{Kind: Extract}.Home())
	assert.False(t, Model{Kind: servers.Ollama, Name: "x", Remote: "far"}.Home())
	assert.False(t, Model{Kind: servers.Ollama, Server: "gpu", Name: "x"}.Home(), "the server of somebody else")
}

// TestHintsOfOwnOllama: an Ollama server that a setting names is not the one that the program ollama talks to, and its
// key is not that of ollama.com.
func TestHintsOfOwnOllama(t *testing.T) {
	status := http.StatusNotFound
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":"no"}`, status)
	}))
	defer server.Close()
	hint := func(key string) string {
		s := servers.Server{Name: "lab", Kind: servers.Ollama, URL: server.URL, KeyName: "LAB_KEY", Own: true}
		client, err := Open(s, key)
		require.NoError(t, err)
		defer client.Close()
		_, err = client.Show(t.Context(), "qwen3:4b")
		var e *llm.Error
		require.ErrorAs(t, err, &e)
		return e.Hint
	}
	assert.Equal(t, "qq models pull lab:qwen3:4b", hint("a key of the lab"))
	status = http.StatusUnauthorized
	assert.Equal(t, "check the key in LAB_KEY", hint("a key of the lab"))
	assert.Equal(t, "sign in with `ollama signin`, or use a local model", hint(""))
}
