package models

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"qq/internal/models/wire"
	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// chunk is one line of the stream that answers a chat: a piece of the answer, or an error. The
// last line has Done set.
type chunk struct {
	Message struct {
		Role      string     `json:"role"` // assistant; some servers leave it out
		Content   string     `json:"content"`
		Thinking  string     `json:"thinking"`
		ToolCalls []chatCall `json:"tool_calls"`
	} `json:"message"`
	Done       bool   `json:"done"`
	DoneReason string `json:"done_reason"`
	Error      string `json:"error"`
	// The counts are in tokens, the durations in nanoseconds. Servers send whole numbers; as
	// float64, a number in another form does not fail the answer.
	PromptEvalCount float64 `json:"prompt_eval_count"`
	EvalCount       float64 `json:"eval_count"`

	Total      float64 `json:"total_duration"`
	Load       float64 `json:"load_duration"`
	PromptEval float64 `json:"prompt_eval_duration"`
	Eval       float64 `json:"eval_duration"`
}

// answer collects the chunks of a stream into a response, and passes their text to yield as it arrives. yield may
// be nil.
type answer struct {
	yield    func(llm.Chunk)
	text     strings.Builder
	thinking strings.Builder
	calls    []tool.Call
	split    thinkSplitter
	most     int   // bytes of text, thinking and calls; 0 means no limit
	size     int   // bytes so far
	last     chunk // the one with Done set
	sent     time.Time
	began    time.Time // when the first line came
}

// errTooLong says that an answer has more bytes than answer.most.
var errTooLong = errors.New("the answer is too long")

// lineBytes and callBytes are how many bytes a line and a tool call count besides their texts, so that a stream of
// empty ones ends too.
const (
	lineBytes = 4
	callBytes = 64
)

// read adds the chunks of the stream r to a, up to the one with Done set: what follows it is no part of the answer.
// It returns nil at the end of the stream, even if no chunk had Done set.
func (a *answer) read(r io.Reader) error {
	lines := wire.Lines(r)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		if a.began.IsZero() {
			a.began = time.Now()
		}
		var c chunk
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			if lines.Err() != nil {
				return lines.Err() // the line is cut off
			}
			return fmt.Errorf("line that is no answer: %s", wire.OneLine(lines.Text()))
		}
		if c.Error != "" {
			return errors.New(wire.OneLine(c.Error))
		}
		if err := a.add(&c); err != nil || c.Done {
			return err
		}
	}
	return lines.Err()
}

// take returns the beginning of s that fits into the answer.
func (a *answer) take(s string) string {
	before := a.size
	if a.size += len(s); !a.full() {
		return s
	}
	return strings.ToValidUTF8(s[:max(a.most-before, 0)], "")
}

// full reports whether the answer has more bytes than it may have.
func (a *answer) full() bool { return a.most > 0 && a.size > a.most }

func (a *answer) add(c *chunk) error {
	a.size += lineBytes
	if role := c.Message.Role; role != "" && role != string(llm.Assistant) {
		c.Message.Content, c.Message.Thinking, c.Message.ToolCalls = "", "", nil // it is no part of the answer
	}
	thinking, text := a.split.add(a.take(c.Message.Content))
	a.emit(a.take(c.Message.Thinking)+thinking, text)
	for _, tc := range c.Message.ToolCalls {
		args := tc.Function.Arguments
		switch {
		case len(args) == 0 || string(args) == "null":
			args = json.RawMessage("{}")
		case args[0] != '{':
			return fmt.Errorf("arguments of a call of %s are not an object", wire.OneLine(tc.Function.Name))
		}
		if a.size += len(tc.Function.Name) + len(args) + callBytes; a.full() {
			return errTooLong
		}
		if tc.ID == "" {
			tc.ID = "call_" + strings.ToLower(rand.Text()[:12])
		}
		a.calls = append(a.calls, tool.Call{ID: tc.ID, Name: tc.Function.Name, Arguments: args})
	}
	if a.full() {
		return errTooLong
	}
	if c.Done {
		a.last = *c
	}
	return nil
}

// believe replaces the counts of the server that cannot be true by estimates: those that are negative, or higher than
// both the context of the request and the bytes that were sent or received. sent is the size of the request, in
// bytes, and prompt the estimate for it, in tokens.
func (a *answer) believe(context, sent, prompt int) {
	if n := a.last.PromptEvalCount; n < 0 || n > float64(max(context, sent)) {
		a.last.PromptEvalCount = float64(min(prompt, context-1)) // the prompt was not cut
	}
	if n := a.last.EvalCount; n < 0 || n > float64(max(context, a.size)) {
		a.last.EvalCount = float64(Tokens(a.text.String()) + Tokens(a.thinking.String()))
	}
}

// finish passes on the text that a.split held back because it could have begun a tag.
func (a *answer) finish() { a.emit(a.split.flush()) }

func (a *answer) emit(thinking, text string) {
	if thinking == "" && text == "" {
		return
	}
	a.thinking.WriteString(thinking)
	a.text.WriteString(text)
	if a.yield != nil {
		a.yield(llm.Chunk{Text: text, Thinking: thinking})
	}
}

// timing returns how long the request waited at the server and how long it was served. Both are 0 if the server
// reports no durations or implausible ones. The wait is what loading the model and reading the prompt do not
// explain of the time until the first line, or of the total without generating, whichever is shorter. Time after
// the first line is no wait: servers spend some of it on work that they do not report (sampling, turns of other
// requests).
func (a *answer) timing() llm.Timing {
	const most = float64(24 * time.Hour)
	c := &a.last
	for _, d := range [...]float64{c.Total, c.Load, c.PromptEval, c.Eval} {
		if d < 0 || d > most {
			return llm.Timing{}
		}
	}
	if c.Total == 0 || c.PromptEval+c.Eval == 0 {
		return llm.Timing{} // the server reports no durations
	}
	begun := float64(a.began.Sub(a.sent))
	queued := max(min(c.Total-c.Eval, begun)-c.Load-c.PromptEval, 0)
	return llm.Timing{Queued: time.Duration(queued), Served: time.Duration(max(c.Total-c.Load-queued, 0))}
}

func (a *answer) response() llm.Response {
	resp := llm.Response{
		Message: llm.Message{
			Role: llm.Assistant, Content: a.text.String(), Thinking: a.thinking.String(), Calls: a.calls,
		},
		Usage:  task.Usage{InputTokens: int(a.last.PromptEvalCount), OutputTokens: int(a.last.EvalCount)},
		Timing: a.timing(),
	}
	switch {
	case a.last.DoneReason == "length":
		resp.Stop = llm.StopLength
	case a.last.Done:
		resp.Stop = llm.StopEnd
	}
	return resp
}
