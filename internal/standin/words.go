package standin

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// piece is the content of one line of a stream: text, thinking or a call.
type piece struct {
	text, thinking string
	call           *call
}

type call struct {
	ID       string `json:"id,omitempty"`
	Function struct {
		Index     int             `json:"index"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

const (
	callOpen, callClose   = "<tool_call>", "</tool_call>"
	thinkOpen, thinkClose = "<think>", "</think>"
)

// words splits the text of a into pieces: thinking (if the request enables it), words, and tool
// calls (if the request offers tools).
func (s *Server) words(a *answer) []piece {
	text := a.text
	var out []piece
	if a.model.can("thinking") && a.prompt.Think != false {
		if rest, ok := strings.CutPrefix(text, thinkOpen); ok {
			if thought, after, ok := strings.Cut(rest, thinkClose); ok {
				for _, w := range words(thought) {
					out = append(out, piece{thinking: w})
				}
				text = after
			}
		}
	}
	if a.prompt.Tools == nil || !strings.Contains(text, callOpen) {
		for _, w := range words(text) {
			out = append(out, piece{text: w})
		}
		return out
	}
	before, rest, _ := strings.Cut(text, callOpen)
	for _, w := range words(before) {
		out = append(out, piece{text: w})
	}
	return append(out, s.calls(rest, toolNames(a.prompt.Tools))...)
}

// calls parses the tool calls in text. A call that is cut off, malformed or not offered is dropped silently, with
// everything after it.
func (s *Server) calls(text string, offered map[string]bool) []piece {
	var out []piece
	for i, part := range strings.Split(text, callOpen) {
		source, _, closed := strings.Cut(part, callClose)
		var asked struct {
			Name      string
			Arguments json.RawMessage
		}
		if !closed || json.Unmarshal([]byte(source), &asked) != nil || !offered[asked.Name] {
			break
		}
		c := &call{}
		if !s.noCallIDs {
			c.ID = "call_" + strconv.FormatInt(s.callIDs.Add(1), 36)
		}
		c.Function.Index, c.Function.Name, c.Function.Arguments = i, asked.Name, asked.Arguments
		if c.Function.Arguments == nil {
			c.Function.Arguments = json.RawMessage("{}")
		}
		out = append(out, piece{call: c})
	}
	return out
}

func toolNames(tools json.RawMessage) map[string]bool {
	var list []struct{ Function struct{ Name string } }
	names := map[string]bool{}
	if json.Unmarshal(tools, &list) == nil {
		for _, t := range list {
			names[t.Function.Name] = true
		}
	}
	return names
}

// words cuts text before every space, so that it streams word by word.
func words(text string) []string {
	if text == "" {
		return nil
	}
	out := make([]string, 0, 1+strings.Count(text, " "))
	for {
		i := strings.IndexByte(text[1:], ' ')
		if i < 0 {
			return append(out, text)
		}
		out = append(out, text[:i+1])
		text = text[i+1:]
	}
}

// output collects the lines of an answer until flush sends them, which is at the latest before each pause.
type output struct {
	w       http.ResponseWriter
	buf     []byte
	model   string
	came    time.Time // when the request arrived
	taken   time.Time // when its wait for a seat ended
	started time.Time // when the answer began
}

func (o *output) add(p piece) {
	o.head(p)
	o.buf = append(o.buf, ",\"done\":false}\n"...)
}

// flush sends the collected lines.
func (o *output) flush() error {
	_, err := o.w.Write(o.buf)
	o.buf = o.buf[:0]
	if err == nil {
		err = http.NewResponseController(o.w).Flush()
	}
	return err
}

// last appends the final line with its durations. As in Ollama, the total duration counts from the arrival of the
// request, the others from the end of its wait for a seat. Numbers that are zero are left out.
func (o *output) last(a *answer, reason string) {
	now := time.Now()
	load, read, write := int64(1), o.started.Sub(o.taken).Nanoseconds()+1, now.Sub(o.started).Nanoseconds()+1
	total := load + read + write + o.taken.Sub(o.came).Nanoseconds()
	o.head(piece{})
	b := append(o.buf, `,"done":true,"done_reason":"`...)
	b = append(b, reason...)
	b = append(b, '"')
	for _, figure := range [...]struct {
		name  string
		value int64
	}{
		{"total_duration", total}, {"load_duration", load}, {"prompt_eval_count", int64(a.tokens)},
		{"prompt_eval_duration", read}, {"eval_count", int64(a.said)}, {"eval_duration", write},
	} {
		if figure.value != 0 {
			b = append(append(append(b, `,"`...), figure.name...), `":`...)
			b = strconv.AppendInt(b, figure.value, 10)
		}
	}
	o.buf = append(b, "}\n"...)
}

// head appends the beginning that all lines share: the object up to and with the message.
func (o *output) head(p piece) {
	b := append(o.buf, `{"model":`...)
	b = appendString(b, o.model)
	b = append(b, `,"created_at":"`...)
	b = o.started.AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","message":{"role":"assistant","content":`...)
	b = appendString(b, p.text)
	if p.thinking != "" {
		b = append(b, `,"thinking":`...)
		b = appendString(b, p.thinking)
	}
	if p.call != nil {
		encoded, err := json.Marshal([]*call{p.call})
		if err != nil { // cannot happen: the arguments were decoded before
			panic(err)
		}
		b = append(b, `,"tool_calls":`...)
		b = append(b, encoded...)
	}
	o.buf = append(b, '}')
}
