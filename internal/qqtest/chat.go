package qqtest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Prompt is what the server reads of a chat request.
type Prompt struct {
	Model    string    `json:"model"`
	Messages []Message `json:"messages"`
	Options  struct {
		NumCtx     int `json:"num_ctx"`
		NumPredict int `json:"num_predict"`
	} `json:"options"`
	Stream   *bool           `json:"stream"`
	Truncate *bool           `json:"truncate"`
	Think    any             `json:"think"`
	Format   json.RawMessage `json:"format"`
	Tools    json.RawMessage `json:"tools"`
}

// Message is one message of a [Prompt]; a system prompt is the first of them.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	// ToolCalls are what an assistant asked for, as they came.
	ToolCalls json.RawMessage `json:"tool_calls"`
}

// Last is the content of the last message of that role.
func (p Prompt) Last(role string) string {
	for _, m := range slices.Backward(p.Messages) {
		if m.Role == role {
			return m.Content
		}
	}
	return ""
}

// EchoLast answers with the last line of the last user message.
func EchoLast(p Prompt) string {
	text := strings.TrimSpace(p.Last("user"))
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// answer is what the server is about to say.
type answer struct {
	prompt Prompt
	model  *Model
	text   string
	loop   bool
	fault  *Fault
	tokens int // of the prompt
	size   int // num_ctx
	said   int // words so far
	came   time.Time
}

func (s *Server) chat(w http.ResponseWriter, r *http.Request, mem *scratch) {
	n := s.inFlight.Add(1)
	defer s.inFlight.Add(-1)
	for {
		if top := s.maximum.Load(); n <= top || s.maximum.CompareAndSwap(top, n) {
			break
		}
	}
	a := &answer{came: time.Now()}
	if err := json.Unmarshal(mem.in.Bytes(), &a.prompt); err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	if a.model = s.model(a.prompt.Model); a.model == nil {
		fail(w, http.StatusNotFound, "model '"+a.prompt.Model+"' not found")
		return
	}
	hasTools := len(a.prompt.Tools) > 0 && !bytes.Equal(a.prompt.Tools, []byte("null"))
	switch {
	case hasTools && !a.model.can("tools"):
		fail(w, http.StatusBadRequest, "registry.ollama.ai/library/"+a.model.Name+" does not support tools")
		return
	case a.prompt.Think != nil && a.prompt.Think != false && !a.model.can("thinking"):
		fail(w, http.StatusBadRequest, strconv.Quote(a.prompt.Model)+" does not support thinking")
		return
	}
	if !s.fitPrompt(a) {
		fail(w, http.StatusBadRequest, "the input length exceeds the context length")
		return
	}
	s.choose(a)
	if s.strike(a.fault) {
		if a.fault.Status != 0 {
			failStatus(w, a.fault)
			return
		}
	} else {
		a.fault = &Fault{}
	}
	if !hasTools {
		a.prompt.Tools = nil
	}
	if s.enter(r) {
		defer s.leave()
		s.say(w, r, a, mem)
	}
}

// enter waits for a seat, and reports false when the client or the server is gone
// first.
func (s *Server) enter(r *http.Request) bool {
	if s.seats == nil {
		return true
	}
	select {
	case s.seats <- struct{}{}:
		return true
	case <-r.Context().Done():
	case <-s.closing:
	}
	return false
}

func (s *Server) leave() {
	if s.seats != nil {
		<-s.seats
	}
}

// fitPrompt counts the tokens of the prompt of a and cuts it from the front
// when it is too long; it reports false when that was forbidden.
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

// choose finds what to say after the last marker of the prompt, or without one.
func (s *Server) choose(a *answer) {
	a.fault = s.faults["/api/chat"]
	script := s.lastScript(a.prompt.Messages)
	switch {
	case script == nil:
		a.text = s.reply(a.prompt)
	default:
		a.text, a.loop = script.Text, script.Loop
		if script.Fault != nil {
			a.fault = script.Fault
		}
	}
	if len(a.prompt.Format) == 0 || a.model.can("thinking") && a.prompt.Think == nil {
		return
	}
	if !json.Valid([]byte(a.text)) {
		a.text, a.loop = sample(a.prompt.Format), false
	}
}

// lastScript is the script of the last known marker in the messages.
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

// say streams the answer.
func (s *Server) say(w http.ResponseWriter, r *http.Request, a *answer, mem *scratch) {
	f, taken := a.fault, time.Now()
	if !s.wait(r, f.BeforeFirst) {
		return
	}
	if f.Break != "" && f.After == 0 {
		s.breakOff(w, r, f, false)
		return
	}
	o := &output{w: w, buf: mem.out[:0], started: time.Now().UTC(), came: a.came, taken: taken}
	defer func() { mem.out = o.buf }() // it may have grown
	o.model = a.prompt.Model
	o.joined = a.prompt.Stream != nil && !*a.prompt.Stream
	w.Header().Set("Content-Type", "application/x-ndjson")
	reason, broken := s.stream(r, a, o)
	if broken {
		o.flush()
		s.breakOff(w, r, f, true)
		return
	}
	if reason != "" {
		o.last(a, reason)
		_, _ = w.Write(o.buf)
	}
}

// stream sends the words of a. It returns why they ended, which is empty when
// the client or the server is gone, and whether to break off now.
func (s *Server) stream(r *http.Request, a *answer, o *output) (reason string, broken bool) {
	between := a.fault.Between
	if a.loop && between == 0 {
		between = time.Millisecond // without end, but not at full speed
	}
	pieces := s.pieces(a)
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
		if a.said > 0 && between != 0 {
			o.flush()
			if !s.wait(r, between) {
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
