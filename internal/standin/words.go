package standin

import (
	"encoding/json"
	"strconv"
	"strings"

	"qq/internal/standin/form"
)

const (
	callOpen, callClose   = "<tool_call>", "</tool_call>"
	thinkOpen, thinkClose = "<think>", "</think>"
)

// words splits the text of a into pieces: thinking (if the request enables it), words, and tool
// calls (if the request offers tools).
func (s *Server) words(a *answer) []form.Piece {
	text := a.text
	var out []form.Piece
	if a.model.can("thinking") && a.prompt.Think != false {
		if rest, ok := strings.CutPrefix(text, thinkOpen); ok {
			if thought, after, ok := strings.Cut(rest, thinkClose); ok {
				for _, w := range words(thought) {
					out = append(out, form.Piece{Thinking: w})
				}
				text = after
			}
		}
	}
	if a.prompt.Tools == nil || !strings.Contains(text, callOpen) {
		for _, w := range words(text) {
			out = append(out, form.Piece{Text: w})
		}
		return out
	}
	before, rest, _ := strings.Cut(text, callOpen)
	for _, w := range words(before) {
		out = append(out, form.Piece{Text: w})
	}
	return append(out, s.calls(rest, toolNames(a.prompt.Tools))...)
}

// calls parses the tool calls in text. A call that is cut off, malformed or not offered is dropped silently, with
// everything after it.
func (s *Server) calls(text string, offered map[string]bool) []form.Piece {
	var out []form.Piece
	for i, part := range strings.Split(text, callOpen) {
		source, _, closed := strings.Cut(part, callClose)
		var asked struct {
			Name      string
			Arguments json.RawMessage
		}
		if !closed || json.Unmarshal([]byte(source), &asked) != nil || !offered[asked.Name] {
			break
		}
		c := &form.Call{Index: i, Name: asked.Name, Arguments: asked.Arguments}
		if !s.noCallIDs {
			c.ID = "call_" + strconv.FormatInt(s.callIDs.Add(1), 36)
		}
		if c.Arguments == nil {
			c.Arguments = json.RawMessage("{}")
		}
		out = append(out, form.Piece{Call: c})
	}
	return out
}

func toolNames(tools json.RawMessage) map[string]bool {
	var list []struct{ Function struct{ Name string } }
	names := map[string]bool{}
	if json.Unmarshal(tools, &list) == nil {
		for _, t := range list {
			names[t.Function.Name] = true
		}
	}
	return names
}

// words cuts text before every space, so that it streams word by word.
func words(text string) []string {
	if text == "" {
		return nil
	}
	out := make([]string, 0, 1+strings.Count(text, " "))
	for {
		i := strings.IndexByte(text[1:], ' ')
		if i < 0 {
			return append(out, text)
		}
		out = append(out, text[:i+1])
		text = text[i+1:]
	}
}
