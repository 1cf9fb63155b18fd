package form

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// openAI is the form of chat completions. It thinks in reasoning_content, as llama.cpp, vLLM and DeepSeek do.
type openAI struct {
	usage bool // the client wants the usage
	calls int
}

// Read implements [Form].
func (f *openAI) Read(_ *http.Request, body []byte, p *Prompt) error {
	var req struct {
		Model    string
		Messages []struct {
			Role    string
			Content json.RawMessage
			Calls   json.RawMessage `json:"tool_calls"`
		}
		Tools               json.RawMessage
		MaxTokens           int `json:"max_tokens"`
		MaxCompletionTokens int `json:"max_completion_tokens"`
		ResponseFormat      struct {
			JSONSchema struct {
				Schema json.RawMessage
			} `json:"json_schema"`
		} `json:"response_format"`
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return err
	}
	for _, m := range req.Messages {
		text, err := textOf(m.Content)
		if err != nil {
			return err
		}
		p.Messages = append(p.Messages, Message{Role: m.Role, Content: text, ToolCalls: m.Calls})
	}
	p.Model, p.Tools, p.Options.NumPredict = req.Model, req.Tools, max(req.MaxTokens, req.MaxCompletionTokens)
	p.holdTo(req.ResponseFormat.JSONSchema.Schema)
	f.usage = req.StreamOptions.IncludeUsage
	return nil
}

// ContentType implements [Form].
func (*openAI) ContentType() string { return "text/event-stream" }

// begin begins an event with a choice, up to the value of its delta.
func (f *openAI) begin(o *Output) {
	o.begin("")
	f.head(o)
	o.write(`"choices":[{"index":0,"delta":`)
}

// head writes what all events begin with.
func (f *openAI) head(o *Output) {
	o.write(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":`)
	o.Buf = strconv.AppendInt(o.Buf, o.Started.Unix(), 10)
	o.write(`,"model":`)
	o.quote(o.Model)
	o.write(`,`)
}

// finish ends the event that begin began.
func (f *openAI) finish(o *Output, reason string) {
	o.write(`,"finish_reason":`)
	if reason == "" {
		o.write(`null}]`)
	} else {
		o.quote(reason)
		o.write(`}]`)
	}
	if o.Odd.UsageEach {
		o.write(`,"usage":`)
		f.count(o)
	}
	o.write(`}`)
	o.end()
}

func (f *openAI) count(o *Output) {
	o.number(`{"prompt_tokens":`, o.Tokens)
	o.number(`,"completion_tokens":`, o.Said)
	if o.Cached > 0 {
		o.number(`,"prompt_tokens_details":{"cached_tokens":`, o.Cached)
		o.write(`}`)
	}
	o.write(`}`)
}

// Add implements [Form].
func (f *openAI) Add(o *Output, p Piece) {
	if p.Call != nil {
		f.addCall(o, p.Call)
		return
	}
	f.begin(o)
	if p.Thinking != "" {
		o.write(`{"reasoning_content":`)
		o.quote(p.Thinking)
	} else {
		o.write(`{"content":`)
		o.quote(p.Text)
	}
	o.write(`}`)
	f.finish(o, "")
}

func (f *openAI) addCall(o *Output, c *Call) {
	named := 0 // the first piece with the name
	if o.Odd.NameLate {
		named = 1
	}
	for i, arguments := range o.Odd.split(c) {
		f.begin(o)
		o.write(`{"tool_calls":[{`)
		switch {
		case o.Odd.OneIndex:
			o.write(`"index":0,`)
		case !o.Odd.NoIndex:
			o.write(`"index":`)
			o.Buf = strconv.AppendInt(o.Buf, int64(f.calls), 10)
			o.write(`,`)
		}
		if id := o.Odd.id(c, i); id != "" {
			o.write(`"id":`)
			o.quote(id)
			o.write(`,"type":"function",`)
		}
		o.write(`"function":{`)
		if i == named || i > named && o.Odd.NamesRepeated {
			o.write(`"name":`)
			o.quote(c.Name)
			o.write(`,`)
		}
		o.write(`"arguments":`)
		o.quote(arguments)
		o.write(`}}]}`)
		f.finish(o, "")
	}
	f.calls++
}

// Last implements [Form].
func (f *openAI) Last(o *Output, reason string) {
	if f.calls > 0 && reason == "stop" {
		reason = "tool_calls"
	}
	if !o.Odd.NoEnd {
		f.begin(o)
		o.write(`{}`)
		f.finish(o, reason)
		o.marked()
	}
	if f.usage && !o.Odd.NoUsage {
		o.begin("")
		f.head(o)
		o.write(`"choices":[],"usage":`)
		f.count(o)
		o.write(`}`)
		o.end()
	}
	if !o.Odd.NoDone {
		o.begin("")
		o.write(`[DONE]`)
		o.end()
	}
}

// Failure implements [Form].
func (*openAI) Failure(status int, message string) []byte {
	kind := "server_error"
	if status > 0 && status < 500 {
		kind = "invalid_request_error"
	}
	b := AppendString([]byte(`{"error":{"message":`), message)
	b = append(b, `,"type":"`+kind+`","code":null}}`...)
	if status == 0 {
		return append(append([]byte("data: "), b...), "\n\n"...)
	}
	return b
}
