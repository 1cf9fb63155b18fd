package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"qq/test/ollamatest"
	"qq/test/qqbin"
)

// shared is what all tests use. Each part is made when the first test asks.
type shared struct {
	dir     string
	program func() (string, error) // path of qq; the world of each test links to it

	mu      sync.Mutex
	servers map[string]*ollamatest.Server // by engine
}

// house is the one piece of package state: TestMain has no other way to hand
// something to tests.
var house *shared

// init keeps the main thread of the process for the main goroutine. A test that gives up rights for its own thread
// never gets the main one then, which Go does not end, and whose rights Linux shows as those of the whole process:
// each qq that is asked later would take these tests for a process in a sandbox.
func init() { runtime.LockOSThread() }

func TestMain(m *testing.M) {
	if dialOnly() {
		return
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "scenario:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "qq-scenario-")
	if err != nil {
		return 1, err
	}
	house = &shared{dir: dir, servers: map[string]*ollamatest.Server{}}
	house.program = sync.OnceValues(func() (string, error) { return qqbin.Install(context.Background(), dir) })
	defer func() { err = errors.Join(err, house.close()) }()
	return m.Run(), nil
}

func (h *shared) close() error {
	var errs []error
	for _, s := range h.servers {
		errs = append(errs, s.Kill())
	}
	return errors.Join(append(errs, os.RemoveAll(h.dir))...)
}

// server is the one of that engine that all tests share, with its models.
func (h *shared) server(t *testing.T, engine string) *ollamatest.Server {
	t.Helper()
	bin := ollamatest.Binary(t)
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.servers[engine]; s != nil {
		return s
	}
	dir := filepath.Join(h.dir, "engine"+engine)
	require.NoError(t, os.Mkdir(dir, 0o700))
	s, err := ollamatest.Launch(bin, dir, "OLLAMA_NEW_ENGINE="+engine)
	require.NoError(t, err)
	h.servers[engine] = s
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, m := range models() {
		require.NoError(t, s.Create(ctx, m))
	}
	return s
}

// engines runs a test on both engines of the server.
func engines(t *testing.T, test func(t *testing.T, s *ollamatest.Server)) {
	for _, engine := range []string{"0", "1"} {
		t.Run("engine"+engine, func(t *testing.T) { test(t, house.server(t, engine)) })
	}
}

// speaker is an interface of the server.
type speaker struct {
	*ollamatest.Server
	dialect string // empty is Ollama's own
}

// world returns a world whose qq speaks to that interface.
func (s speaker) world(t *testing.T, model string, env ...string) *world {
	t.Helper()
	if s.dialect == "" {
		return newWorld(t, s.URL.Host, model, env...)
	}
	return newWorldIn(t, s.dialect, s.URL.Host, model, env...)
}

// dialects are those of the interfaces of the server besides its own.
func dialects() []string { return []string{"openai", "anthropic"} }

// speakers runs a test on both engines of the server, and on the newer one through its other interfaces,
// /v1/chat/completions and /v1/messages.
func speakers(t *testing.T, test func(t *testing.T, s speaker)) {
	engines(t, func(t *testing.T, s *ollamatest.Server) { test(t, speaker{Server: s}) })
	for _, d := range dialects() {
		t.Run(d, func(t *testing.T) { test(t, speaker{house.server(t, "1"), d}) })
	}
}
