package standin

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Request is a request as it came.
type Request struct {
	Method, Path string
	Header       http.Header
	Body         []byte
}

// Prompt reads the body of a chat; it is empty for another one.
func (r Request) Prompt() Prompt {
	var p Prompt
	_ = json.Unmarshal(r.Body, &p) // what is no chat has no messages
	return p
}

// Chat is one request to a model, as the server saw it.
type Chat struct {
	Task  string // the last line of what the user said
	Role  string // of the last message
	Model string
	From  string // the address of the client
	Size  int    // bytes of the request
	Came  time.Time
	Ended time.Time // when the server was done with it; zero while it is not
	// Status is what was answered; 0 when nothing was.
	Status int
	Whole  bool // the answer was sent to its end
}

// log is what the server remembers, and the rules that decide what goes wrong.
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

// chat notes c and returns its number, for ended.
func (l *log) chat(c Chat) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.chats = append(l.chats, c)
	return len(l.chats) - 1
}

func (l *log) ended(i, status int, whole bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i < len(l.chats) { // else it was forgotten
		c := &l.chats[i]
		c.Ended, c.Status, c.Whole = time.Now(), status, whole
	}
}

// Count is the number of requests for path so far.
func (s *Server) Count(path string) int {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return s.log.counts[path]
}

// Requests are the requests in the order of their arrival. path picks some; empty
// means all.
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

// Chats are all chats so far, in the order of their arrival.
func (s *Server) Chats() []Chat {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return slices.Clone(s.log.chats)
}

// Times is how often each task was asked.
func (s *Server) Times() map[string]int {
	n := map[string]int{}
	for _, c := range s.Chats() {
		n[c.Task]++
	}
	return n
}

// Forget drops what is remembered of requests. Nobody may be at work.
func (s *Server) Forget() {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	clear(s.log.counts)
	s.log.requests, s.log.chats = nil, nil
}
