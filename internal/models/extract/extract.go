// Package extract is the built-in model: an [llm.Backend] that answers without
// a language model, by quoting. It makes summaries, key points, keywords and
// outlines. Any other request is an error that says which model to install.
//
// A request is one line of a small fixed grammar: what is wanted (see
// productAt), how much of it ("in 3 sentences", "top 5", "brief"), and of what:
// files, folders, globs, or a text after a colon or an empty line. Every word
// of the line must be known; an unknown word must be the name of a file or a folder.
//
// Chat keeps no state between calls. It runs the request as if all results of tools were in the conversation. If
// results are missing, its answer consists of the tool calls for the first of them, and the next call of Chat
// starts over with their results. A single file is read; several files are given to one child each, and the answers
// are joined.
//
// A text becomes blocks (package markdown), blocks become sentences (sentence.go), and
// the central sentences are quoted (rank.go). The same conversation always gets
// the same answer, and the time is about linear in the length of the text.
//
// Not promised: a summary as a person would write it, requests in other
// languages than English, all of CommonMark, an understanding of tables and code.
package extract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Backend answers requests by quoting. The zero value is ready for use by several goroutines.
type Backend struct {
	// Instead says how to get a language model, in an error; empty means by installing one.
	Instead string
}

var _ llm.Backend = (*Backend)(nil)

// New returns the backend.
func New() *Backend { return &Backend{} }

// Chat answers the last request of a conversation, with text or with calls of the offered tools. It returns an
// incomplete answer together with an error that says what is missing.
func (b *Backend) Chat(ctx context.Context, r llm.Request, yield func(llm.Chunk)) (llm.Response, error) {
	answer, err := chat(ctx, r, yield)
	if e, ok := errors.AsType[*llm.Error](err); ok && b.Instead != "" {
		other := *e
		other.Hint = strings.Replace(e.Hint, install, b.Instead, 1)
		err = &other
	}
	return answer, err
}

func chat(ctx context.Context, r llm.Request, yield func(llm.Chunk)) (llm.Response, error) {
	answer := llm.Response{
		Message: llm.Message{Role: llm.Assistant},
		Usage:   task.Usage{InputTokens: inputTokens(r)},
		Stop:    llm.StopEnd,
	}
	req, since, err := lastRequest(r.Messages, r.Schema != nil)
	if err != nil {
		return answer, err
	}
	t := newTalk(r, since)
	text, problem := t.answer(req)
	if err := ctx.Err(); err != nil {
		return answer, err
	}
	if len(t.wanted) > 0 {
		answer.Message.Calls = t.wanted
		for _, c := range t.wanted {
			answer.Usage.OutputTokens += tokens(c.Name + string(c.Arguments))
		}
		return answer, nil
	}
	if text == "" {
		return answer, problem
	}
	if most := r.MaxTokens * bytesPerToken; most > 0 && most < len(text) {
		text, answer.Stop = text[:max(strings.LastIndexAny(text[:most+1], " \n"), 0)], llm.StopLength
	}
	answer.Message.Content = text
	answer.Usage.OutputTokens = tokens(text)
	yield(llm.Chunk{Text: text})
	return answer, problem
}

// bytesPerToken is an estimate for English.
const bytesPerToken = 4

func tokens(s string) int { return (len(s) + bytesPerToken - 1) / bytesPerToken }

func inputTokens(r llm.Request) int {
	n := tokens(r.System)
	for _, m := range r.Messages {
		n += tokens(m.Content)
	}
	return n
}

// talk is the part of a conversation from its last request on: the offered tools, the results of calls made so far,
// and the calls to make next.
type talk struct {
	offered map[string]bool
	results map[string]string // results of tools, by callKey
	handed  bool              // files have been delegated to children
	asked   int               // tool calls in the conversation so far
	wanted  []tool.Call
	schema  json.RawMessage
}

func newTalk(r llm.Request, since int) *talk {
	t := &talk{offered: map[string]bool{}, results: map[string]string{}, schema: r.Schema}
	for _, spec := range r.Tools {
		t.offered[spec.Name] = true
	}
	open := map[string]string{} // keys of the calls by their id
	for i, m := range r.Messages {
		for _, c := range m.Calls {
			t.asked++
			if i >= since {
				open[c.ID] = callKey(c.Name, c.Arguments)
			}
		}
		if key, ok := open[m.CallID]; ok && m.Role == llm.ToolRole {
			t.results[key] = m.Content
			t.handed = t.handed || strings.HasPrefix(key, runParallel+" ")
		}
	}
	return t
}

func callKey(name string, args json.RawMessage) string { return name + " " + string(args) }

// call returns the result of a tool call that the conversation already has, or the problem that the tool reported.
// If the call was not made yet, ok is false and the call is added to t.wanted. A tool that is not offered is a
// problem.
func (t *talk) call(name string, args any) (result, problem string, ok bool) {
	raw, _ := json.Marshal(args) // args can always be encoded
	result, ok = t.results[callKey(name, raw)]
	if problem, failed := strings.CutPrefix(result, "Error: "); failed {
		return "", task.Shorten(problem, 300), true
	}
	switch {
	case ok:
		return result, "", true
	case !t.offered[name]:
		return "", "the tool " + name + " is not offered", true
	}
	id := fmt.Sprintf("call_%d", t.asked+len(t.wanted)+1)
	t.wanted = append(t.wanted, tool.Call{ID: id, Name: name, Arguments: raw})
	return "", "", false
}
