package scenario

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/ollama/ollama/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/test/ollamatest"
)

// TestCacheOfServer: a real server reads the instructions of an agent once for two
// tasks, one after the other: reading the prompt of the second takes less than a
// third of the time.
func TestCacheOfServer(t *testing.T) {
	for _, engine := range []string{"0", "1"} {
		t.Run("engine"+engine, func(t *testing.T) {
			s := ollamatest.Start(t, "OLLAMA_NEW_ENGINE="+engine, "OLLAMA_NUM_PARALLEL=1")
			require.NoError(t, s.Create(t.Context(), models()[0]))
			loaded := &api.ChatRequest{Model: scripted, Messages: []api.Message{{Role: "user", Content: "[[hello]]"}}}
			require.NoError(t, s.Client.Chat(t.Context(), loaded, func(api.ChatResponse) error { return nil }))
			p := watchServer(t, s.URL)
			w := newWorld(t, p.host, scripted)
			w.file(".qq/agents/long.md", "---\nname: long\ndescription: has much to read\ntools: [read_file]\n---\n"+
				strings.Repeat("Read this rule, and keep it. ", 3000/29))
			const tasks = "Say hello. [[hello]]\nWrite about the sea. [[poem]]\n"
			e := w.start(tasks, "batch", "-j", "1", "--no-bar", "--agent", "long", "--output-format", "jsonl").wait()
			require.Equal(t, 0, e.code, "exit code")
			require.Len(t, p.ends, 2)
			first, second := p.ends[0], p.ends[1]
			t.Logf("%d tokens in %v, then %d in %v", first.PromptEvalCount, first.PromptEvalDuration,
				second.PromptEvalCount, second.PromptEvalDuration)
			assert.Greater(t, first.PromptEvalCount, 2000)
			assert.LessOrEqual(t, second.PromptEvalDuration, first.PromptEvalDuration*3/10)
		})
	}
}

// watchedServer passes requests on to a model server, and keeps how each answer of
// a model ended.
type watchedServer struct {
	host string

	mu   sync.Mutex
	ends []api.ChatResponse
}

// watchServer serves until the test ends.
func watchServer(t *testing.T, server *url.URL) *watchedServer {
	t.Helper()
	p := &watchedServer{}
	proxy := httputil.NewSingleHostReverseProxy(server)
	proxy.ModifyResponse = func(r *http.Response) error {
		if r.Request.URL.Path != "/api/chat" {
			return nil
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		lines := bytes.Split(bytes.TrimSpace(body), []byte("\n"))
		var end api.ChatResponse
		if err := json.Unmarshal(lines[len(lines)-1], &end); err != nil {
			return err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ends = append(p.ends, end)
		return nil
	}
	s := httptest.NewServer(proxy)
	t.Cleanup(s.Close)
	p.host = s.Listener.Addr().String()
	return p
}
