package standin

import (
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Break is how an answer breaks off.
type Break string

// Ways to break off.
const (
	Cut   Break = "cut"   // the connection is closed
	Reset Break = "reset" // the same with a TCP reset
	Stall Break = "stall" // nothing more is sent, and the connection stays
)

// Fault is what goes wrong with a chat.
type Fault struct {
	Status     int           // answered instead of anything else
	RetryAfter time.Duration // said with Status, in whole seconds
	Delay      time.Duration // before anything is sent, in the seat
	Pause      time.Duration // in the middle of the answer
	Break      Break
	Midway     bool // it breaks off in the middle of an answer of two pieces or more, and not before anything is sent
	Say        int  // so many bytes of text instead of the answer
}

// Rule says which chats a fault strikes.
type Rule struct {
	Task  string // part of the last line of what the user said; empty is any
	Role  string // of the last message: user, tool; empty is any
	Times int    // the first so many; 0 is all
	Fault Fault
}

type rule struct {
	Rule
	struck int
}

// Strike adds a rule. Of those that fit a chat the first strikes.
func (s *Server) Strike(r Rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = append(s.rules, &rule{Rule: r})
}

// Heal takes all rules away.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = nil
}

func (s *Server) strike(q request) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rules {
		if r.Times > 0 && r.struck == r.Times || r.Role != "" && r.Role != q.last().Role || !strings.Contains(q.task(), r.Task) {
			continue
		}
		r.struck++
		return r.Fault
	}
	return Fault{}
}

// refuse answers with the status of f.
func (f Fault) refuse(w http.ResponseWriter) {
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(f.RetryAfter/time.Second)))
	}
	refuse(w, f.Status, "server busy, please try again.  maximum pending requests exceeded")
}

func (s *Server) breakOff(w http.ResponseWriter, r *http.Request, how Break) {
	if how == Stall {
		s.hang(r.Context())
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // not a connection that can be taken: close it
	}
	if tcp, ok := conn.(*net.TCPConn); ok && how == Reset {
		_ = tcp.SetLinger(0)
	}
	conn.Close()
}
