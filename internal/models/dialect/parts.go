package dialect

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"qq/pkg/llm"
	"qq/pkg/tool"
)

// piece is a part of a tool call, as servers stream it: the beginning has a name, the rest more of the arguments. What
// else it has differs from server to server: some leave out the index or the id, some repeat the name or the id in
// each piece, some give all calls one index, some one call several.
type piece struct {
	index     int  // of the call; -1 means that the server does not say
	begins    bool // it is the first piece of a call; false means that the server does not say
	id        string
	name      string
	arguments string
	signature string // see [tool.Call]
}

// openCall is a tool call whose arguments may not be whole yet.
type openCall struct {
	piece
	arguments strings.Builder
}

// whole reports whether the arguments are a JSON object.
func (c *openCall) whole() bool {
	s := strings.TrimSpace(c.arguments.String())
	return strings.HasSuffix(s, "}") && json.Valid([]byte(s))
}

// part adds a piece of a tool call.
func (a *Answer) part(p piece) error {
	if a.stop != "" {
		return nil
	}
	a.size += len(p.arguments) + len(p.signature)
	c := a.callOf(p)
	if c == nil {
		a.size += len(p.name) + callBytes
		c = &openCall{piece: p}
		a.open = append(a.open, c)
	}
	if a.full() {
		return ErrTooLong
	}
	if c.id == "" {
		c.id = p.id
	}
	if c.name == "" {
		c.name = p.name
	}
	c.signature += strings.TrimPrefix(p.signature, c.signature)
	c.arguments.WriteString(p.arguments)
	return nil
}

// callOf returns the call that p continues; nil if it begins one.
func (a *Answer) callOf(p piece) *openCall {
	if p.begins {
		return nil
	}
	var last *openCall
	for _, c := range slices.Backward(a.open) {
		if p.id != "" && c.id == p.id {
			last = c
			break
		}
		if last == nil && (p.index < 0 || c.index < 0 || c.index == p.index) {
			last = c
		}
	}
	if last == nil || last.endsBefore(p) {
		return nil
	}
	return last
}

// endsBefore reports whether p begins another call, though it has the id or the index of c, or neither. Without a name
// it never does: servers give a piece any id. With the name of c it does if c cannot go on with it.
func (c *openCall) endsBefore(p piece) bool {
	blank := strings.TrimSpace(p.arguments) == ""
	empty := strings.TrimSpace(c.arguments.String()) == ""
	otherID := p.id != "" && c.id != "" && p.id != c.id
	otherIndex := p.index >= 0 && c.index >= 0 && p.index != c.index
	switch {
	case p.name == "", c.name == "": // some servers say the name in the second piece
		return false
	case p.name != c.name:
		return true
	case otherID || otherIndex:
		return c.whole() || empty && blank
	}
	return c.whole() && !blank
}

// indexOf returns the index of a piece; -1 if the server does not say it.
func indexOf(index *int) int {
	if index == nil {
		return -1
	}
	return max(*index, 0)
}

// closeCalls ends the calls that came in pieces. If the answer was cut, calls that are not whole are left out.
func (a *Answer) closeCalls(stop llm.Stop) error {
	for _, c := range a.open {
		arguments := strings.TrimSpace(c.arguments.String())
		if stop == llm.StopLength && !c.whole() {
			continue // arguments that are empty may have been cut off
		}
		if c.name == "" {
			return &Failure{Kind: llm.BrokenStream, Text: "a call has no name"}
		}
		if arguments != "" && !json.Valid([]byte(arguments)) {
			return &Failure{Kind: llm.BrokenStream,
				Text: fmt.Sprintf("arguments of a call of %s are no JSON", llm.OneLine(c.name))}
		}
		if err := a.call(tool.Call{
			ID: c.id, Name: c.name, Arguments: json.RawMessage(arguments), Signature: c.signature,
		}); err != nil {
			return err
		}
	}
	a.open = nil
	return nil
}
