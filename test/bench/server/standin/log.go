package standin

import (
	"slices"
	"time"
)

// Chat is one request to a model, as the server saw it.
type Chat struct {
	Task  string // the last line of what the user said
	Role  string // of the last message
	Model string
	From  string // the address of the client
	Size  int    // of the body, in bytes
	Came  time.Time
	// Ended is when the server was done with it; zero while it is not.
	Ended time.Time
	// Status is what was answered; 0 when nothing was.
	Status int
	// Whole tells that the answer was sent to its end.
	Whole bool
}

// note keeps that q came; the function that it returns, how it ended.
func (s *Server) note(q request) (done func(status int, whole bool)) {
	if !s.logged {
		return func(int, bool) {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := len(s.chats)
	s.chats = append(s.chats, Chat{
		Task: q.task(), Role: q.last().Role, Model: q.Model, From: q.from, Size: q.size, Came: q.came,
	})
	return func(status int, whole bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		c := &s.chats[i]
		c.Ended, c.Status, c.Whole = time.Now(), status, whole
	}
}

// Chats are all chats so far, in the order of their arrival.
func (s *Server) Chats() []Chat {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.chats)
}

// Count is how many chats came so far.
func (s *Server) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.chats)
}

// Times is how often each task was asked.
func (s *Server) Times() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := map[string]int{}
	for _, c := range s.chats {
		n[c.Task]++
	}
	return n
}

// Forget drops what is kept of chats. Nobody may be at work.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chats = nil
}
