// Package dialect writes requests to model servers in the form that they take, and reads what they
// stream back.
//
// An [Ask] is what a server is asked, a [Dialect] one kind of server. An [Answer] collects what the server says,
// up to the mark by which it ends: without that mark there is no answer, only a part of one. Whatever a server
// sends, an Answer is bounded, its calls have ids and JSON objects for arguments, and its text is valid UTF-8 where
// that of the server is.
//
// Nothing here knows how requests travel: see package wire.
package dialect

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"qq/pkg/llm"
	"qq/pkg/tool"
)

// Dialect is one way in which servers are asked for a chat and answer it.
type Dialect interface {
	// Authorize adds the key of the user to the header of a request.
	Authorize(h http.Header, key string)
	// Encode returns the path of the request below the address of the server, and its body. An error is an
	// [*llm.Error] if the request makes no sense.
	Encode(*Ask) (path string, body []byte, err error)
	// Decode adds one line or event of the stream to the answer. The error, a [*Failure] or [ErrTooLong], says why
	// there is no answer.
	Decode(data []byte, a *Answer) error
}

// Ask is one request to a model.
type Ask struct {
	llm.Request
	Model    string // its name at the server
	Thinking bool   // it can think before it answers
	Context  int    // tokens of prompt and answer together that the server must have room for
	Limit    int    // most tokens of the answer; 0 means that the server decides
	// NoThinking says that it must not think before it answers, because it cannot do that and call tools.
	NoThinking bool
}

// InWords returns a with the schema of the answer as a part of the system prompt, for servers that do not hold answers
// to a schema.
func (a *Ask) InWords() *Ask {
	with := *a
	with.Schema = nil
	with.System = strings.TrimSpace(a.System + "\n\nAnswer with one JSON document and nothing else. It must fit this " +
		"JSON Schema:\n" + string(a.Schema))
	return &with
}

// usedTools returns the tools that ask needs to describe because the conversation has calls of them, though it offers
// none.
func usedTools(ask *Ask) (used []tool.Spec) {
	if len(ask.Tools) > 0 {
		return nil
	}
	for i := range ask.Messages {
		for _, c := range ask.Messages[i].Calls {
			if !slices.ContainsFunc(used, func(s tool.Spec) bool { return s.Name == c.Name }) {
				used = append(used, tool.Spec{Name: c.Name, Parameters: json.RawMessage(`{"type":"object"}`)})
			}
		}
	}
	return used
}

// checkSchema returns an error if the schema of the answer is not JSON.
func checkSchema(ask *Ask) error {
	if ask.Schema != nil && !json.Valid(ask.Schema) {
		return rejected("schema of the answer is not JSON", nil)
	}
	return nil
}

// rejected returns the error for a request that is not sent because it is invalid. err is the cause, or nil.
func rejected(problem string, err error) *llm.Error {
	if err != nil {
		problem += ": " + llm.OneLine(err.Error())
	}
	return &llm.Error{Kind: llm.Rejected, Problem: problem, Err: err}
}
