package dialect

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"qq/pkg/llm"
)

// Failure is an error that a server reports in the middle of a stream, or an end of an answer that is none.
type Failure struct {
	Kind llm.Kind
	Text string // one line
}

func (f *Failure) Error() string { return f.Text }

// failure reads the error object of a server. Its number is an HTTP status, its type a class of errors.
func failure(raw json.RawMessage) error {
	var reply struct {
		Message string          `json:"message"`
		Type    string          `json:"type"`
		Code    json.RawMessage `json:"code"`
	}
	text, status := "", 0
	if json.Unmarshal(raw, &text) != nil && json.Unmarshal(raw, &reply) == nil {
		text = reply.Message
		_ = json.Unmarshal(reply.Code, &status) // else it is a word
	}
	if strings.TrimSpace(text) == "" {
		text = string(raw)
	}
	code := ""
	_ = json.Unmarshal(reply.Code, &code) // else it is a number
	f := &Failure{Kind: llm.BrokenStream, Text: llm.OneLine(text)}
	switch {
	case llm.IsQuota(reply.Type), llm.IsQuota(code):
		f.Kind = llm.Quota
	case llm.IsOverflow(reply.Type), llm.IsOverflow(code):
		f.Kind = llm.ContextOverflow
	case status >= 400 && status < 600:
		if f.Kind = llm.KindOf(status); f.Kind == llm.Server {
			f.Kind = llm.BrokenStream // it had begun to answer
		}
	case reply.Type == "overloaded_error", reply.Type == "rate_limit_error", code == "rate_limit_exceeded":
		f.Kind = llm.Busy
	case reply.Type == "invalid_request_error":
		f.Kind = llm.Rejected
	}
	return f
}

// ended returns the error for an answer that the server ended for a reason that makes it no answer.
func ended(reason string) error {
	return &Failure{Kind: llm.BrokenStream, Text: "the server ended it with " + llm.OneLine(reason)}
}

// filtered returns the error for an answer that a filter of the server ended. To ask again would be useless.
func filtered(reason string) error {
	return &Failure{Kind: llm.Rejected, Text: fmt.Sprintf("a filter of the server ended it (%s)", llm.OneLine(reason))}
}

// noAnswer returns the error for data that are no part of an answer.
func noAnswer(data []byte) error {
	return &Failure{Kind: llm.BrokenStream, Text: "line that is no answer: " + llm.OneLine(string(data))}
}

// present reports whether raw has a value other than null.
func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// bearer sets the header by which most servers want a key.
func bearer(h http.Header, key string) { h.Set("Authorization", "Bearer "+key) }
