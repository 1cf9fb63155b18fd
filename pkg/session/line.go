package session

import (
	"bytes"
	"encoding/json"

	"qq/pkg/llm"
	"qq/pkg/task"
)

// line is a JSON object under construction. encoding/json analyses a struct on first use, which costs a child more
// than all that it says: so what is in every transcript is written field by field.
type line struct {
	bytes.Buffer
	enc *json.Encoder
	err error
}

func newLine() *line {
	l := &line{}
	l.enc = json.NewEncoder(&l.Buffer)
	l.enc.SetEscapeHTML(false) // so that code stays readable
	return l
}

// value adds v, which is no struct of ours.
func (l *line) value(v any) {
	if err := l.enc.Encode(v); err != nil {
		l.err = err
		return
	}
	l.Truncate(l.Len() - 1) // the encoder ends each value with a newline
}

// field adds a field, if it is wanted.
func (l *line) field(wanted bool, name string, v any) {
	if !wanted {
		return
	}
	if l.Bytes()[l.Len()-1] != '{' {
		l.WriteByte(',')
	}
	l.WriteString(`"` + name + `":`)
	l.value(v)
}

// header adds h as encoding/json does.
func (l *line) header(h Header) {
	l.WriteByte('{')
	l.field(true, "v", h.V)
	l.field(true, "id", h.ID)
	l.field(h.Agent != "", "agent", h.Agent)
	l.field(h.Model != "", "model", h.Model)
	l.field(h.Dir != "", "dir", h.Dir)
	l.field(true, "created", h.Created)
	l.field(h.Parent != "", "parent", h.Parent)
	l.field(h.Batch != "", "batch", h.Batch)
	l.field(h.Depth != 0, "depth", h.Depth)
	l.WriteByte('}')
}

// entry adds e as encoding/json does.
func (l *line) entry(e llm.Entry) {
	l.WriteByte('{')
	l.field(true, "time", e.Time)
	l.field(true, "role", string(e.Role))
	l.field(true, "content", e.Content)
	l.field(e.Thinking != "", "thinking", e.Thinking)
	for i, c := range e.Calls {
		l.WriteString(map[bool]string{true: `,"calls":[{`, false: `,{`}[i == 0])
		l.field(c.ID != "", "id", c.ID)
		l.field(true, "name", c.Name)
		l.field(true, "arguments", c.Arguments)
		l.field(c.Signature != "", "signature", c.Signature)
		l.WriteByte('}')
	}
	if len(e.Calls) > 0 {
		l.WriteByte(']')
	}
	l.field(e.CallID != "", "call_id", e.CallID)
	l.field(e.Tool != "", "tool", e.Tool)
	l.field(len(e.Images) > 0, "images", e.Images)
	if u := e.Usage; u != (task.Usage{}) {
		l.WriteString(`,"usage":{`)
		l.field(true, "input_tokens", u.InputTokens)
		l.field(true, "output_tokens", u.OutputTokens)
		l.field(u.CachedTokens != 0, "cached_tokens", u.CachedTokens)
		l.field(u.Cost != 0, "cost", u.Cost)
		l.field(u.PricedTokens != 0, "priced_tokens", u.PricedTokens)
		l.WriteByte('}')
	}
	l.field(!e.Started.IsZero(), "started", e.Started)
	l.field(e.DurationMS != 0, "duration_ms", e.DurationMS)
	l.field(e.FirstMS != 0, "first_ms", e.FirstMS)
	l.field(e.Failed, "failed", e.Failed)
	l.field(e.Run != "", "run", e.Run)
	l.field(e.Attempt != 0, "attempt", e.Attempt)
	l.WriteByte('}')
}
