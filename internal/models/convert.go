package models

import (
	"encoding/json"
	"fmt"

	"github.com/ollama/ollama/api"

	"qq/pkg/llm"
	"qq/pkg/tool"
)

// chatRequest writes r as the server reads it, all but num_ctx.
func (b *backend) chatRequest(r llm.Request) (*api.ChatRequest, error) {
	no := false
	req := &api.ChatRequest{
		Model: b.model.Name,
		// Both would lose a part of the prompt without a word: Truncate before
		// the answer begins, Shift when the answer fills the context.
		Truncate: &no,
		Shift:    &no,
		Options:  make(map[string]any, 2),
		Messages: make([]api.Message, 0, len(r.Messages)+1),
	}
	if r.MaxTokens > 0 {
		req.Options["num_predict"] = r.MaxTokens
	}
	if r.Temperature != nil {
		req.Options["temperature"] = *r.Temperature
	}
	switch {
	case r.Schema != nil:
		if !json.Valid(r.Schema) {
			return nil, rejected("schema of the answer is not JSON", nil)
		}
		// A model that may think first is not held to the format.
		req.Format, req.Think = r.Schema, &api.ThinkValue{Value: false}
	case b.model.Thinking:
		req.Think = &api.ThinkValue{Value: true}
	}
	if r.System != "" {
		req.Messages = append(req.Messages, api.Message{Role: "system", Content: r.System})
	}
	for i := range r.Messages {
		m, err := apiMessage(&r.Messages[i])
		if err != nil {
			return nil, err
		}
		req.Messages = append(req.Messages, m)
	}
	for _, spec := range r.Tools {
		t, err := apiTool(spec)
		if err != nil {
			return nil, err
		}
		req.Tools = append(req.Tools, t)
	}
	return req, nil
}

func apiMessage(m *llm.Message) (api.Message, error) {
	out := api.Message{Role: string(m.Role), Content: m.Content, Thinking: m.Thinking, ToolName: m.Tool, ToolCallID: m.CallID}
	for i, c := range m.Calls {
		tc := api.ToolCall{ID: c.ID, Function: api.ToolCallFunction{Index: i, Name: c.Name}}
		if len(c.Arguments) > 0 {
			if err := json.Unmarshal(c.Arguments, &tc.Function.Arguments); err != nil {
				return out, rejected("arguments of a call of "+c.Name+" are not a JSON object", err)
			}
		}
		out.ToolCalls = append(out.ToolCalls, tc)
	}
	return out, nil
}

func apiTool(spec tool.Spec) (api.Tool, error) {
	t := api.Tool{Type: "function", Function: api.ToolFunction{Name: spec.Name, Description: spec.Description}}
	if err := json.Unmarshal(spec.Parameters, &t.Function.Parameters); err != nil {
		return t, rejected("parameters of tool "+spec.Name+" are not a schema that Ollama takes", err)
	}
	if t.Function.Parameters.Properties == nil {
		t.Function.Parameters.Properties = api.NewToolPropertiesMap() // null upsets templates
	}
	return t, nil
}

func rejected(problem string, err error) *llm.Error {
	if err != nil {
		problem = fmt.Sprintf("%s: %s", problem, oneLine(err.Error()))
	}
	return &llm.Error{Kind: llm.Rejected, Problem: problem, Err: err}
}
