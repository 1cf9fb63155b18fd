package standin

import (
	"bytes"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"qq/internal/standin/form"
)

// Request is a request as the server received it.
type Request struct {
	Method, Path string
	Header       http.Header
	Body         []byte
}

// Prompt decodes the body of a chat request; for other requests it is empty.
func (r Request) Prompt() Prompt {
	var p Prompt
	if f := form.Of(r.Method, r.Path); f != nil {
		_ = f.Read(&http.Request{URL: &url.URL{Path: r.Path}}, r.Body, &p) // what is no chat gives no messages
	}
	return p
}

// Chat records one chat request.
type Chat struct {
	Task  string // the last line of what the user said
	Role  string // of the last message
	Model string
	From  string // the address of the client
	Size  int    // bytes of the request
	Came  time.Time
	Ended time.Time // when the server was done with it; zero while it is not
	// Status is the HTTP status of the answer; 0 if there was none.
	Status int
	Whole  bool // the answer was sent to its end
}

// log holds the requests that the server remembers, and the rules for faults.
type log struct {
	bodies bool // keep requests

	mu       sync.Mutex
	counts   map[string]int
	requests []Request
	chats    []Chat
	rules    []*Rule
}

func (l *log) request(r *http.Request, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[r.URL.Path]++
	if l.bodies {
		l.requests = append(l.requests, Request{r.Method, r.URL.Path, r.Header.Clone(), bytes.Clone(body)})
	}
}

// chat records c and returns its number, for ended.
func (l *log) chat(c Chat) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.chats = append(l.chats, c)
	return len(l.chats) - 1
}

func (l *log) ended(i, status int, whole bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i < len(l.chats) { // otherwise Forget has dropped it
		c := &l.chats[i]
		c.Ended, c.Status, c.Whole = time.Now(), status, whole
	}
}

// Count returns how many requests for path the server has received.
func (s *Server) Count(path string) int {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return s.log.counts[path]
}

// Asked returns how many chats the server was asked for, in whatever form.
func (s *Server) Asked() int {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return len(s.log.chats)
}

// Requests returns the requests for path in the order of their arrival; an empty path means all.
func (s *Server) Requests(path string) []Request {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	var some []Request
	for _, r := range s.log.requests {
		if path == "" || r.Path == path {
			some = append(some, r)
		}
	}
	return some
}

// Chats returns all chats so far, in the order of their arrival.
func (s *Server) Chats() []Chat {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return slices.Clone(s.log.chats)
}

// Ended is Chats when all of them have ended: what a client has heard the end of may not have ended yet.
func (s *Server) Ended(t testing.TB) []Chat {
	t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; runtime.Gosched() {
		chats := s.Chats()
		if !slices.ContainsFunc(chats, func(c Chat) bool { return c.Ended.IsZero() }) {
			return chats
		}
	}
	t.Fatal("a chat has not ended")
	return nil
}

// Times returns how many chats each task has had.
func (s *Server) Times() map[string]int {
	n := map[string]int{}
	for _, c := range s.Chats() {
		n[c.Task]++
	}
	return n
}

// Forget drops the recorded requests. No request may be under way.
func (s *Server) Forget() {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	clear(s.log.counts)
	s.log.requests, s.log.chats = nil, nil
}
