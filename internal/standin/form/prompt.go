package form

import (
	"encoding/json"
	"slices"
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

// LastRole returns the role of the last message.
func (p Prompt) LastRole() string {
	if len(p.Messages) == 0 {
		return ""
	}
	return p.Messages[len(p.Messages)-1].Role
}

// holdTo makes the schema that of the answer. The model does not think then: thinking would not fit the schema. A
// prompt that is too long is refused.
func (p *Prompt) holdTo(schema json.RawMessage) {
	p.Truncate = new(bool)
	if p.Format = schema; len(schema) > 0 {
		p.Think = false
	}
}
