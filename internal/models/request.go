package models

import (
	"bytes"
	"encoding/json"

	"qq/pkg/llm"
	"qq/pkg/tool"
)

// chatRequest is the body of a request to /api/chat. Fields that are equal for all tasks of an
// agent come first: equal beginnings let the server use its cache.
type chatRequest struct {
	Model    string          `json:"model"`
	Options  chatOptions     `json:"options"`
	Tools    []chatTool      `json:"tools,omitempty"`
	Messages []chatMessage   `json:"messages"`
	Format   json.RawMessage `json:"format,omitempty"`
	Think    *bool           `json:"think,omitempty"`
	// Truncate and Shift are always false. Either would lose part of the prompt silently:
	// Truncate before the answer begins, Shift when the answer fills the context.
	Truncate bool `json:"truncate"`
	Shift    bool `json:"shift"`
}

type chatOptions struct {
	NumCtx      int      `json:"num_ctx"`
	NumPredict  int      `json:"num_predict,omitempty"`
	Temperature *float64 `json:"temperature,omitempty"`
}

type chatTool struct {
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

type chatMessage struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	Thinking   string     `json:"thinking,omitempty"`
	ToolCalls  []chatCall `json:"tool_calls,omitempty"`
	ToolName   string     `json:"tool_name,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

// chatCall is a tool call in requests and answers.
type chatCall struct {
	ID       string `json:"id,omitempty"`
	Function struct {
		Index     int             `json:"index"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// newChatRequest converts r to a request for model m, without num_ctx.
func newChatRequest(m Model, r llm.Request) (*chatRequest, error) {
	req := &chatRequest{
		Model:    m.Name,
		Options:  chatOptions{NumPredict: max(r.MaxTokens, 0), Temperature: r.Temperature},
		Messages: make([]chatMessage, 0, len(r.Messages)+1),
	}
	switch {
	case r.Schema != nil:
		if !json.Valid(r.Schema) {
			return nil, rejected("schema of the answer is not JSON", nil)
		}
		// Thinking is switched off: Ollama does not apply a format to a model that may think first.
		req.Format, req.Think = r.Schema, new(bool)
	case m.Thinking:
		think := true
		req.Think = &think
	}
	if r.System != "" {
		req.Messages = append(req.Messages, chatMessage{Role: "system", Content: r.System})
	}
	for i := range r.Messages {
		message, err := newChatMessage(&r.Messages[i])
		if err != nil {
			return nil, err
		}
		req.Messages = append(req.Messages, message)
	}
	for _, spec := range r.Tools {
		parameters, err := toolParameters(spec)
		if err != nil {
			return nil, err
		}
		req.Tools = append(req.Tools, chatTool{"function", chatFunction{spec.Name, spec.Description, parameters}})
	}
	return req, nil
}

// encode returns the request as JSON.
func (r *chatRequest) encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // escapes are more bytes and say nothing
	err := e.Encode(r)
	return b.Bytes(), err
}

func newChatMessage(m *llm.Message) (chatMessage, error) {
	out := chatMessage{
		Role: string(m.Role), Content: m.Content, Thinking: m.Thinking, ToolName: m.Tool, ToolCallID: m.CallID,
	}
	for i, c := range m.Calls {
		arguments := c.Arguments
		if len(arguments) == 0 {
			arguments = json.RawMessage("{}")
		}
		var object *struct{}
		if err := json.Unmarshal(arguments, &object); err != nil || object == nil {
			return out, rejected("arguments of a call of "+c.Name+" are not a JSON object", err)
		}
		call := chatCall{ID: c.ID}
		call.Function.Index, call.Function.Name, call.Function.Arguments = i, c.Name, arguments
		out.ToolCalls = append(out.ToolCalls, call)
	}
	return out, nil
}

// toolParameters returns the parameters of a tool as Ollama accepts them: an object whose
// properties are an object too.
func toolParameters(spec tool.Spec) (json.RawMessage, error) {
	var known *struct{ Properties *struct{} }
	err := json.Unmarshal(spec.Parameters, &known)
	switch {
	case err != nil, known == nil:
		return nil, rejected("parameters of tool "+spec.Name+" are not a schema that Ollama takes", err)
	case known.Properties != nil:
		return spec.Parameters, nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(spec.Parameters, &all); err != nil {
		return nil, err
	}
	all["properties"] = json.RawMessage("{}") // chat templates fail on null
	return json.Marshal(all)
}
