package form

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// anthropic is the form of Anthropic's messages.
type anthropic struct {
	answerTool string // the tool that the client wants the answer from; empty means none
	begun      bool
	blocks     int    // so far
	open       string // the kind of the last one if it is open
}

// Read implements [Form].
func (f *anthropic) Read(_ *http.Request, body []byte, p *Prompt) error {
	var req struct {
		Model     string
		System    json.RawMessage
		MaxTokens int `json:"max_tokens"`
		Messages  []struct {
			Role    string
			Content json.RawMessage
		}
		Tools []struct {
			Name   string
			Schema json.RawMessage `json:"input_schema"`
		}
		ToolChoice struct{ Type, Name string } `json:"tool_choice"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return err
	}
	system, err := textOf(req.System)
	if err != nil {
		return err
	}
	if system != "" {
		p.Messages = append(p.Messages, Message{Role: "system", Content: system})
	}
	for _, m := range req.Messages {
		parts, err := partsOf(m.Content)
		if err != nil {
			return err
		}
		if err := p.addParts(m.Role, parts); err != nil {
			return err
		}
	}
	var tools []offered
	var schema json.RawMessage
	for _, t := range req.Tools {
		if req.ToolChoice.Type == "tool" && t.Name == req.ToolChoice.Name {
			f.answerTool, schema = t.Name, t.Schema
			continue
		}
		tools = append(tools, offer(t.Name, t.Schema))
	}
	p.Model, p.Tools, p.Options.NumPredict = req.Model, encodeAll(tools), req.MaxTokens
	p.holdTo(schema)
	return nil
}

// addParts adds what one side said. A result of a tool, which the user says, is a message of its own.
func (p *Prompt) addParts(role string, parts []part) error {
	m := Message{Role: role}
	var calls []json.RawMessage
	results := 0
	for _, x := range parts {
		switch {
		case x.Type == "tool_result":
			text, err := textOf(x.Content)
			if err != nil {
				return err
			}
			p.Messages = append(p.Messages, Message{Role: "tool", Content: text})
			results++
		case x.Result != nil:
			var result struct{ Result string }
			if json.Unmarshal(x.Result.Response, &result) != nil || result.Result == "" {
				result.Result = string(x.Result.Response)
			}
			p.Messages = append(p.Messages, Message{Role: "tool", Content: result.Result})
			results++
		case x.Type == "tool_use", x.Call != nil:
			calls = append(calls, x.raw)
		default:
			m.Content += x.Text
		}
	}
	if m.ToolCalls = encodeAll(calls); m.Content != "" || calls != nil || results == 0 {
		p.Messages = append(p.Messages, m)
	}
	return nil
}

// ContentType implements [Form].
func (*anthropic) ContentType() string { return "text/event-stream" }

// begin begins an event of that type, up to the fields after it.
func (f *anthropic) begin(o *Output, kind string) {
	o.begin(kind)
	o.write(`{"type":"`)
	o.write(kind)
	o.write(`"`)
}

// start writes the beginning of the message, once.
func (f *anthropic) start(o *Output) {
	if f.begun {
		return
	}
	f.begun = true
	f.begin(o, "message_start")
	o.write(`,"message":{"id":"msg_1","type":"message","role":"assistant","content":[],"stop_reason":null,"model":`)
	o.quote(o.Model)
	if !o.Odd.NoUsage {
		written := min(o.Cached, o.Tokens-o.Cached)
		o.number(`,"usage":{"input_tokens":`, o.Tokens-o.Cached-written)
		if o.Cached > 0 {
			o.number(`,"cache_creation_input_tokens":`, written)
			o.number(`,"cache_read_input_tokens":`, o.Cached)
		}
		o.write(`,"output_tokens":1}`)
	}
	o.write(`}}`)
	o.end()
}

// index writes the index of the last block.
func (f *anthropic) index(o *Output) {
	switch {
	case o.Odd.OneIndex:
		o.write(`,"index":0`)
	case !o.Odd.NoIndex:
		o.write(`,"index":`)
		o.Buf = strconv.AppendInt(o.Buf, int64(f.blocks-1), 10)
	}
}

// block opens a block unless one of that kind is open. begin are its fields.
func (f *anthropic) block(o *Output, kind, begin string) {
	f.start(o)
	if f.open == kind && kind != "tool_use" {
		return
	}
	f.close(o)
	f.open, f.blocks = kind, f.blocks+1
	f.begin(o, "content_block_start")
	f.index(o)
	o.write(`,"content_block":{"type":"`)
	o.write(kind)
	o.write(`",`)
	o.write(begin)
	o.write(`}}`)
	o.end()
}

// delta writes more of the open block.
func (f *anthropic) delta(o *Output, kind, field, text string) {
	f.begin(o, "content_block_delta")
	f.index(o)
	o.write(`,"delta":{"type":"`)
	o.write(kind)
	o.write(`","`)
	o.write(field)
	o.write(`":`)
	o.quote(text)
	o.write(`}}`)
	o.end()
	if o.Odd.UsageEach {
		f.begin(o, "message_delta")
		o.write(`,"delta":{},"usage":{"output_tokens":`)
		o.Buf = strconv.AppendInt(o.Buf, int64(o.Said), 10)
		o.write(`}}`)
		o.end()
	}
}

// close closes the open block.
func (f *anthropic) close(o *Output) {
	if f.open == "" {
		return
	}
	f.open = ""
	if !o.Odd.NoIndex {
		f.begin(o, "content_block_stop")
		f.index(o)
		o.write(`}`)
		o.end()
	}
}

// Add implements [Form].
func (f *anthropic) Add(o *Output, p Piece) {
	switch {
	case p.Call != nil:
		f.addCall(o, p.Call)
	case p.Thinking != "":
		f.block(o, "thinking", `"thinking":""`)
		f.delta(o, "thinking_delta", "thinking", p.Thinking)
	case f.answerTool != "":
		if f.open != "tool_use" {
			f.useTool(o, "toolu_answer", f.answerTool, "{}")
		}
		f.delta(o, "input_json_delta", "partial_json", p.Text)
	default:
		f.block(o, "text", `"text":""`)
		f.delta(o, "text_delta", "text", p.Text)
	}
}

// useTool opens the block of a call.
func (f *anthropic) useTool(o *Output, id, name, input string) {
	b := []byte(`"name":`)
	b = append(AppendString(b, name), `,"input":`...)
	b = append(b, input...)
	if id != "" {
		b = AppendString(append(b, `,"id":`...), id)
	}
	f.block(o, "tool_use", string(b))
}

func (f *anthropic) addCall(o *Output, c *Call) {
	id := o.Odd.id(c, 0)
	if o.Odd.Whole && !o.Odd.HalfCall { // as Ollama does
		f.useTool(o, id, c.Name, string(c.Arguments))
		return
	}
	f.useTool(o, id, c.Name, "{}")
	for _, arguments := range o.Odd.split(c) {
		f.delta(o, "input_json_delta", "partial_json", arguments)
	}
}

// Last implements [Form].
func (f *anthropic) Last(o *Output, reason string) {
	f.start(o)
	called := f.open == "tool_use"
	f.close(o)
	switch {
	case reason == "length":
		reason = "max_tokens"
	case called:
		reason = "tool_use"
	default:
		reason = "end_turn"
	}
	f.begin(o, "message_delta")
	o.write(`,"delta":{"stop_reason":"`)
	o.write(reason)
	o.write(`"}`)
	if !o.Odd.NoUsage {
		o.write(`,"usage":{"output_tokens":`)
		o.Buf = strconv.AppendInt(o.Buf, int64(o.Said), 10)
		o.write(`}`)
	}
	o.write(`}`)
	o.end()
	if o.Odd.UsageEach { // once more, without a reason
		f.begin(o, "message_delta")
		o.write(`,"delta":{},"usage":{"output_tokens":`)
		o.Buf = strconv.AppendInt(o.Buf, int64(o.Said), 10)
		o.write(`}}`)
		o.end()
	}
	if !o.Odd.NoEnd {
		f.begin(o, "message_stop")
		o.write(`}`)
		o.end()
		o.marked()
	}
}

// Failure implements [Form].
func (*anthropic) Failure(status int, message string) []byte {
	kind := "api_error"
	switch {
	case status == http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case status == http.StatusNotFound:
		kind = "not_found_error"
	case status > 0 && status < 500:
		kind = "invalid_request_error"
	}
	b := []byte(`{"type":"error","error":{"type":"` + kind + `","message":`)
	b = append(AppendString(b, message), "}}"...)
	if status == 0 {
		return append(append([]byte("event: error\ndata: "), b...), "\n\n"...)
	}
	return b
}
