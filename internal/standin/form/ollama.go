package form

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// Ollama is the form of Ollama's own chats: lines of JSON.
type Ollama struct{}

// Read implements [Form].
func (Ollama) Read(_ *http.Request, body []byte, p *Prompt) error { return json.Unmarshal(body, p) }

// ContentType implements [Form].
func (Ollama) ContentType() string { return "application/x-ndjson" }

// Add implements [Form].
func (f Ollama) Add(o *Output, p Piece) {
	f.head(o, p)
	o.write(`,"done":false}`)
	o.newline()
}

// Failure implements [Form].
func (Ollama) Failure(_ int, message string) []byte {
	b := AppendString([]byte(`{"error":`), message)
	return append(b, "}\n"...)
}

// Last implements [Form]. As in Ollama, the total duration counts from the arrival of the request, the others from the
// end of its wait for a seat. Numbers that are zero are left out.
func (f Ollama) Last(o *Output, reason string) {
	if o.Odd.NoEnd {
		return
	}
	now := time.Now()
	load, read, write := int64(1), o.Started.Sub(o.Taken).Nanoseconds()+1, now.Sub(o.Started).Nanoseconds()+1
	total := load + read + write + o.Taken.Sub(o.Came).Nanoseconds()
	f.head(o, Piece{})
	b := append(o.Buf, `,"done":true,"done_reason":"`...)
	b = append(b, reason...)
	b = append(b, '"')
	for _, figure := range [...]struct {
		name  string
		value int64
	}{
		{"total_duration", total}, {"load_duration", load}, {"prompt_eval_count", int64(o.Tokens)},
		{"prompt_eval_duration", read}, {"eval_count", int64(o.Said)}, {"eval_duration", write},
	} {
		if figure.value != 0 && !o.Odd.NoUsage {
			b = append(append(append(b, `,"`...), figure.name...), `":`...)
			b = strconv.AppendInt(b, figure.value, 10)
		}
	}
	o.Buf = append(b, '}')
	o.Mark = len(o.Buf) // the line ends with the object
	o.newline()
}

// head writes the beginning that all lines share: the object up to and with the message.
func (Ollama) head(o *Output, p Piece) {
	o.Odd.between(o, true)
	b := append(o.Buf, `{"model":`...)
	b = AppendString(b, o.Model)
	b = append(b, `,"created_at":"`...)
	b = o.Started.AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","message":{"role":"assistant","content":`...)
	b = AppendString(b, p.Text)
	if p.Thinking != "" {
		b = append(b, `,"thinking":`...)
		b = AppendString(b, p.Thinking)
	}
	if p.Call != nil {
		encoded, err := json.Marshal([]ollamaCall{{p.Call.ID,
			ollamaFunction{p.Call.Index, p.Call.Name, p.Call.Arguments}}})
		if err != nil { // cannot happen: the arguments were decoded before
			panic(err)
		}
		b = append(b, `,"tool_calls":`...)
		b = append(b, encoded...)
	}
	o.Buf = append(b, '}')
}

type ollamaCall struct {
	ID       string         `json:"id,omitempty"`
	Function ollamaFunction `json:"function"`
}

type ollamaFunction struct {
	Index     int             `json:"index"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}
