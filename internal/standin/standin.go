// Package standin is a server that stands in for a model server: it says what a test
// tells it to. Tests, the bench and the suite of faults use it where no model is wanted.
//
// It speaks Ollama's protocol, chat completions (/v1/chat/completions), Anthropic's
// messages (/v1/messages) and that of Gemini (/v1beta/models/NAME:streamGenerateContent),
// and lists its models for each. All of them give the same answers, because a form
// only reads and writes them. [Odd] makes it deviate from what the vendors document, as
// other servers do.
//
// There are three ways to tell it what to say. A test writes its scenario into
// prompts: after the last `[[name]]` anywhere in the prompt (system prompt, messages,
// tool results) the server says the [Script] that starts with it. Text of the form
//
//	<tool_call>{"name":"…","arguments":{…}}</tool_call>
//
// comes as a tool call when the request offers that tool. A prompt without a known
// marker gets [EchoLast], or what [Reply] says. With [ByName] the name of the model
// says how it answers. A [Fault] makes a script misbehave, or the requests that a
// [Rule] selects.
//
// It does as a real Ollama does. It streams word by word, one line of JSON each. It knows capabilities, and
// refuses tools for a model that has none. It counts tokens (a fixed number of bytes each), and refuses a prompt
// that is longer than num_ctx or, when the request allows that, cuts it from the front silently. A call of a tool
// that was not offered gives an empty answer. With a schema the answer is a document, except for a model that
// thinks: there the schema is ignored. With [Parallel] it answers a number of chats at a time, in the order of
// their arrival; the last line of an answer counts the wait in the total duration and in none of its parts. It does
// not render templates, sample, or keep models loaded.
//
// For tests of tools, [CallTool] makes a call as a model does, without a server.
package standin

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Version is the version that the server reports.
const Version = "0.17.4"

// Script is the answer to a prompt in which Start is the last known marker.
type Script struct {
	Start string `json:"start"` // the marker with its brackets: [[name]]
	Text  string `json:"text"`
	Loop  bool   `json:"loop,omitempty"` // the text starts again, without end
	// Fault is what goes wrong with the answer; nil means nothing.
	Fault *Fault `json:"fault,omitempty"`
}

// Model describes a model that the server offers.
type Model struct {
	Name         string
	Context      int       // default 8192
	Capabilities []string  // default completion and tools
	Modified     time.Time // default the start of 2026
	RemoteHost   string    // set: the server only passes it on
	// TokenBytes is how many bytes of a prompt count as one token; the default is 4.
	TokenBytes int
	// Cached is how many tokens of a prompt the server has in its cache, as far as the prompt is that long. Of those
	// that it has not, Anthropic's messages say that as many are written to it.
	Cached int
}

// DefaultModel is the only model of a server without the option Models.
const DefaultModel = "stand-in:latest"

// Option configures a [Server].
type Option func(*Server)

// Models replaces the models that the server offers.
func Models(models ...Model) Option { return func(s *Server) { s.models = models } }

// Scripts adds scripts. If two have the same Start, the later one counts.
func Scripts(scripts ...Script) Option {
	return func(s *Server) {
		for i := range scripts {
			s.scripts[scripts[i].Start] = &scripts[i]
		}
	}
}

// Reply sets the function that answers prompts without a known marker.
func Reply(f func(Prompt) string) Option { return func(s *Server) { s.reply = f } }

// Faulty makes requests for path fail with f: all of them or, if f.Times is not 0, the first f.Times. Scripts with
// a fault of their own keep it.
func Faulty(path string, f Fault) Option {
	return func(s *Server) { s.Strike(Rule{Path: path, Fault: f}) }
}

// IgnoreTruncate makes the server cut long prompts even if the request forbids it, as old servers
// do.
func IgnoreTruncate() Option { return func(s *Server) { s.alwaysCut = true } }

// NoCallIDs leaves out the ids of tool calls, as old servers do.
func NoCallIDs() Option { return func(s *Server) { s.noCallIDs = true } }

// Parallel makes the server answer k chats at a time, like OLLAMA_NUM_PARALLEL of Ollama. A fault
// with a Status is answered without waiting, as by a server whose queue is full.
func Parallel(k int) Option { return func(s *Server) { s.seats = make(chan struct{}, k) } }

// Server is a stand-in for a model server. It is an [http.Handler].
type Server struct {
	URL string // where the server listens, once it was started

	models    []Model
	scripts   map[string]*Script
	reply     func(Prompt) string
	byName    bool
	alwaysCut bool
	noCallIDs bool
	odd       func(Prompt) *Oddities
	seats     chan struct{} // nil: any number of chats is answered at once
	one       chan struct{} // the one seat of all models such as one200
	log       log

	http    *http.Server  // nil while it does not listen
	done    chan struct{} // closed when http has ended
	closing chan struct{} // ends stalls and delays
	gate    sync.RWMutex  // held by each handler; Stop waits for them
	scratch sync.Pool     // of *scratch: reused, so that a benchmark measures the client
	waiting atomic.Int64
	callIDs atomic.Int64
}

// New returns a server that does not listen yet.
func New(options ...Option) *Server {
	s := &Server{
		models:  []Model{{Name: DefaultModel}},
		scripts: map[string]*Script{},
		reply:   EchoLast,
		one:     make(chan struct{}, 1),
		log:     log{counts: map[string]int{}},
		closing: make(chan struct{}),
	}
	for _, o := range options {
		o(s)
	}
	s.models = slices.Clone(s.models)
	for i := range s.models {
		s.models[i].setDefaults()
	}
	s.scratch.New = func() any { return new(scratch) }
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

// Start runs a server on a free port of this machine until the test ends. It records requests for
// [Server.Requests].
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	s := New(options...)
	s.log.bodies = true
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// Start makes the server listen on a free port of this machine; after Stop, on the same port again.
func (s *Server) Start() error {
	addr := s.Host()
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("start the stand-in server: %w", err)
	}
	s.URL = "http://" + l.Addr().String()
	server, done := &http.Server{Handler: s}, make(chan struct{})
	s.gate.Lock() // an old request may still be on its way to a handler
	s.http, s.done, s.closing = server, done, make(chan struct{})
	s.gate.Unlock()
	go func() {
		defer close(done)
		_ = server.Serve(l) // ends with Stop
	}()
	return nil
}

// Stop refuses new connections and cuts existing ones, as when a server is killed. It returns
// when no request is left. It may be called on a stopped server, but not by two goroutines at
// once.
func (s *Server) Stop() {
	if s.http == nil {
		return
	}
	close(s.closing)
	s.http.Close()
	<-s.done
	s.gate.Lock()
	defer s.gate.Unlock()
	s.http = nil
}

// Host returns the host and port on which the server listens, or listened.
func (s *Server) Host() string { return strings.TrimPrefix(s.URL, "http://") }

// Waiting returns how many requests wait because of a Fault.
func (s *Server) Waiting() int { return int(s.waiting.Load()) }
