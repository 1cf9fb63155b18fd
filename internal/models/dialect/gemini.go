package dialect

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"qq/pkg/llm"
)

// Gemini is the dialect of Google's Gemini. Source: its API reference, v1beta.
type Gemini struct{}

var _ Dialect = Gemini{}

// geminiRequest is the body of a request. Fields that are equal for all tasks of an agent come first.
type geminiRequest struct {
	System   *geminiContent  `json:"systemInstruction,omitempty"`
	Tools    []geminiTools   `json:"tools,omitempty"`
	Contents []geminiContent `json:"contents"`
	Config   geminiConfig    `json:"generationConfig"`
}

type geminiTools struct {
	Functions []geminiFunction `json:"functionDeclarations"`
}

type geminiFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parametersJsonSchema"`
}

type geminiConfig struct {
	MaxTokens   int             `json:"maxOutputTokens,omitempty"`
	Temperature *float64        `json:"temperature,omitempty"`
	MIMEType    string          `json:"responseMimeType,omitempty"`
	Schema      json.RawMessage `json:"responseJsonSchema,omitempty"`
	Thinking    *geminiThinking `json:"thinkingConfig,omitempty"`
}

type geminiThinking struct {
	Include bool `json:"includeThoughts"`
}

// geminiContent is what one side says before the other does.
type geminiContent struct {
	Role  string       `json:"role,omitempty"`
	Parts []geminiPart `json:"parts"`
}

type geminiPart struct {
	Text      string          `json:"text,omitempty"`
	Thought   bool            `json:"thought,omitempty"`
	Call      *geminiCall     `json:"functionCall,omitempty"`
	Response  *geminiResponse `json:"functionResponse,omitempty"`
	Image     *geminiImage    `json:"inlineData,omitempty"`
	Signature string          `json:"thoughtSignature,omitempty"`
}

type geminiImage struct {
	MIMEType string `json:"mimeType"`
	Data     []byte `json:"data"` // in base64
}

type geminiCall struct {
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"args,omitempty"`
}

type geminiResponse struct {
	Name     string `json:"name"`
	Response struct {
		Result string `json:"result"`
	} `json:"response"`
}

// noSignature stands for the thought signature of a call that Gemini did not make. It refuses calls without one.
const noSignature = "skip_thought_signature_validator"

// Authorize implements [Dialect].
func (Gemini) Authorize(h http.Header, key string) { h.Set("X-Goog-Api-Key", key) }

// Encode implements [Dialect].
func (Gemini) Encode(ask *Ask) (path string, body []byte, err error) {
	req := geminiRequest{Config: geminiConfig{MaxTokens: ask.Limit, Temperature: ask.Temperature}}
	if ask.Thinking {
		req.Config.Thinking = &geminiThinking{Include: true}
	}
	if err := checkSchema(ask); err != nil {
		return "", nil, err
	}
	if ask.Schema != nil {
		req.Config.MIMEType, req.Config.Schema = "application/json", ask.Schema
	}
	if ask.System != "" {
		req.System = &geminiContent{Parts: []geminiPart{{Text: ask.System}}}
	}
	messages := imagesBeside(ask.Messages)
	for i := range messages {
		parts, err := geminiParts(&messages[i])
		if err != nil {
			return "", nil, err
		}
		role := "user"
		if messages[i].Role == llm.Assistant {
			role = "model"
		}
		// The server counts the parts of a turn with results: images are a turn of their own.
		apart := len(messages[i].Images) > 0 && i > 0 && messages[i-1].Role == llm.ToolRole
		if last := len(req.Contents) - 1; last >= 0 && req.Contents[last].Role == role && !apart {
			req.Contents[last].Parts = append(req.Contents[last].Parts, parts...)
		} else if len(parts) > 0 {
			req.Contents = append(req.Contents, geminiContent{role, parts})
		}
	}
	for _, spec := range ask.Tools {
		parameters, err := toolParameters(spec)
		if err != nil {
			return "", nil, err
		}
		if len(req.Tools) == 0 {
			req.Tools = make([]geminiTools, 1)
		}
		req.Tools[0].Functions = append(req.Tools[0].Functions,
			geminiFunction{spec.Name, spec.Description, parameters})
	}
	body, err = encode(req)
	name := strings.TrimPrefix(ask.Model, "models/")
	return "models/" + url.PathEscape(name) + ":streamGenerateContent?alt=sse", body, err
}

// geminiParts returns the parts of m.
func geminiParts(m *llm.Message) (parts []geminiPart, err error) {
	if m.Role == llm.ToolRole {
		r := &geminiResponse{Name: m.Tool}
		r.Response.Result = m.Content
		return []geminiPart{{Response: r}}, nil
	}
	for _, image := range m.Images {
		parts = append(parts, geminiPart{Image: &geminiImage{image.Type, image.Data}})
	}
	if m.Content != "" {
		parts = append(parts, geminiPart{Text: m.Content})
	}
	for i, c := range m.Calls {
		arguments, err := argumentsOf(c)
		if err != nil {
			return nil, err
		}
		p := geminiPart{Call: &geminiCall{Name: c.Name, Arguments: arguments}, Signature: c.Signature}
		if strings.HasPrefix(p.Signature, "[") { // that of another server
			p.Signature = ""
		}
		if i == 0 && p.Signature == "" { // of calls at once only the first has one
			p.Signature = noSignature
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// geminiEvent is one event of a stream.
type geminiEvent struct {
	Candidates []struct {
		Content      geminiContent `json:"content"`
		FinishReason string        `json:"finishReason"`
	} `json:"candidates"`
	Feedback struct {
		BlockReason string `json:"blockReason"`
	} `json:"promptFeedback"`
	Usage *struct {
		Prompt   float64 `json:"promptTokenCount"`
		Answer   float64 `json:"candidatesTokenCount"`
		Thoughts float64 `json:"thoughtsTokenCount"`
		Cached   float64 `json:"cachedContentTokenCount"`
	} `json:"usageMetadata"`
	Error json.RawMessage `json:"error"`
}

// Decode implements [Dialect]. The end mark is the finish reason. Old servers, and some between Gemini and the client,
// say it in each event: the last one counts, and what follows another is not lost.
func (Gemini) Decode(data []byte, a *Answer) error {
	var e geminiEvent
	if err := json.Unmarshal(data, &e); err != nil {
		return noAnswer(data)
	}
	switch {
	case present(e.Error):
		return failure(e.Error)
	case e.Feedback.BlockReason != "":
		return filtered(e.Feedback.BlockReason)
	}
	if u := e.Usage; u != nil {
		a.count(u.Prompt, u.Answer+u.Thoughts, u.Cached)
	}
	if len(e.Candidates) == 0 {
		return nil
	}
	c := &e.Candidates[0]
	for i := range c.Content.Parts {
		p := &c.Content.Parts[i]
		if p.Call != nil || p.Text != "" {
			a.reopen()
		}
		switch {
		case p.Call != nil:
			whole := piece{index: -1, begins: true, id: p.Call.ID, name: p.Call.Name, arguments: "{}",
				signature: p.Signature}
			if present(p.Call.Arguments) {
				whole.arguments = string(p.Call.Arguments)
			}
			if err := a.part(whole); err != nil {
				return err
			}
		case p.Thought:
			a.add(p.Text, "")
		default:
			a.add("", p.Text)
		}
	}
	switch c.FinishReason {
	case "":
		return nil
	case "STOP":
		return a.end(llm.StopEnd)
	case "MAX_TOKENS":
		return a.end(llm.StopLength)
	}
	a.reopen()
	switch c.FinishReason {
	case "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII":
		return filtered(c.FinishReason)
	}
	return ended(c.FinishReason) // MALFORMED_FUNCTION_CALL and such
}
