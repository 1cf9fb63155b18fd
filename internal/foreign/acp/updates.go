package acp

import (
	"cmp"
	"encoding/json"
	"strings"

	"qq/internal/foreign/wire"
	"qq/pkg/llm"
	"qq/pkg/tool"
)

// maxCalls is how many calls may be open at once.
const maxCalls = 1000

// update is what a session/update says.
type update struct {
	Kind    string          `json:"sessionUpdate"`
	Content json.RawMessage `json:"content"` // of a piece: a block; of a call: a list
	toolCall
}

// toolCall is a call, or what is new about one.
type toolCall struct {
	ID        string          `json:"toolCallId"`
	Title     string          `json:"title"`
	Does      string          `json:"kind"`
	Status    string          `json:"status"`
	Input     json.RawMessage `json:"rawInput"`
	Locations []struct {
		Path string `json:"path"`
	} `json:"locations"`
}

// block is a part of what a call shows.
type block struct {
	Type    string `json:"type"`
	Text    string `json:"text"`
	Path    string `json:"path"`    // of a diff
	Old     string `json:"oldText"` // of a diff
	New     string `json:"newText"` // of a diff
	Content struct {
		Text string `json:"text"`
	} `json:"content"`
}

// calls are the open calls, by their ids.
type calls map[string]toolCall

// merge returns the call with what is new about it. The first message of a call may say nothing but its id.
func (cs calls) merge(c toolCall) toolCall {
	was := cs[c.ID]
	c.Title, c.Does = cmp.Or(c.Title, was.Title), cmp.Or(c.Does, was.Does)
	if len(c.Input) == 0 || string(c.Input) == "{}" {
		c.Input = was.Input
	}
	if len(c.Locations) == 0 {
		c.Locations = was.Locations
	}
	return c
}

// update reads what the program does.
func (c *conversation) update(params json.RawMessage) {
	var p struct {
		Session string `json:"sessionId"`
		Update  update `json:"update"`
	}
	if json.Unmarshal(params, &p) != nil || c.at != prompt || p.Session != c.id {
		return
	}
	switch u := p.Update; u.Kind {
	case "agent_message_chunk":
		var b block
		if json.Unmarshal(u.Content, &b) != nil || b.Type != "text" {
			return
		}
		if c.text.Len()+len(b.Text) > maxAnswer {
			c.cut = true
			return
		}
		c.text.WriteString(b.Text)
		c.to.Text(b.Text)
	case "tool_call":
		c.spoke()
		c.call(u)
	case "tool_call_update":
		c.call(u)
	}
}

// call reads what is new about a call. A call begins for the reporter when its arguments are known, or when it ends.
func (c *conversation) call(u update) {
	_, known := c.calls[u.ID]
	if u.ID == "" || !known && (u.Kind != "tool_call" || len(c.calls) >= maxCalls) {
		return
	}
	call := c.calls.merge(u.toolCall)
	c.calls[u.ID] = call
	ended := u.Status == "completed" || u.Status == "failed"
	if ended || len(call.Input) > 0 {
		c.to.Began(tool.Call{ID: u.ID, Name: call.name(), Arguments: call.arguments()})
	}
	if ended {
		delete(c.calls, u.ID)
		text := shown(u.Content)
		c.to.Message(llm.Entry{Failed: u.Status == "failed",
			Message: llm.Message{Role: llm.ToolRole, CallID: u.ID, Content: call.Title + "\n" + text}})
		c.to.Finished(u.ID, u.Status == "failed", text)
	}
}

func (t toolCall) name() string { return cmp.Or(t.Does, "other") }

// arguments returns the arguments of the call, or its title if it has none.
func (t toolCall) arguments() json.RawMessage {
	if len(t.Input) > 0 {
		return t.Input
	}
	text, _ := json.Marshal(map[string]string{"title": t.Title}) // of texts: it cannot fail
	return text
}

// shown returns what a call shows, as text.
func shown(content json.RawMessage) string {
	var blocks []block
	if json.Unmarshal(content, &blocks) != nil {
		return ""
	}
	var b strings.Builder
	for _, part := range blocks {
		if part.Type == "diff" {
			b.WriteString(part.Path + "\n" + marked("-", part.Old) + marked("+", part.New))
			continue
		}
		b.WriteString(cmp.Or(part.Content.Text, part.Text, "["+part.Type+"]") + "\n")
	}
	return b.String()
}

// marked returns the lines of text, each behind a mark.
func marked(mark, text string) string {
	var b strings.Builder
	for l := range strings.Lines(text) {
		b.WriteString(mark + strings.TrimSuffix(l, "\n") + "\n")
	}
	return b.String()
}

// permission answers a question of the program. It may wait for a person, while the stream is read on.
func (c *conversation) permission(m message) {
	var p struct {
		Session string `json:"sessionId"`
		Call    struct {
			toolCall
			Content json.RawMessage `json:"content"`
		} `json:"toolCall"`
		Options []option `json:"options"`
	}
	if json.Unmarshal(m.Params, &p) != nil || p.Session != c.id {
		c.send(map[string]any{"id": m.ID, "error": map[string]any{"code": -32602, "message": "qq cannot read this"}})
		return
	}
	q := question(c.calls.merge(p.Call.toolCall), p.Call.Content)
	select {
	case c.slots <- struct{}{}:
	default:
		c.choose(m.ID, p.Options, false)
		return
	}
	c.open.Go(func() {
		defer func() { <-c.slots }()
		d := c.to.Ask(c.ctx, q)
		if c.ctx.Err() == nil { // else nobody waits for the answer
			c.choose(m.ID, p.Options, d.Allowed)
		}
	})
}

// option is an answer that the program offers.
type option struct {
	ID   string `json:"optionId"`
	Kind string `json:"kind"`
}

// choose answers a question with the option that allows or refuses this one call. Without such an option the question
// is cancelled, which refuses the call as well.
func (c *conversation) choose(id json.RawMessage, options []option, allowed bool) {
	want := "reject_once"
	if allowed {
		want = "allow_once"
	}
	outcome := map[string]any{"outcome": "cancelled"}
	for _, o := range options {
		if o.Kind == want {
			outcome = map[string]any{"outcome": "selected", "optionId": o.ID}
			break
		}
	}
	c.send(map[string]any{"id": id, "result": map[string]any{"outcome": outcome}})
}

// question returns what a call does, as far as the program says.
func question(t toolCall, content json.RawMessage) wire.Question {
	q := wire.Question{CallID: t.ID, Tool: t.name(), Effect: tool.Executes, Summary: t.Title}
	q.Preview = strings.TrimSpace(string(t.Input) + "\n" + shown(content))
	for _, l := range t.Locations {
		if l.Path != "" {
			q.Paths = append(q.Paths, l.Path)
		}
	}
	switch t.Does {
	case "read", "search", "think":
		q.Effect = tool.Reads
	case "edit", "delete", "move":
		q.Effect = tool.Writes
	case "fetch":
		q.Effect = tool.Network
	default: // execute, other, and what a later version adds
		q.Paths = nil
		var in struct {
			Command string `json:"command"`
		}
		if json.Unmarshal(t.Input, &in) == nil {
			q.Command = in.Command
		}
	}
	return q
}
