package standin

import (
	"maps"
	"net"
	"net/http"
	"strings"
	"time"

	"qq/internal/standin/form"
)

// Break is a way in which an answer breaks off.
type Break string

// Ways to break off.
const (
	// End ends the response without an error and without the final line, as the real server does
	// when a model repeats itself.
	End Break = "end"
	// Cut closes the connection in the middle of the response.
	Cut Break = "cut"
	// Reset closes the connection with a TCP reset.
	Reset Break = "reset"
	// Stall keeps the connection open and sends nothing more.
	Stall Break = "stall"
	// ErrorLine sends an error in the stream and ends, as the real server does when the process that
	// runs the model dies.
	ErrorLine Break = "error_line"
)

// Fault is a misbehaviour of the server. A Status replaces the answer to any request; all other
// fields concern chats.
type Fault struct {
	Status int         `json:"status,omitempty"`
	Header http.Header `json:"header,omitempty"` // sent with Status
	Error  string      `json:"error,omitempty"`  // text for Status and ErrorLine
	// Body is sent with Status, unchanged, instead of Error as JSON.
	Body string `json:"body,omitempty"`
	// Times is how many requests the fault affects; 0 means all.
	Times int `json:"times,omitempty"`

	BeforeFirst time.Duration `json:"before_first,omitempty"` // wait before anything is sent
	Between     time.Duration `json:"between,omitempty"`      // wait between words
	// Break breaks the answer off after After words; after 0 words not even
	// the header of the response is sent.
	Break Break `json:"break,omitempty"`
	After int   `json:"after,omitempty"`
	Say   int   `json:"say,omitempty"` // so many bytes of text instead of the answer

	struck int // how often it has struck
}

// Rule says which requests a fault affects.
type Rule struct {
	Path  string // empty is any chat
	Task  string // part of the last line of what the user said; empty is any
	Role  string // of the last message: user, tool; empty is any
	Fault Fault
}

// Strike adds a rule. The first rule that matches a request and is not used up affects it.
func (s *Server) Strike(r Rule) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.rules = append(s.log.rules, &r)
}

// Heal removes all rules.
func (s *Server) Heal() {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.rules = nil
}

// strike returns the fault that affects a request, or nil. p is nil for what is no chat.
func (s *Server) strike(path string, p *Prompt) *Fault {
	task, role := "", ""
	if p != nil {
		task, role = EchoLast(*p), p.LastRole()
	}
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	for _, r := range s.log.rules {
		if (r.Path == path || r.Path == "" && p != nil) && (r.Role == "" || r.Role == role) &&
			strings.Contains(task, r.Task) && r.Fault.inForce() {
			return &r.Fault
		}
	}
	return nil
}

// inForce reports whether f affects one more request, and counts that request. The caller holds the mutex of the
// log.
func (f *Fault) inForce() bool {
	f.struck++
	return f.Times == 0 || f.struck <= f.Times
}

func (s *Server) inForce(f *Fault) bool {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return f.inForce()
}

// failStatus sends the status of f.
func failStatus(w http.ResponseWriter, as form.Form, f *Fault) {
	maps.Copy(w.Header(), f.Header)
	if f.Body != "" {
		w.WriteHeader(f.Status)
		_, _ = w.Write([]byte(f.Body))
		return
	}
	fail(w, as, f.Status, f.Error)
}

// fail sends an error in that form; without a message the body is empty.
func fail(w http.ResponseWriter, as form.Form, status int, message string) {
	if message == "" {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(as.Failure(status, message))
}

// wait waits for d. It reports false if the client or the server ends first. A negative d means
// forever.
func (s *Server) wait(r *http.Request, d time.Duration) bool {
	if d == 0 {
		return true
	}
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	var passed <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		passed = timer.C
	}
	select {
	case <-passed:
		return true
	case <-r.Context().Done():
	case <-s.closing:
	}
	return false
}

// breakOff ends a response in the way that f.Break says. sent tells whether the header of the response was sent.
func (s *Server) breakOff(w http.ResponseWriter, r *http.Request, f *Fault, as form.Form, sent bool) {
	switch f.Break {
	case End:
		return
	case ErrorLine:
		if !sent {
			fail(w, as, http.StatusInternalServerError, f.Error)
			return
		}
		_, _ = w.Write(as.Failure(0, f.Error))
		return
	case Stall:
		s.wait(r, -1)
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // the connection cannot be taken over: let the server close it
	}
	if tcp, ok := conn.(*net.TCPConn); ok && f.Break == Reset {
		_ = tcp.SetLinger(0)
	}
	conn.Close()
}
