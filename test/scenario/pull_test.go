package scenario

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/test/ollamatest"
	"qq/test/tinymodel"
)

// trial is a model that can do what qq models test asks for.
func trial() tinymodel.Spec {
	spec := ollamatest.Spec(
		tinymodel.Script{Start: "that you are ready.", Text: "I am ready."},
		tinymodel.Script{Start: "to find out.",
			Text: `<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>`},
		tinymodel.Script{Start: "only the numbers.", Text: "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20"},
		tinymodel.Script{Start: "[[hello]]", Text: hello},
	)
	spec.Default, spec.Context = "[[hello]]", 8192
	return spec
}

// TestModelsOfOllama: qq models and qq setup with a real server: what they say of it is true, and a model that setup
// has tested answers the next prompt.
func TestModelsOfOllama(t *testing.T) {
	s := ollamatest.Start(t)
	require.NoError(t, s.Create(t.Context(), ollamatest.Model{Name: "plain", Spec: trial(),
		Template: ollamatest.TemplateWithoutTools}))
	require.NoError(t, s.Create(t.Context(), ollamatest.Model{Name: "trial", Spec: trial()}))
	w := newWorld(t, s.URL.Host, "", "QQ_MODEL=", "QQ_SERVER_other=none")

	e := w.qq("models", "--server", "ollama")
	assert.Zero(t, e.code)
	assert.Regexp(t, `(?m)^ollama:trial:latest +8192 +yes +no +\d+ kB$`, e.stdout)
	assert.Regexp(t, `(?m)^ollama:plain:latest +8192 +no +no +\d+ kB$`, e.stdout)
	e = w.qq("models", "show", "trial")
	assert.Regexp(t, `(?m)^size +\d+ kB$`, e.stdout)

	e = w.qq("models", "test", "trial", "--json")
	assert.Zero(t, e.code)
	var report struct {
		Checks []struct {
			What string `json:"what"`
			OK   bool   `json:"ok"`
		} `json:"checks"`
	}
	require.NoError(t, json.Unmarshal([]byte(e.stdout), &report))
	require.Len(t, report.Checks, 4)
	for _, c := range report.Checks {
		assert.True(t, c.OK, c.What)
	}
	e = w.qq("models", "test", "plain")
	assert.Zero(t, e.code)
	assert.Regexp(t, `(?m)^no  tool call  the server says that the model cannot call tools$`, e.stdout)

	e = w.qq("setup", "--yes")
	assert.Zero(t, e.code)
	text, err := os.ReadFile(filepath.Join(w.dir, "config", "qq", ".env"))
	require.NoError(t, err)
	assert.Equal(t, "QQ_MODEL=ollama:trial:latest\n", string(text), "the one that calls tools")
	w.qq("Say hello. [[hello]]").answered(hello)
	e = w.qq("doctor")
	assert.Regexp(t, `(?m)^ok +model +trial:latest$`, e.stdout)
}

// registry is a registry of models on this machine, with the model library/trial.
type registry struct {
	*httptest.Server
	manifest []byte
	blobs    map[string][]byte

	mu      sync.Mutex
	started chan struct{} // closed when the first part of a file was sent
	release chan struct{} // the rest follows when it is closed
}

// startRegistry runs a registry until the test ends. Files stay incomplete until release is closed.
func startRegistry(t *testing.T) *registry {
	t.Helper()
	r := &registry{blobs: map[string][]byte{}, started: make(chan struct{}), release: make(chan struct{})}
	var model bytes.Buffer
	require.NoError(t, tinymodel.Scripted(&model, trial()))
	type layer struct {
		Type   string `json:"mediaType"`
		Digest string `json:"digest"`
		Size   int    `json:"size"`
	}
	add := func(kind string, data []byte) layer {
		digest := fmt.Sprintf("sha256:%x", sha256.Sum256(data))
		r.blobs[digest] = data
		return layer{kind, digest, len(data)}
	}
	const ollama = "application/vnd.ollama.image."
	config := `{"model_format":"gguf","model_family":"llama","model_families":["llama"],"model_type":"1M",` +
		`"file_type":"F32","architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]}}`
	var err error
	r.manifest, err = json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
		"config": add("application/vnd.docker.container.image.v1+json", []byte(config)),
		"layers": []layer{
			add(ollama+"model", model.Bytes()), add(ollama+"template", []byte(ollamatest.Template)),
			add(ollama+"params", []byte(`{"num_thread":1,"num_ctx":8192}`)),
		},
	})
	require.NoError(t, err)
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.Close)
	return r
}

func (r *registry) serve(w http.ResponseWriter, req *http.Request) {
	digest := path.Base(req.URL.Path)
	data, ok := r.blobs[digest]
	switch {
	case req.URL.Path == "/v2/library/trial/manifests/latest":
		_, _ = w.Write(r.manifest)
	case !ok:
		http.NotFound(w, req)
	case req.Method == http.MethodGet && strings.HasPrefix(req.URL.Path, "/v2/"):
		// Files are at another host, as those of the registry of Ollama.
		port := r.Listener.Addr().(*net.TCPAddr).Port
		w.Header().Set("Location", fmt.Sprintf("http://localhost:%d/files/%s", port, digest))
		w.WriteHeader(http.StatusTemporaryRedirect)
	default:
		http.ServeContent(&halted{w, r, req, 0}, req, "", time.Time{}, bytes.NewReader(data))
	}
}

// halted sends the first 64 KiB of a file, and the rest when the test says so.
type halted struct {
	http.ResponseWriter
	registry *registry
	req      *http.Request
	sent     int
}

func (h *halted) Write(b []byte) (int, error) {
	if h.sent += len(b); h.sent > 64<<10 {
		_ = http.NewResponseController(h.ResponseWriter).Flush()
		h.registry.begin()
		select {
		case <-h.registry.release:
		case <-h.req.Context().Done():
			return 0, h.req.Context().Err()
		}
	}
	return h.ResponseWriter.Write(b)
}

func (r *registry) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.started:
	default:
		close(r.started)
	}
}

// TestPullFromRegistry: a real Ollama downloads a model from a registry of this machine. Ctrl-C ends the download at
// once and in order, the same command goes on with it, and the model answers.
func TestPullFromRegistry(t *testing.T) {
	s, r := ollamatest.Start(t), startRegistry(t)
	name := strings.TrimPrefix(r.URL, "http://") + "/library/trial"
	w := newWorld(t, s.URL.Host, "", "QQ_MODEL=", "QQ_SERVER_lab=ollama "+s.URL.String())

	e := w.qq("models", "pull", r.URL+"/library/trial")
	assert.Equal(t, 2, e.code)
	assert.Contains(t, e.stderr, "has no certificate")

	p := w.start("", "models", "pull", "--insecure", r.URL+"/library/trial")
	<-r.started
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGINT))
	e = p.wait()
	assert.Equal(t, 130, e.code)
	assert.Contains(t, e.stderr, "qq: stopped by a signal: ollama:"+name+" is not complete\n")
	e = w.qq("models", "show", name)
	assert.Equal(t, 2, e.code)
	assert.Contains(t, e.stderr, "has no model")

	close(r.release)
	e = w.qq("models", "pull", "--insecure", "lab:"+r.URL+"/library/trial") // the same server, by another name
	assert.Zero(t, e.code)
	assert.Regexp(t, `(?m)^qq: pulling [0-9a-f]{12}, \d+% of \d+ kB$`, e.stderr)
	assert.Contains(t, e.stderr, "qq: success\nqq: lab:"+name+" is there\n")
	e = w.qq("models", "test", name)
	assert.Zero(t, e.code)
	assert.Contains(t, e.stdout, `ok  answer     "I am ready." in `)
	w.qq("--model", "ollama:"+name, "Say hello. [[hello]]").answered(hello)

	e = w.qq("models", "pull", "--insecure", r.URL+"/library/absent")
	assert.Equal(t, 1, e.code)
	assert.Contains(t, e.stderr, "file does not exist")
}
