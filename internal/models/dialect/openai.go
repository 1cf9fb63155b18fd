package dialect

import (
	"encoding/base64"
	"encoding/json"
	"net/http"

	"qq/pkg/llm"
)

// OpenAI is the dialect of chat completions, which most servers speak. Source: the API reference of OpenAI, and the
// deviations of llama.cpp, vLLM, LM Studio, OpenRouter, Groq, DeepSeek and Ollama that the tests name.
type OpenAI struct {
	Vendor Vendor // empty means none that needs anything special
}

var _ Dialect = OpenAI{}

// completionRequest is the body of a request. Fields that are equal for all tasks of an agent come first: equal
// beginnings let the server use its cache.
type completionRequest struct {
	Model    string              `json:"model"`
	Tools    []chatTool          `json:"tools,omitempty"`
	Messages []completionMessage `json:"messages"`
	Stream   bool                `json:"stream"`
	Options  *streamOptions      `json:"stream_options,omitempty"`

	MaxTokens           int             `json:"max_tokens,omitempty"`
	MaxCompletionTokens int             `json:"max_completion_tokens,omitempty"`
	Temperature         *float64        `json:"temperature,omitempty"`
	Format              *responseFormat `json:"response_format,omitempty"`
	ToolChoice          string          `json:"tool_choice,omitempty"`
	Effort              string          `json:"reasoning_effort,omitempty"`
}

type streamOptions struct {
	Usage bool `json:"include_usage"`
}

type responseFormat struct {
	Type   string        `json:"type"`
	Schema *answerSchema `json:"json_schema,omitempty"`
}

type answerSchema struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
}

type completionMessage struct {
	Role    string           `json:"role"`
	Content any              `json:"content"` // *string, nil in a message that only has calls; []completionPart
	Calls   []completionCall `json:"tool_calls,omitempty"`
	CallID  string           `json:"tool_call_id,omitempty"`
	// Thinking is only sent to servers that want it back.
	Thinking *string         `json:"reasoning_content,omitempty"`
	Details  json.RawMessage `json:"reasoning_details,omitempty"`
}

// completionPart is a part of a message with images: one of them, or the text.
type completionPart struct {
	Type  string         `json:"type"`
	Text  string         `json:"text,omitempty"`
	Image *completionURL `json:"image_url,omitempty"`
}

type completionURL struct {
	URL string `json:"url"`
}

type completionCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// Authorize implements [Dialect].
func (OpenAI) Authorize(h http.Header, key string) { bearer(h, key) }

// Encode implements [Dialect].
func (d OpenAI) Encode(ask *Ask) (path string, body []byte, err error) {
	if err := checkSchema(ask); err != nil {
		return "", nil, err
	}
	req := completionRequest{Model: ask.Model, Stream: true, Options: &streamOptions{true},
		MaxTokens: ask.Limit, Temperature: ask.Temperature}
	if ask.Schema != nil {
		req.Format = &responseFormat{"json_schema", &answerSchema{"answer", ask.Schema}}
	}
	if ask.NoThinking {
		req.Effort = "none"
	}
	ask = d.Vendor.adapt(ask, &req)
	if ask.System != "" {
		req.Messages = append(req.Messages, completionMessage{Role: "system", Content: &ask.System})
	}
	messages := imagesBeside(ask.Messages)
	for i := range messages {
		out, err := newCompletionMessage(&messages[i])
		if err != nil {
			return "", nil, err
		}
		req.Messages = d.Vendor.add(req.Messages, out, &messages[i])
	}
	if req.Tools, err = chatTools(ask.Tools); err != nil {
		return "", nil, err
	}
	body, err = encode(req)
	return "chat/completions", body, err
}

func newCompletionMessage(m *llm.Message) (completionMessage, error) {
	out := completionMessage{Role: string(m.Role), Content: &m.Content, CallID: m.CallID}
	for _, c := range m.Calls {
		arguments, err := argumentsOf(c)
		if err != nil {
			return out, err
		}
		call := completionCall{ID: c.ID, Type: "function"}
		call.Function.Name, call.Function.Arguments = c.Name, string(arguments)
		out.Calls = append(out.Calls, call)
	}
	if len(out.Calls) > 0 && m.Content == "" {
		out.Content = nil
	}
	if len(m.Images) > 0 {
		out.Content = completionParts(m)
	}
	return out, nil
}

// completionParts returns the images and the text of m.
func completionParts(m *llm.Message) (parts []completionPart) {
	for _, image := range m.Images {
		url := "data:" + image.Type + ";base64," + base64.StdEncoding.EncodeToString(image.Data)
		parts = append(parts, completionPart{Type: "image_url", Image: &completionURL{url}})
	}
	if m.Content != "" {
		parts = append(parts, completionPart{Type: "text", Text: m.Content})
	}
	return parts
}

// completion is one event of a stream, or a whole answer of a server that does not stream.
type completion struct {
	Choices []struct {
		Delta        completionDelta `json:"delta"`
		Message      completionDelta `json:"message"`
		FinishReason string          `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt  float64 `json:"prompt_tokens"`
		Output  float64 `json:"completion_tokens"`
		Total   float64 `json:"total_tokens"`
		Details struct {
			Cached float64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		Hit float64 `json:"prompt_cache_hit_tokens"` // DeepSeek says it so
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
	// vLLM before 0.10 reports an error in the middle of a stream by these two.
	Object  string          `json:"object"`
	Message json.RawMessage `json:"message"`
}

type completionDelta struct {
	Content          completionContent `json:"content"`
	Refusal          string            `json:"refusal"`
	ReasoningContent string            `json:"reasoning_content"` // DeepSeek, llama.cpp, vLLM
	Reasoning        string            `json:"reasoning"`         // OpenRouter, Groq, Ollama
	Details          []reasoningDetail `json:"reasoning_details"` // OpenRouter
	Calls            []struct {
		Index    *int   `json:"index"`
		ID       string `json:"id"`
		Function struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"` // text that is JSON; some servers send the JSON itself
		} `json:"function"`
	} `json:"tool_calls"`
}

// completionContent is a text or, of the models of Mistral that think, a list of parts.
type completionContent struct{ text, thinking string }

// UnmarshalJSON implements [json.Unmarshaler].
func (c *completionContent) UnmarshalJSON(data []byte) error {
	if data[0] != '[' {
		return json.Unmarshal(data, &c.text)
	}
	var parts []struct {
		Text     string `json:"text"`
		Thinking []struct {
			Text string `json:"text"`
		} `json:"thinking"`
	}
	err := json.Unmarshal(data, &parts)
	for i := range parts {
		c.text += parts[i].Text
		for _, t := range parts[i].Thinking {
			c.thinking += t.Text
		}
	}
	return err
}

// Decode implements [Dialect]. The end mark is the finish reason; the usage may follow it.
func (d OpenAI) Decode(data []byte, a *Answer) error {
	if string(data) == "[DONE]" {
		a.close()
		return nil
	}
	var c completion
	if err := json.Unmarshal(data, &c); err != nil {
		return noAnswer(data)
	}
	if failed := present(c.Error); failed || c.Object == "error" {
		if !failed {
			c.Error = c.Message
		}
		return failure(c.Error)
	}
	if c.Usage != nil {
		output := max(c.Usage.Output, c.Usage.Total-c.Usage.Prompt) // xAI has thinking in the total alone
		a.count(c.Usage.Prompt, output, max(c.Usage.Details.Cached, c.Usage.Hit))
	}
	if len(c.Choices) == 0 {
		return nil
	}
	choice := &c.Choices[0]
	for _, delta := range [...]*completionDelta{&choice.Delta, &choice.Message} {
		a.add(delta.ReasoningContent+delta.Content.thinking, delta.Content.text+delta.Refusal)
		if delta.ReasoningContent == "" {
			a.add(delta.Reasoning, "")
		}
		if d.Vendor == OpenRouter {
			a.details.add(a, delta.Details)
		}
		for i := range delta.Calls {
			call := &delta.Calls[i]
			p := piece{index: indexOf(call.Index), id: call.ID, name: call.Function.Name}
			if json.Unmarshal(call.Function.Arguments, &p.arguments) != nil {
				p.arguments = string(call.Function.Arguments)
			}
			if err := a.part(p); err != nil {
				return err
			}
		}
	}
	switch choice.FinishReason {
	case "":
		return nil
	case "stop", "tool_calls", "function_call", "eos", "stop_sequence":
		return a.endWithDetails(llm.StopEnd)
	case "length", "model_length": // the latter of Mistral: the context is full
		return a.endWithDetails(llm.StopLength)
	case "content_filter":
		return filtered("content_filter")
	}
	return ended(choice.FinishReason)
}
