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
		Content   string     `json:"content"`
		Thinking  string     `json:"thinking"`
		ToolCalls []chatCall `json:"tool_calls"`
	} `json:"message"`
	Done            bool   `json:"done"`
	DoneReason      string `json:"done_reason"`
	PromptEvalCount int    `json:"prompt_eval_count"`
	EvalCount       int    `json:"eval_count"`
	Error           string `json:"error"`
	// Total and the other durations are in nanoseconds. Servers send whole numbers; as float64, a
	// number in another form does not fail the answer.
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
	last     chunk // the one with Done set
	sent     time.Time
	began    time.Time // when the first line came
}

// read adds the chunks of the stream r to a. It returns nil at the end of the stream, even if no chunk had Done
// set. It reads on after the last chunk, because a connection can be reused only when it was read to its end.
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
		if err := a.add(&c); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (a *answer) add(c *chunk) error {
	thinking, text := a.split.add(c.Message.Content)
	a.emit(c.Message.Thinking+thinking, text)
	for _, tc := range c.Message.ToolCalls {
		args := tc.Function.Arguments
		switch {
		case len(args) == 0 || string(args) == "null":
			args = json.RawMessage("{}")
		case args[0] != '{':
			return fmt.Errorf("arguments of a call of %s are not an object", wire.OneLine(tc.Function.Name))
		}
		if tc.ID == "" {
			tc.ID = "call_" + strings.ToLower(rand.Text()[:12])
		}
		a.calls = append(a.calls, tool.Call{ID: tc.ID, Name: tc.Function.Name, Arguments: args})
	}
	if c.Done {
		a.last = *c
	}
	return nil
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
		Usage:  task.Usage{InputTokens: a.last.PromptEvalCount, OutputTokens: a.last.EvalCount},
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
