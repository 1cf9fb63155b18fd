// Package form reads requests for chats and writes their answers as the different kinds of model servers do. It knows
// what is said, not where it comes from or how it travels: see package standin.
package form

import (
	"encoding/json"
	"net/http"
	"strings"
)

// Form is how one kind of model server reads a request for a chat and writes its answer. One value serves one
// request.
type Form interface {
	// Read decodes the request into p.
	Read(r *http.Request, body []byte, p *Prompt) error
	// ContentType returns that of the answer.
	ContentType() string
	// Add writes a piece of the answer.
	Add(o *Output, p Piece)
	// Last writes the end of the answer, with its usage. It notes where the end mark ends.
	Last(o *Output, reason string)
	// Failure returns an error: the body of a response with that status or, if the status is 0, what ends a stream.
	Failure(status int, message string) []byte
}

// Of returns the form of the chats that are asked for by method and path; nil if these are no chats.
func Of(method, path string) Form {
	switch {
	case method != http.MethodPost:
	case path == "/api/chat":
		return Ollama{}
	case path == "/v1/chat/completions":
		return &openAI{}
	case path == "/v1/messages":
		return &anthropic{}
	case strings.HasPrefix(path, GeminiModels+"/") && strings.HasSuffix(path, geminiMethod):
		return &gemini{}
	}
	return nil
}

var _ = []Form{Ollama{}, &openAI{}, &anthropic{}, &gemini{}}

// part is a piece of a message: of OpenAI's and Anthropic's content, and of Gemini's parts.
type part struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	Content json.RawMessage `json:"content"` // of Anthropic's results: text, or parts
	Call    json.RawMessage `json:"functionCall"`
	Result  *struct {
		Response json.RawMessage `json:"response"`
	} `json:"functionResponse"`
	raw json.RawMessage
}

// UnmarshalJSON implements [json.Unmarshaler].
func (p *part) UnmarshalJSON(b []byte) error {
	type plain part // without this method
	if err := json.Unmarshal(b, (*plain)(p)); err != nil {
		return err
	}
	p.raw = b
	return nil
}

// partsOf decodes the content of a message: a text, or a list of parts.
func partsOf(content json.RawMessage) ([]part, error) {
	if len(content) == 0 || content[0] != '"' {
		var parts []part
		err := json.Unmarshal(orNull(content), &parts)
		return parts, err
	}
	p := part{Type: "text"}
	err := json.Unmarshal(content, &p.Text)
	return []part{p}, err
}

// textOf joins the texts of a message.
func textOf(content json.RawMessage) (string, error) {
	parts, err := partsOf(content)
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String(), err
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// offered writes tools as [Prompt] has them, whatever they are called by the form.
type offered struct {
	Function struct {
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters"`
	} `json:"function"`
}

func offer(name string, parameters json.RawMessage) (o offered) {
	o.Function.Name, o.Function.Parameters = name, orNull(parameters)
	return o
}

// encodeAll returns the list as JSON; nil if it is empty.
func encodeAll[T any](list []T) json.RawMessage {
	if len(list) == 0 {
		return nil
	}
	b, err := json.Marshal(list)
	if err != nil { // cannot happen: all of it was decoded before
		panic(err)
	}
	return b
}
