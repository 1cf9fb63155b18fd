// Package standin is a server that stands in for Ollama, for measurements and
// for the suite of faults. It speaks as much of Ollama's protocol as a client of
// /api/chat needs.
//
// The name of a model says how it answers: "fast" at once, "slow200" after
// 200 ms, "one200" likewise but one request at a time, as a stock Ollama does,
// "say5000" with 5,000 bytes of text, "echo" and "echo20" with the task itself,
// at once and after 20 ms, "hang" never, "busy" with status 503, "script" with
// the calls that the task asks for (see script.go). /bench/waiting tells how
// many requests hang, /bench/page is a page to fetch.
//
// A [Rule] makes some requests go wrong, whatever the model. [Parallel] bounds
// how many are served at once; the others wait in the order of their arrival.
// The last line of an answer tells where its time went in Ollama's fields: the
// whole includes the wait, the parts do not. What was asked is kept when [Log]
// is given.
//
// It does not count tokens as a model does (four bytes of a prompt are one),
// refuse long prompts, or keep models loaded.
package standin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// Version is the version that the server claims to be.
const Version = "0.17.4"

// modified is when its models came.
const modified = "2026-01-01T00:00:00Z"

// Option sets up a [Server].
type Option func(*Server)

// Parallel serves k requests at a time, as OLLAMA_NUM_PARALLEL says it of Ollama.
func Parallel(k int) Option { return func(s *Server) { s.seats = make(chan struct{}, k) } }

// Log keeps every chat for [Server.Chats].
func Log() Option { return func(s *Server) { s.logged = true } }

// Server is the stand-in. It is an [http.Handler]; Start makes it listen as well.
type Server struct {
	mux     *http.ServeMux
	seats   chan struct{} // nil: any number is served at once
	one     chan struct{} // the seat of the models that answer one at a time
	logged  bool
	waiting atomic.Int64
	shown   atomic.Int64
	gate    sync.RWMutex // held by each handler; Stop waits for them

	mu    sync.Mutex
	rules []*rule
	chats []Chat

	addr   string // where it listened first
	http   *http.Server
	cancel context.CancelFunc
	ended  chan struct{}
}

// New returns a server that does not listen yet.
func New(options ...Option) *Server {
	s := &Server{mux: http.NewServeMux(), one: make(chan struct{}, 1), addr: "127.0.0.1:0"}
	for _, o := range options {
		o(s)
	}
	handle := func(pattern string, h http.HandlerFunc) { s.mux.HandleFunc(pattern, h) }
	handle("HEAD /{$}", func(http.ResponseWriter, *http.Request) {})
	handle("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "Ollama is running") })
	handle("GET /api/version", answer(map[string]any{"version": Version}))
	handle("GET /api/tags", answer(map[string]any{"models": []any{
		map[string]any{"name": "fast:latest", "model": "fast:latest", "modified_at": modified, "size": 1, "digest": "0"},
	}}))
	handle("POST /api/show", s.show)
	handle("POST /api/chat", s.chat)
	handle("GET /bench/page", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "a page") })
	handle("GET /bench/waiting", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, s.waiting.Load()) })
	return s
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	s.mux.ServeHTTP(w, r)
}

// Start listens on a loopback port of the kernel's choice; after Stop, on the
// same port again.
func (s *Server) Start() error {
	l, err := net.Listen("tcp", s.addr)
	if err != nil {
		return fmt.Errorf("start the stand-in server: %w", err)
	}
	s.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	s.http = &http.Server{Handler: s, BaseContext: func(net.Listener) context.Context { return ctx }}
	s.cancel, s.ended = cancel, make(chan struct{})
	go func() {
		defer close(s.ended)
		_ = s.http.Serve(l) // ends with Stop
	}()
	return nil
}

// Stop refuses new connections, cuts those that there are, as a server that was
// killed, and returns when no request is left. It may be called when nothing runs.
func (s *Server) Stop() {
	if s.http == nil {
		return
	}
	s.cancel()
	s.http.Close()
	<-s.ended
	s.gate.Lock()
	defer s.gate.Unlock()
	s.http = nil
}

// Host is where it listens, or listened: host and port.
func (s *Server) Host() string { return s.addr }

// Waiting is how many requests hang.
func (s *Server) Waiting() int { return int(s.waiting.Load()) }

// Shown is how often somebody asked what a model is.
func (s *Server) Shown() int { return int(s.shown.Load()) }

func (s *Server) show(w http.ResponseWriter, r *http.Request) {
	s.shown.Add(1)
	var asked struct{ Model string }
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	if _, known := parse(asked.Model); !known {
		refuse(w, http.StatusNotFound, unknown(asked.Model))
		return
	}
	answer(map[string]any{
		"capabilities": []string{"completion", "tools"},
		"details":      map[string]any{"family": "llama", "format": "gguf"},
		"model_info":   map[string]any{"general.architecture": "llama", "llama.context_length": 131072},
		"modified_at":  modified,
	})(w, r)
}

func unknown(model string) string { return fmt.Sprintf("model '%s' not found", model) }

func answer(v any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_ = json.NewEncoder(w).Encode(v) // the client went away
	}
}

func refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": message}) // the client went away
}
