package standin

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Prompt is the part of a chat request that the server reads.
type Prompt struct {
	Model    string    `json:"model"`
	Messages []Message `json:"messages"`
	Options  struct {
		NumCtx     int `json:"num_ctx"`
		NumPredict int `json:"num_predict"`
	} `json:"options"`
	Truncate *bool           `json:"truncate"`
	Think    any             `json:"think"`
	Format   json.RawMessage `json:"format"`
	Tools    json.RawMessage `json:"tools"`
}

// Message is one message of a [Prompt]; a system prompt is the first of them.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	// ToolCalls are the calls that an assistant made, as raw JSON.
	ToolCalls json.RawMessage `json:"tool_calls"`
}

// Last returns the content of the last message of that role.
func (p Prompt) Last(role string) string {
	for _, m := range slices.Backward(p.Messages) {
		if m.Role == role {
			return m.Content
		}
	}
	return ""
}

func (p Prompt) lastRole() string {
	if len(p.Messages) == 0 {
		return ""
	}
	return p.Messages[len(p.Messages)-1].Role
}

// EchoLast returns the last line of the last user message.
func EchoLast(p Prompt) string {
	text := strings.TrimSpace(p.Last("user"))
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// answer is the state of one answer of the server.
type answer struct {
	prompt Prompt
	model  *Model
	text   string
	pieces []piece // contents of the lines; nil means the words of text
	loop   bool
	fault  *Fault
	seats  chan struct{} // nil: it need not wait for one
	tokens int           // of the prompt
	size   int           // num_ctx
	said   int           // words so far
	came   time.Time
}

// statusWriter remembers the status that was sent.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap implements the interface that [http.ResponseController] uses.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (s *Server) chat(plain http.ResponseWriter, r *http.Request, mem *scratch) {
	a := &answer{came: time.Now()}
	err := json.Unmarshal(mem.in.Bytes(), &a.prompt)
	w, whole := &statusWriter{ResponseWriter: plain}, false
	entry := s.log.chat(Chat{
		Task: EchoLast(a.prompt), Role: a.prompt.lastRole(), Model: a.prompt.Model,
		From: r.RemoteAddr, Size: mem.in.Len(), Came: a.came,
	})
	defer func() { s.log.ended(entry, w.status, whole) }()
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	if a.model = s.model(a.prompt.Model); a.model == nil {
		fail(w, http.StatusNotFound, "model '"+a.prompt.Model+"' not found")
		return
	}
	hasTools := len(a.prompt.Tools) > 0 && !bytes.Equal(a.prompt.Tools, []byte("null"))
	if !hasTools {
		a.prompt.Tools = nil
	}
	switch {
	case hasTools && !a.model.can("tools"):
		fail(w, http.StatusBadRequest, "registry.ollama.ai/library/"+a.model.Name+" does not support tools")
		return
	case a.prompt.Think != nil && a.prompt.Think != false && !a.model.can("thinking"):
		fail(w, http.StatusBadRequest, strconv.Quote(a.prompt.Model)+" does not support thinking")
		return
	}
	a.seats = s.seats
	if s.byName {
		s.chooseByName(a, mem.in.Len())
	} else {
		if !s.fitPrompt(a) {
			fail(w, http.StatusBadRequest, "the input length exceeds the context length")
			return
		}
		s.choose(a)
	}
	if a.fault.Status != 0 {
		failStatus(w, a.fault)
		return
	}
	if a.seats != nil {
		select {
		case a.seats <- struct{}{}:
			defer func() { <-a.seats }()
		case <-r.Context().Done():
			return
		case <-s.closing:
			return
		}
	}
	whole = s.say(w, r, a, mem)
}

// fitPrompt counts the tokens of the prompt of a, and removes the beginning of a prompt that is too long. It
// reports false if the request forbids that.
func (s *Server) fitPrompt(a *answer) bool {
	a.size = a.model.Context
	if n := a.prompt.Options.NumCtx; n > 0 {
		a.size = min(a.size, n)
	}
	length := len(a.prompt.Tools)
	for _, m := range a.prompt.Messages {
		length += len(m.Content) + len(m.ToolCalls)
	}
	a.tokens = (length + a.model.TokenBytes - 1) / a.model.TokenBytes
	if a.tokens <= a.size {
		return true
	}
	if a.prompt.Truncate != nil && !*a.prompt.Truncate && !s.alwaysCut {
		return false
	}
	excess := (a.tokens - a.size) * a.model.TokenBytes
	for i := range a.prompt.Messages {
		m := &a.prompt.Messages[i]
		n := min(excess, len(m.Content))
		m.Content = m.Content[n:]
		excess -= n
	}
	a.tokens = a.size
	return true
}

// choose selects the answer: the script of the last marker in the prompt or, without a marker, what s.reply
// returns.
func (s *Server) choose(a *answer) {
	var own *Fault
	if script := s.lastScript(a.prompt.Messages); script != nil {
		a.text, a.loop, own = script.Text, script.Loop, script.Fault
	} else {
		a.text = s.reply(a.prompt)
	}
	if own == nil {
		a.fault = s.strike("/api/chat", a.prompt)
	} else if s.inForce(own) {
		a.fault = own
	}
	if a.fault == nil {
		a.fault = &Fault{}
	}
	if len(a.prompt.Format) == 0 || a.model.can("thinking") && a.prompt.Think == nil {
		return
	}
	if !json.Valid([]byte(a.text)) {
		a.text, a.loop = sample(a.prompt.Format), false
	}
}

// lastScript returns the script of the last known marker in the messages, or nil.
func (s *Server) lastScript(messages []Message) *Script {
	if len(s.scripts) == 0 {
		return nil
	}
	for _, m := range slices.Backward(messages) {
		if script := s.lastIn(string(m.ToolCalls)); script != nil {
			return script
		}
		if script := s.lastIn(m.Content); script != nil {
			return script
		}
	}
	return nil
}

func (s *Server) lastIn(text string) *Script {
	for end := len(text); ; {
		i := strings.LastIndex(text[:end], "[[")
		if i < 0 {
			return nil
		}
		if n := strings.Index(text[i:], "]]"); n > 0 {
			if script := s.scripts[text[i:i+n+2]]; script != nil {
				return script
			}
		}
		end = i
	}
}

// say streams the answer, and reports whether all of it was sent.
func (s *Server) say(w http.ResponseWriter, r *http.Request, a *answer, mem *scratch) (whole bool) {
	f, taken := a.fault, time.Now()
	if !s.wait(r, f.BeforeFirst) {
		return false
	}
	if f.Break != "" && f.After == 0 {
		s.breakOff(w, r, f, false)
		return false
	}
	o := &output{w: w, buf: mem.out[:0], model: a.prompt.Model, started: time.Now().UTC(), came: a.came, taken: taken}
	defer func() { mem.out = o.buf }() // the buffer may have grown
	w.Header().Set("Content-Type", "application/x-ndjson")
	reason, broken := s.stream(r, a, o)
	if broken {
		o.flush()
		s.breakOff(w, r, f, true)
		return false
	}
	if reason == "" {
		return false
	}
	o.last(a, reason)
	_, err := w.Write(o.buf)
	return err == nil
}

// maxBuffer is how many bytes of an answer are collected before they are sent.
const maxBuffer = 1 << 20

// stream sends the words of a. reason says why they ended; it is "" if the client or the server is gone, or if the
// answer must break off. broken says that it must break off now.
func (s *Server) stream(r *http.Request, a *answer, o *output) (reason string, broken bool) {
	between := a.fault.Between
	if a.loop && between == 0 {
		between = time.Millisecond // endless, but not at full speed
	}
	pieces := a.pieces
	if a.fault.Say > 0 {
		pieces = filler(a.fault.Say)
	} else if pieces == nil {
		pieces = s.words(a)
	}
	if len(pieces) == 0 {
		return "stop", a.fault.Break != ""
	}
	for i := 0; ; i++ {
		switch {
		case i == len(pieces) && !a.loop:
			return "stop", a.fault.Break != "" // the text was shorter than After
		case a.tokens+a.said >= a.size, a.prompt.Options.NumPredict > 0 && a.said >= a.prompt.Options.NumPredict:
			return "length", false
		}
		if pause := a.said > 0 && between != 0; pause || len(o.buf) > maxBuffer {
			if o.flush() != nil || pause && !s.wait(r, between) {
				return "", false
			}
		}
		o.add(pieces[i%len(pieces)])
		a.said++
		if a.fault.Break != "" && a.said >= a.fault.After {
			return "", true
		}
	}
}
