package standin

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"qq/internal/standin/form"
)

// Prompt is the part of a chat request that the server reads; see [form.Prompt].
type Prompt = form.Prompt

// Message is one message of a [Prompt].
type Message = form.Message

// EchoLast returns the last line of the last user message.
func EchoLast(p Prompt) string {
	text := strings.TrimSpace(p.Last("user"))
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// answer is the state of one answer of the server.
type answer struct {
	path   string
	form   form.Form
	prompt Prompt
	model  *Model
	text   string
	pieces []form.Piece // contents of the lines; nil means the words of text
	loop   bool
	fault  *Fault
	seats  chan struct{} // nil: it need not wait for one
	tokens int           // of the prompt
	size   int           // num_ctx
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

func (s *Server) chat(plain http.ResponseWriter, r *http.Request, f form.Form, mem *scratch) {
	a := &answer{came: time.Now(), path: r.URL.Path, form: f}
	err := f.Read(r, mem.in.Bytes(), &a.prompt)
	w, whole := &statusWriter{ResponseWriter: plain}, false
	entry := s.log.chat(Chat{
		Task: EchoLast(a.prompt), Role: a.prompt.LastRole(), Model: a.prompt.Model,
		From: r.RemoteAddr, Size: mem.in.Len(), Came: a.came,
	})
	defer func() { s.log.ended(entry, w.status, whole) }()
	if err != nil {
		fail(w, f, http.StatusBadRequest, err.Error())
		return
	}
	if a.model = s.model(a.prompt.Model); a.model == nil {
		fail(w, f, http.StatusNotFound, "model '"+a.prompt.Model+"' not found")
		return
	}
	hasTools := len(a.prompt.Tools) > 0 && !bytes.Equal(a.prompt.Tools, []byte("null"))
	if !hasTools {
		a.prompt.Tools = nil
	}
	switch {
	case hasTools && !a.model.can("tools"):
		fail(w, f, http.StatusBadRequest, "registry.ollama.ai/library/"+a.model.Name+" does not support tools")
		return
	case a.prompt.Think != nil && a.prompt.Think != false && !a.model.can("thinking"):
		fail(w, f, http.StatusBadRequest, strconv.Quote(a.prompt.Model)+" does not support thinking")
		return
	}
	a.seats = s.seats
	if s.byName {
		s.chooseByName(a, mem.in.Len())
	} else {
		if !s.fitPrompt(a) {
			fail(w, f, http.StatusBadRequest, "the input length exceeds the context length")
			return
		}
		s.choose(a)
	}
	if a.fault.Status != 0 {
		failStatus(w, f, a.fault)
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
		a.fault = s.strike(a.path, &a.prompt)
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
		s.breakOff(w, r, f, a.form, false)
		return false
	}
	o := &form.Output{Buf: mem.out[:0], Odd: form.Documented(), Model: a.prompt.Model, Tokens: a.tokens,
		Cached: min(a.model.Cached, a.tokens),
		Came:   a.came, Taken: taken, Started: time.Now().UTC()}
	defer func() { mem.out = o.Buf }() // the buffer may have grown
	var odd *Oddities
	if s.odd != nil {
		odd = s.odd(a.prompt)
		o.Odd = &odd.Oddities
	}
	w.Header().Set("Content-Type", a.form.ContentType())
	reason, broken := s.stream(w, r, a, o)
	if broken {
		_ = flush(w, o)
		s.breakOff(w, r, f, a.form, true)
		return false
	}
	if reason == "" {
		return false
	}
	a.form.Last(o, reason)
	if odd != nil {
		return s.sendOddly(w, r, odd, o, a.form)
	}
	_, err := w.Write(o.Buf)
	return err == nil
}

// maxBuffer is how many bytes of an answer are collected before they are sent.
const maxBuffer = 1 << 20

// stream sends the words of a. reason says why they ended; it is "" if the client or the server is gone, or if the
// answer must break off. broken says that it must break off now.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, a *answer, o *form.Output) (reason string,
	broken bool) {
	between := a.fault.Between
	if a.loop && between == 0 {
		between = time.Millisecond // endless, but not at full speed
	}
	if s.odd != nil {
		between = 0
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
	half := o.Odd.HalfCall && form.CutLast(pieces)
	for i := 0; ; i++ {
		switch {
		case i == len(pieces) && !a.loop:
			if half {
				return "length", false
			}
			return "stop", a.fault.Break != "" // the text was shorter than After
		case a.tokens+o.Said >= a.size, a.prompt.Options.NumPredict > 0 && o.Said >= a.prompt.Options.NumPredict:
			return "length", false
		}
		if pause := o.Said > 0 && between != 0; pause || len(o.Buf) > maxBuffer && s.odd == nil {
			if flush(w, o) != nil || pause && !s.wait(r, between) {
				return "", false
			}
		}
		a.form.Add(o, pieces[i%len(pieces)])
		o.Said++
		if a.fault.Break != "" && o.Said >= a.fault.After {
			return "", true
		}
	}
}

// flush sends what was collected.
func flush(w http.ResponseWriter, o *form.Output) error {
	_, err := w.Write(o.Buf)
	o.Buf = o.Buf[:0]
	if err == nil {
		err = http.NewResponseController(w).Flush()
	}
	return err
}
