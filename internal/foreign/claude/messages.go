package claude

import (
	"cmp"
	"encoding/json"
	"math"
	"strings"

	"qq/pkg/llm"
	"qq/pkg/money"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// line is a line of the program. What other types of lines have is left out.
type line struct {
	Type    string          `json:"type"`
	Subtype string          `json:"subtype"`
	Parent  string          `json:"parent_tool_use_id"` // of the call of which a sub-agent writes
	Session string          `json:"session_id"`
	Model   string          `json:"model"`
	Message json.RawMessage `json:"message"`
	Event   json.RawMessage `json:"event"`
	// Of a control_request, and of one that is taken back.
	RequestID string          `json:"request_id"`
	Request   json.RawMessage `json:"request"`
}

// result is the line that ends a turn.
type result struct {
	Subtype    string          `json:"subtype"`
	IsError    bool            `json:"is_error"`
	Result     string          `json:"result"`
	Structured json.RawMessage `json:"structured_output"`
	Errors     []string        `json:"errors"`
	Turns      int             `json:"num_turns"`
	Cost       float64         `json:"total_cost_usd"`
	Usage      usage           `json:"usage"`
	Models     map[string]struct {
		In      int `json:"inputTokens"`
		Out     int `json:"outputTokens"`
		Read    int `json:"cacheReadInputTokens"`
		Written int `json:"cacheCreationInputTokens"`
	} `json:"modelUsage"`
}

// usage is what one answer of the model used.
type usage struct {
	In      int `json:"input_tokens"`
	Out     int `json:"output_tokens"`
	Read    int `json:"cache_read_input_tokens"`
	Written int `json:"cache_creation_input_tokens"`
}

// most bounds a number of tokens.
const most = 1 << 40

func bounded(n int) int { return min(max(n, 0), most) }

func (u usage) usage() task.Usage {
	read := bounded(u.Read)
	return task.Usage{InputTokens: bounded(u.In) + bounded(u.Written) + read, OutputTokens: bounded(u.Out),
		CachedTokens: read}
}

// message is an answer of the model, or results of calls.
type message struct {
	ID      string          `json:"id"`
	Model   string          `json:"model"`
	Content json.RawMessage `json:"content"` // a text or blocks
	Usage   usage           `json:"usage"`
}

// block is a part of a message.
type block struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	ID      string          `json:"id"`
	Name    string          `json:"name"`
	Input   json.RawMessage `json:"input"`
	CallID  string          `json:"tool_use_id"`
	IsError bool            `json:"is_error"`
	Content json.RawMessage `json:"content"` // of a result: a text or blocks
}

// blocks returns the blocks of a content, which may be a text.
func blocks(content json.RawMessage) (all []block) {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return []block{{Type: "text", Text: text}}
	}
	if json.Unmarshal(content, &all) != nil {
		return nil
	}
	return all
}

// textOf returns the text of a content.
func textOf(content json.RawMessage) string {
	var b strings.Builder
	for _, part := range blocks(content) {
		switch {
		case part.Type != "text":
			b.WriteString("[" + cmp.Or(part.Type, "part") + "]")
		default:
			b.WriteString(part.Text)
		}
	}
	return b.String()
}

// take reads a line. What is no line of the program's is left out.
func (c *conversation) take(text []byte) {
	var l line
	if json.Unmarshal(text, &l) != nil {
		return
	}
	switch l.Type {
	case "system":
		if l.Subtype == "init" {
			c.out.Session, c.out.Model = l.Session, l.Model
		}
	case "assistant":
		c.answer(l)
	case "user":
		c.results(l)
	case "stream_event":
		c.piece(l)
	case "control_request":
		c.request(l)
	case "control_cancel_request":
		c.withdraw(l.RequestID)
	case "result":
		c.end(text, l)
	}
}

// answer reads a part of an answer of the model.
func (c *conversation) answer(l line) {
	var m message
	if json.Unmarshal(l.Message, &m) != nil {
		return
	}
	c.tally.at(l.Parent, m.ID, m.Usage.usage())
	c.to.Used(c.tally.sum())
	e := llm.Entry{Message: llm.Message{Role: llm.Assistant}}
	for _, b := range blocks(m.Content) {
		switch b.Type {
		case "text":
			e.Content += b.Text
		case "tool_use":
			call := tool.Call{ID: b.ID, Name: b.Name, Arguments: b.Input}
			e.Calls = append(e.Calls, call)
		}
	}
	if l.Parent == "" && (e.Content != "" || len(e.Calls) > 0) {
		c.to.Message(e)
	}
	for _, call := range e.Calls {
		c.to.Began(call)
	}
}

// results reads results of calls.
func (c *conversation) results(l line) {
	var m message
	if json.Unmarshal(l.Message, &m) != nil {
		return
	}
	for _, b := range blocks(m.Content) {
		if b.Type != "tool_result" {
			continue
		}
		text := textOf(b.Content)
		if l.Parent == "" {
			c.to.Message(llm.Entry{Message: llm.Message{Role: llm.ToolRole, CallID: b.CallID, Content: text},
				Failed: b.IsError})
		}
		c.to.Finished(b.CallID, b.IsError, text)
	}
}

// piece reads an event of the stream of the model.
func (c *conversation) piece(l line) {
	var e struct {
		Type    string  `json:"type"`
		Message message `json:"message"`
		Delta   struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"delta"`
		Usage usage `json:"usage"`
	}
	if json.Unmarshal(l.Event, &e) != nil {
		return
	}
	switch e.Type {
	case "message_start":
		c.tally.at(l.Parent, e.Message.ID, e.Message.Usage.usage())
		if l.Parent == "" {
			c.turns++
			c.to.Turn(c.turns)
		}
	case "content_block_delta":
		if e.Delta.Type == "text_delta" && l.Parent == "" {
			c.to.Text(e.Delta.Text)
		}
	case "message_delta":
		c.tally.grow(l.Parent, e.Usage.usage())
		c.to.Used(c.tally.sum())
	}
}

// end reads the line that ends the turn.
func (c *conversation) end(text []byte, l line) {
	var r result
	if json.Unmarshal(text, &r) != nil {
		return // it is no end mark: so there is none
	}
	o := &c.out
	o.Ended, o.Answer, o.Session, o.Turns = true, r.Result, cmp.Or(l.Session, o.Session), r.Turns
	if string(r.Structured) != "null" {
		o.Structured = r.Structured
	}
	o.Usage = r.Usage.usage()
	if len(r.Models) > 0 { // with those of sub-agents
		o.Usage = task.Usage{}
		for _, m := range r.Models {
			o.Usage = o.Usage.Add(usage{m.In, m.Out, m.Read, m.Written}.usage())
		}
	}
	if r.Cost > 0 {
		o.Usage.Cost = money.Amount(math.Ceil(min(r.Cost, 1e8) * 1e9)).Bounded()
		o.Usage.PricedTokens = o.Usage.Tokens()
	}
	if r.Subtype == "success" && !r.IsError {
		return
	}
	o.Failed = cmp.Or(r.Result, strings.Join(r.Errors, "; "), r.Subtype, "the turn failed")
	o.Answer = ""
	switch r.Subtype {
	case "error_max_turns":
		o.Status = task.TurnLimit
	case "error_max_budget_usd":
		o.Status = task.Limit
	}
}

// tally adds up what the answers of the models used.
type tally struct {
	done task.Usage
	now  map[string]current // by the call whose sub-agent gets the answer; "" is the agent itself
}

// current is the answer that is being written.
type current struct {
	id  string
	use task.Usage
}

// maxStreams is how many answers may be written at once.
const maxStreams = 256

// at notes the usage of the answer with that id, which is the current one of its stream from now on.
func (t *tally) at(stream, id string, u task.Usage) {
	if t.now == nil {
		t.now = map[string]current{}
	}
	was, ok := t.now[stream]
	switch {
	case ok && was.id == id:
		u = larger(was.use, u)
	case ok:
		t.done = t.done.Add(was.use)
	case len(t.now) == maxStreams:
		t.done = t.done.Add(u)
		return
	}
	t.now[stream] = current{id, u}
}

// grow notes that the current answer of a stream has become longer.
func (t *tally) grow(stream string, u task.Usage) {
	if was, ok := t.now[stream]; ok {
		t.now[stream] = current{was.id, larger(was.use, u)}
	}
}

// larger returns the larger of each number.
func larger(a, b task.Usage) task.Usage {
	return task.Usage{InputTokens: max(a.InputTokens, b.InputTokens), OutputTokens: max(a.OutputTokens, b.OutputTokens),
		CachedTokens: max(a.CachedTokens, b.CachedTokens)}
}

// sum returns all that was used so far.
func (t *tally) sum() task.Usage {
	all := t.done
	for _, c := range t.now {
		all = all.Add(c.use)
	}
	return all.Bounded(most)
}
