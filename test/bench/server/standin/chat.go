package standin

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// piece is the most text in one line of a stream.
const piece = 64 << 10

// line is one line of a stream.
type line struct {
	Model     string    `json:"model"`
	CreatedAt time.Time `json:"created_at"`
	Message   struct {
		Role      string     `json:"role"`
		Content   string     `json:"content"`
		ToolCalls []toolCall `json:"tool_calls,omitempty"`
	} `json:"message"`
	Done               bool          `json:"done"`
	DoneReason         string        `json:"done_reason,omitempty"`
	TotalDuration      time.Duration `json:"total_duration,omitempty"`
	LoadDuration       time.Duration `json:"load_duration,omitempty"`
	PromptEvalCount    int           `json:"prompt_eval_count,omitempty"`
	PromptEvalDuration time.Duration `json:"prompt_eval_duration,omitempty"`
	EvalCount          int           `json:"eval_count,omitempty"`
	EvalDuration       time.Duration `json:"eval_duration,omitempty"`
}

// model is what the name of a model says.
type model struct {
	kind string
	n    int // milliseconds, or bytes
}

// parse reads the name of a model; known tells whether there is such a one.
func parse(name string) (m model, known bool) {
	name = strings.TrimSuffix(name, ":latest")
	m.kind = strings.TrimRight(name, "0123456789")
	m.n, _ = strconv.Atoi(name[len(m.kind):])
	switch m.kind {
	case "fast", "script", "hang", "busy":
		return m, m.kind == name
	case "echo":
		return m, true
	case "slow", "one", "say":
		return m, m.n > 0
	}
	return m, false
}

// request is what the server reads of a chat.
type request struct {
	Model    string
	Messages []message
	from     string
	size     int // of the body
	came     time.Time
	taken    time.Time // the end of its wait in the queue
}

// last is the last message.
func (q request) last() message {
	if len(q.Messages) == 0 {
		return message{}
	}
	return q.Messages[len(q.Messages)-1]
}

// task is the last line of the last message of the user.
func (q request) task() string {
	for i := len(q.Messages) - 1; i >= 0; i-- {
		if m := q.Messages[i]; m.Role == "user" {
			text := strings.TrimSpace(m.Content)
			return text[strings.LastIndexByte(text, '\n')+1:]
		}
	}
	return ""
}

func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	q := request{from: r.RemoteAddr, came: time.Now()}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		q.size = len(body)
		err = json.Unmarshal(body, &q)
	}
	status, whole, done := 0, false, s.note(q)
	defer func() { done(status, whole) }()
	if err != nil {
		status = http.StatusBadRequest
		refuse(w, status, err.Error())
		return
	}
	m, known := parse(q.Model)
	if !known {
		status = http.StatusNotFound
		refuse(w, status, unknown(q.Model))
		return
	}
	fault := s.strike(q)
	if m.kind == "busy" && fault.Status == 0 {
		fault.Status = http.StatusServiceUnavailable
	}
	if status = fault.Status; status != 0 {
		fault.refuse(w)
		return
	}
	leave, ok := s.enter(r.Context(), m)
	if !ok {
		return
	}
	defer leave()
	q.taken, status = time.Now(), http.StatusOK
	whole = s.serve(w, r, q, m, fault)
}

// enter waits for a seat.
func (s *Server) enter(ctx context.Context, m model) (leave func(), ok bool) {
	seats := s.seats
	if m.kind == "one" {
		seats = s.one
	}
	if seats == nil {
		return func() {}, true
	}
	select {
	case seats <- struct{}{}:
		return func() { <-seats }, true
	case <-ctx.Done():
		return nil, false
	}
}

// serve answers q, and reports whether all of the answer was sent.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, q request, m model, fault Fault) (whole bool) {
	if !s.delay(r.Context(), fault.Delay) {
		return false
	}
	texts, calls := []string{"One", " two", " three."}, []toolCall(nil)
	switch m.kind {
	case "slow", "one", "echo":
		if m.kind == "echo" {
			texts = []string{"You said:", " " + q.task()}
		}
		if !wait(r.Context(), time.Duration(m.n)*time.Millisecond) {
			return false
		}
	case "say":
		texts = pieces(m.n)
	case "script":
		var err error
		if texts, calls, err = play(q.Messages); err != nil {
			refuse(w, http.StatusBadRequest, err.Error())
			return false
		}
	case "hang":
		s.hang(r.Context())
		return false
	}
	if fault.Say > 0 {
		texts = pieces(fault.Say)
	}
	return s.stream(w, r, q, texts, calls, fault)
}

func (s *Server) hang(ctx context.Context) {
	s.waiting.Add(1)
	<-ctx.Done()
	s.waiting.Add(-1)
}

// delay is a wait that Waiting counts.
func (s *Server) delay(ctx context.Context, d time.Duration) bool {
	if d > 0 {
		s.waiting.Add(1)
		defer s.waiting.Add(-1)
	}
	return wait(ctx, d)
}

// wait lets d pass, and reports false when the client or the server is gone
// first.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// pieces are n bytes of text; all but the last are one string.
func pieces(n int) []string {
	whole := strings.Repeat("All work and no play. ", piece/22+1)[:piece]
	var texts []string
	for ; n > piece; n -= piece {
		texts = append(texts, whole)
	}
	return append(texts, whole[:n])
}

// stream sends the answer, and in the middle of it what goes wrong.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, q request, texts []string, calls []toolCall, fault Fault) (whole bool) {
	if fault.Break != "" && !fault.Midway {
		s.breakOff(w, r, fault.Break)
		return false
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	lines := json.NewEncoder(w)
	l := line{Model: q.Model, CreatedAt: time.Now().UTC()}
	l.Message.Role = "assistant"
	for i, text := range texts {
		if i == (len(texts)+1)/2 && (fault.Break != "" || fault.Pause > 0) {
			_ = http.NewResponseController(w).Flush()
			if fault.Break != "" {
				s.breakOff(w, r, fault.Break)
				return false
			}
			if !s.delay(r.Context(), fault.Pause) {
				return false
			}
		}
		l.Message.Content = text
		if lines.Encode(l) != nil {
			return false // the client went away
		}
	}
	l.Message.Content, l.Message.ToolCalls = "", calls
	l.Done, l.DoneReason, l.PromptEvalCount, l.EvalCount = true, "stop", max(q.size/4, 1), len(texts)
	// As Ollama counts: the whole from the arrival, the parts from where the queue
	// ended. Reading the prompt takes a tenth here.
	served := time.Since(q.taken)
	l.LoadDuration, l.PromptEvalDuration = 1, served/10+1
	l.EvalDuration = max(served-l.PromptEvalDuration, 1)
	l.TotalDuration = time.Since(q.came) + 3
	return lines.Encode(l) == nil
}
