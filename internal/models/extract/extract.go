// Package extract is the model that qq brings along: an [llm.Backend] without a
// model. It answers four kinds of requests about texts, files and folders:
// summaries, key points, keywords and outlines. Everything in its answers is
// quoted from the text; any other request is an error that says which model to
// install.
//
// Vocabulary: a request is what the last user message asks for, and of what; a
// wish is which products and how long; a part is one file and what became of it.
//
// Flow: the request is read from the conversation. When it names files, the
// work is written as if the results of tools were there; the first results that
// are missing become the calls of the answer, and the next turn starts over
// with them in the conversation. So nothing is kept between turns, and the same
// conversation always gets the same answer. One file is read; several are
// handed to one child each, and their answers joined.
//
// Package prose reads the texts, package digest chooses from them.
//
// Not promised: that a summary is what a person would write, other languages
// than English in requests, understanding of tables and code.
package extract

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"qq/internal/models/extract/prose"
	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Backend answers requests by quoting. The zero value is ready; it holds
// nothing and may be used by several goroutines at once.
type Backend struct{}

var _ llm.Backend = (*Backend)(nil)

// New returns the backend.
func New() *Backend { return &Backend{} }

// Chat answers the last request of a conversation, with text or with calls of
// the tools that are offered. An answer about a part of what was asked for
// comes together with the error that says what is missing.
func (*Backend) Chat(ctx context.Context, r llm.Request, yield func(llm.Chunk)) (llm.Response, error) {
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
	text, problem := t.answer(ctx, req)
	if problem != nil && text == "" {
		return answer, problem
	}
	if len(t.wanted) > 0 {
		answer.Message.Calls = t.wanted
		for _, c := range t.wanted {
			answer.Usage.OutputTokens += prose.Tokens(c.Name) + prose.Tokens(string(c.Arguments))
		}
		return answer, nil
	}
	if r.MaxTokens > 0 && prose.Tokens(text) > r.MaxTokens {
		text, answer.Stop = cut(text, r.MaxTokens), llm.StopLength
	}
	for piece := range pieces(text) {
		if err := ctx.Err(); err != nil {
			return answer, err
		}
		answer.Message.Content += piece
		yield(llm.Chunk{Text: piece})
	}
	answer.Usage.OutputTokens = prose.Tokens(text)
	return answer, problem
}

// inputTokens is about how many tokens a request has.
func inputTokens(r llm.Request) int {
	n := prose.Tokens(r.System) + prose.Tokens(string(r.Schema))
	for _, m := range r.Messages {
		n += prose.Tokens(m.Content)
		for _, c := range m.Calls {
			n += prose.Tokens(c.Name) + prose.Tokens(string(c.Arguments))
		}
	}
	for _, t := range r.Tools {
		n += prose.Tokens(t.Name) + prose.Tokens(t.Description) + prose.Tokens(string(t.Parameters))
	}
	return n
}

// cut returns the beginning of text that has at most n tokens, whole lines and
// words only.
func cut(text string, n int) string {
	used, end := 0, 0
	for word := range strings.SplitAfterSeq(text, " ") {
		used += prose.Tokens(word)
		if used > n {
			break
		}
		end += len(word)
	}
	return strings.TrimRight(text[:end], " \n")
}

// pieces yields a text in a few pieces that end where a line or a word does.
func pieces(text string) func(func(string) bool) {
	return func(yield func(string) bool) {
		size := max(200, len(text)/16)
		for len(text) > size {
			end := size
			if i := strings.IndexAny(text[size:], " \n"); i >= 0 {
				end += i + 1
			} else {
				end = len(text)
			}
			if !yield(text[:end]) {
				return
			}
			text = text[end:]
		}
		if text != "" {
			yield(text)
		}
	}
}

// talk is a conversation since its request: which tools are offered, which
// calls have been answered, and which are wanted next.
type talk struct {
	offered map[string]bool
	results map[string]string // by name and arguments
	asked   int               // calls so far
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
		}
	}
	return t
}

// callKey is the same for the same call, however its arguments are written.
func callKey(name string, args json.RawMessage) string {
	var value any
	if json.Unmarshal(args, &value) == nil {
		if canonical, err := json.Marshal(value); err == nil {
			args = canonical
		}
	}
	return name + " " + string(args)
}

// call returns the result of a tool. When there is none yet, the call is added
// to the wanted ones and ok is false. A tool that is not offered fails.
func (t *talk) call(name string, args any) (result string, ok bool) {
	raw, err := json.Marshal(args)
	if err != nil {
		return failure + err.Error(), true
	}
	if result, ok := t.results[callKey(name, raw)]; ok {
		return result, true
	}
	if !t.offered[name] {
		return failure + "the tool " + name + " is not offered", true
	}
	t.wanted = append(t.wanted, tool.Call{ID: fmt.Sprintf("call_%d", t.asked+len(t.wanted)+1), Name: name, Arguments: raw})
	return "", false
}

// failure begins the result of a call that failed.
const failure = "Error: "

// failed returns what went wrong in a call, on one line.
func failed(result string) (problem string, ok bool) {
	problem, ok = strings.CutPrefix(result, failure)
	return task.Shorten(problem, 300), ok
}
