package dialect

import (
	"encoding/json"
	"fmt"
	"strings"

	"qq/pkg/llm"
	"qq/pkg/tool"
)

// piece is a part of a tool call, as servers stream it: the beginning has a name, the rest more of the arguments. What
// else it has differs from server to server: some leave out the index or the id, some repeat the name or the id in
// each piece, some give all calls one index, some one call several.
type piece struct {
	index     int // of the call; -1 means that the server does not say
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
	s := c.arguments.String()
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
	for _, c := range a.open {
		if p.id != "" && c.id == p.id {
			return c
		}
	}
	for i := len(a.open) - 1; i >= 0; i-- {
		c := a.open[i]
		if p.index >= 0 && c.index != p.index {
			continue
		}
		if p.name == "" && (p.id == "" || c.id == "") || p.name == c.name && (p.arguments == "" || !c.whole()) {
			return c
		}
		return nil
	}
	return nil
}

// closeCalls ends the calls that came in pieces. If the answer was cut, calls that are not whole are left out.
func (a *Answer) closeCalls(stop llm.Stop) error {
	for _, c := range a.open {
		arguments := strings.TrimSpace(c.arguments.String())
		if arguments != "" && !json.Valid([]byte(arguments)) {
			if stop == llm.StopLength {
				continue
			}
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
