package scenario

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/models/servers"
	"qq/internal/standin"
)

// TestModelsPage types the examples of docs/models.md, each block in a shell of its own. All servers of the page are
// one stand-in; only their addresses are changed.
func TestModelsPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "models.md"))
	require.NoError(t, err)
	const answer = "Red, green and blue."
	url, asked := modelsOfPage(t, string(text), answer)
	lab := "http://10.0.0.7:8000/v1"
	blocks := regexp.MustCompile("(?ms)^```(console|sh)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(blocks), 6, "the page has examples")
	prompts := 0
	for _, m := range blocks {
		kind, body := m[1], m[2]
		w := newWorldIn(t, "", strings.TrimPrefix(url, "http://"), "none")
		w.env = append(w.env, "QQ_MODEL=auto", "QQ_ALIAS_fast=ollama:qwen3:4b",
			"QQ_SERVER_lab=openai "+url+"/v1 key=LAB_KEY", "LAB_KEY=the-key-of-the-lab", // from a block before
			"QQ_SERVER_gone=openai http://127.0.0.1:1/v1", "QQ_SERVER_bare=openai "+url+"/bare/v1")
		for _, s := range servers.BuiltIn() {
			if path := map[string]string{servers.OpenAI: "/v1", servers.Anthropic: "/v1",
				servers.Gemini: "/v1beta"}[s.Kind]; path != "" {
				s.URL = url + path
				w.env = append(w.env, s.Setting()+"="+s.String())
			}
		}
		w.env[0] = "PATH=" + filepath.Join(w.dir, "bin") + ":" + os.Getenv("PATH")
		require.NoError(t, os.Mkdir(filepath.Join(w.dir, "bin"), 0o700))
		require.NoError(t, os.Symlink(w.bin, filepath.Join(w.dir, "bin", "qq")))
		script, prints := strings.ReplaceAll(body, lab, url+"/v1"), []string(nil)
		if kind == "console" {
			script = ""
			for _, c := range console(body) {
				script += c.command + "\n"
				prints = append(prints, c.prints...)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), runTimeout)
		cmd := exec.CommandContext(ctx, "bash", "-e", "-c", script)
		cmd.Dir, cmd.Env = w.work, w.env
		out, err := cmd.CombinedOutput()
		cancel()
		require.NoError(t, err, "%s\n%s", body, out)
		for _, line := range prints {
			assert.Contains(t, string(out), line+"\n", body)
		}
		n := strings.Count(script, `"Name three colours"`)
		assert.Equal(t, n, strings.Count(string(out), answer+"\n"), "%s\n%s", body, out)
		assert.NotContains(t, string(out), "extractive", "a language model answers")
		prompts += n
	}
	assert.Greater(t, prompts, 10)
	// A key reaches the server that it is for, in the header that its dialect has.
	for _, header := range []string{"Authorization: Bearer sk-your-key", "X-Api-Key: sk-ant-your-key",
		"X-Goog-Api-Key: your-key", "Authorization: Bearer sk-or-your-key", "Authorization: Bearer the-key-of-the-lab"} {
		assert.Contains(t, asked(), header)
	}
}

// modelsOfPage starts a server that has all models of the page, and speaks all dialects. asked returns the headers of
// keys that it got.
func modelsOfPage(t *testing.T, page, answer string) (url string, asked func() []string) {
	var got []string
	var models []standin.Model
	for _, m := range regexp.MustCompile(`(?:ollama|lab|llamacpp|vllm|lmstudio|openai|anthropic|gemini|openrouter)`+
		`:([\w/.-]+(?::\w+)?)[" ]`).FindAllStringSubmatch(page, -1) {
		models = append(models, standin.Model{Name: m[1]})
	}
	require.Greater(t, len(models), 8)
	s := standin.Start(t, standin.Models(models...), standin.Reply(func(p standin.Prompt) string {
		if strings.Contains(p.Messages[len(p.Messages)-1].Content, "Call the tool") { // qq models test
			return `<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>`
		}
		return answer
	}))
	mux := http.NewServeMux()
	mux.Handle("/", s)
	mux.HandleFunc("POST /api/pull", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status":"success"}`+"\n")
	})
	mux.HandleFunc("GET /bare/v1/models", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"data":[{"id":"small"}]}`)
	})
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		for name := range r.Header {
			got = append(got, name+": "+r.Header.Get(name))
		}
		mu.Unlock()
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(got)
	}
}
