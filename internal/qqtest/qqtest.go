// Package qqtest is an HTTP server that speaks Ollama's protocol and says what
// a test tells it to, for tests and test programs that have no model.
//
// A test writes its scenario into prompts: after the last `[[name]]` that
// stands anywhere in the prompt (system prompt, messages, tool results) the
// server says the [Script] that starts with it. Text of the form
//
//	<tool_call>{"name":"…","arguments":{…}}</tool_call>
//
// comes as a tool call when the request offers that tool. A prompt without a
// known marker gets [EchoLast], or what [Reply] says. A [Fault] makes a script,
// or the whole server, misbehave.
//
// What it does as the real server does: it streams word by word, one line of
// JSON each; it knows capabilities, and refuses tools for a model that has none;
// it counts tokens (a fixed number of bytes each), and refuses a prompt that is
// longer than num_ctx or, when told to truncate, cuts it from the front without
// a word; a call of a tool that was not offered is an empty answer; under a
// schema it gives a document; a schema for a model that thinks is not applied;
// with [Parallel] it answers so many chats at a time, in the order of their
// arrival, and the last line tells the wait: it is part of the whole and of none
// of the parts. It does not render templates, sample, or keep models loaded.
package qqtest

import (
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Version is the version that the server claims to be.
const Version = "0.17.4"

// Script says what comes after a prompt whose last marker is Start.
type Script struct {
	Start string `json:"start"` // the marker with its brackets: [[name]]
	Text  string `json:"text"`
	Loop  bool   `json:"loop,omitempty"` // the text starts again, without end
	// Fault is what goes wrong with it, or nil.
	Fault *Fault `json:"fault,omitempty"`
}

// Model describes a model that the server has.
type Model struct {
	Name         string
	Context      int       // default 8192
	Capabilities []string  // default completion and tools
	Modified     time.Time // default the start of 2026
	RemoteHost   string    // set: the server only passes it on
	// TokenBytes is how many bytes of a prompt count as a token, default 4.
	TokenBytes int
}

// DefaultModel is the one model of a server that was not told about models.
const DefaultModel = "stand-in:latest"

// Request is a request as it came.
type Request struct {
	Method, Path string
	Header       http.Header
	Body         []byte
	Came         time.Time
}

// Prompt reads the body of a chat; it is empty for another one.
func (r Request) Prompt() Prompt {
	var p Prompt
	_ = json.Unmarshal(r.Body, &p) // what is no chat has no messages
	return p
}

// Option sets up a [Server].
type Option func(*Server)

// Models replaces the models that the server has.
func Models(models ...Model) Option { return func(s *Server) { s.models = models } }

// Scripts adds scripts; of two with one Start the later counts.
func Scripts(scripts ...Script) Option {
	return func(s *Server) {
		for i := range scripts {
			s.scripts[scripts[i].Start] = &scripts[i]
		}
	}
}

// Reply says what answers a prompt without a known marker.
func Reply(f func(Prompt) string) Option { return func(s *Server) { s.reply = f } }

// Faulty makes requests of that path go wrong: all of them, or the first
// f.Times. Scripts with a fault of their own keep it.
func Faulty(path string, f Fault) Option { return func(s *Server) { s.faults[path] = &f } }

// IgnoreTruncate makes the server cut long prompts even when it was told not
// to, as old servers do.
func IgnoreTruncate() Option { return func(s *Server) { s.alwaysCut = true } }

// NoCallIDs leaves out the ids of tool calls, as old servers do.
func NoCallIDs() Option { return func(s *Server) { s.noCallIDs = true } }

// Parallel answers k chats at a time, as OLLAMA_NUM_PARALLEL says it of Ollama. A
// fault with a Status is answered without a wait, as by a server whose queue is full.
func Parallel(k int) Option { return func(s *Server) { s.seats = make(chan struct{}, k) } }

// Record keeps the requests for [Server.Requests]. [Start] records.
func Record() Option { return func(s *Server) { s.record = true } }

// Server is a stand-in for an Ollama server. It is an [http.Handler].
type Server struct {
	// URL is where the server listens, once it was started or served.
	URL string

	models    []Model
	scripts   map[string]*Script
	reply     func(Prompt) string
	faults    map[string]*Fault
	alwaysCut bool
	noCallIDs bool
	record    bool
	seats     chan struct{} // nil: any number of chats is answered at once

	http     *http.Server
	done     chan struct{} // closed when what Start or Restart began has ended
	closing  chan struct{} // ends stalls and delays
	gate     sync.RWMutex  // held by each handler; Close waits for them
	scratch  sync.Pool     // of *scratch: a benchmark should measure the client
	inFlight atomic.Int64
	maximum  atomic.Int64
	callIDs  atomic.Int64

	mu       sync.Mutex
	counts   map[string]int
	failures map[*Fault]int // how often a fault with Times has struck
	requests []Request
}

// New returns a server that does not listen yet.
func New(options ...Option) *Server {
	s := &Server{
		models:   []Model{{Name: DefaultModel}},
		scripts:  map[string]*Script{},
		reply:    EchoLast,
		faults:   map[string]*Fault{},
		closing:  make(chan struct{}),
		counts:   map[string]int{},
		failures: map[*Fault]int{},
	}
	for _, o := range options {
		o(s)
	}
	s.models = slices.Clone(s.models)
	for i := range s.models {
		s.models[i].setDefaults()
	}
	s.scratch.New = func() any { return new(scratch) }
	s.http = &http.Server{Handler: s}
	return s
}

func (m *Model) setDefaults() {
	if m.Context == 0 {
		m.Context = 8192
	}
	if m.Capabilities == nil {
		m.Capabilities = []string{"completion", "tools"}
	}
	if m.Modified.IsZero() {
		m.Modified = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if m.TokenBytes == 0 {
		m.TokenBytes = 4
	}
}

func (m *Model) can(capability string) bool { return slices.Contains(m.Capabilities, capability) }

// Start runs a server on a free port of this machine until the test ends.
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen for the stand-in server: %v", err)
	}
	s := New(append(options, Record())...)
	s.listen(l)
	t.Cleanup(s.Stop)
	return s
}

func (s *Server) listen(l net.Listener) {
	s.URL = "http://" + l.Addr().String()
	done, server := make(chan struct{}), s.http
	s.done = done
	go func() {
		defer close(done)
		_ = server.Serve(l) // ends with Close
	}()
}

// Serve answers on l until Close; it returns nil then.
func (s *Server) Serve(l net.Listener) error {
	s.URL = "http://" + l.Addr().String()
	if err := s.http.Serve(l); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// Close ends all requests and returns when none is left.
func (s *Server) Close() {
	s.mu.Lock()
	select {
	case <-s.closing:
	default:
		close(s.closing)
	}
	s.mu.Unlock()
	s.http.Close()
	s.gate.Lock()
	defer s.gate.Unlock()
}

// Stop refuses connections from now on and cuts those that there are, as a server
// that was killed. It is for one that [Start] has started, and not for two
// goroutines at once.
func (s *Server) Stop() {
	s.Close()
	<-s.done
}

// Restart answers again, on the port where a server listened that was stopped.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	l, err := net.Listen("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatalf("listen again for the stand-in server: %v", err)
	}
	s.gate.Lock() // a request of before may be on its way to a handler
	s.http, s.closing = &http.Server{Handler: s}, make(chan struct{})
	s.gate.Unlock()
	s.listen(l)
}

// Count is the number of requests for path so far.
func (s *Server) Count(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[path]
}

// MaxInFlight is the largest number of chats that were under way at once.
func (s *Server) MaxInFlight() int { return int(s.maximum.Load()) }

// Requests are the recorded requests in the order of their arrival. path picks
// some; empty means all.
func (s *Server) Requests(path string) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	if path == "" {
		return slices.Clone(s.requests)
	}
	var some []Request
	for _, r := range s.requests {
		if r.Path == path {
			some = append(some, r)
		}
	}
	return some
}

// Asked is when each task was asked for: by the last line of what the user said,
// the recorded chats in the order of their arrival.
func (s *Server) Asked() map[string][]time.Time {
	times := map[string][]time.Time{}
	for _, r := range s.Requests("/api/chat") {
		text := EchoLast(r.Prompt())
		times[text] = append(times[text], r.Came)
	}
	return times
}
