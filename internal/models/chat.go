package models

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ollama/ollama/api"

	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Options adjust a backend. The zero value is fine.
type Options struct {
	// MinContext is the smallest context size to ask for, up to what the model
	// has. Processes that share a model share one loaded copy of it when they
	// ask for the same size.
	MinContext int
}

// Backend makes a backend of the model m.
func (c *Client) Backend(m Model, o Options) llm.Backend {
	b := &backend{client: c, model: m, window: window{limit: m.Context}}
	b.window.raise(o.MinContext)
	return b
}

type backend struct {
	client *Client
	model  Model
	window window
}

var _ llm.Backend = (*backend)(nil)

// Chat implements [llm.Backend].
func (b *backend) Chat(ctx context.Context, r llm.Request, yield func(llm.Chunk)) (llm.Response, error) {
	if !b.model.Tools {
		r.Tools = nil
	}
	req, err := b.chatRequest(r)
	if err != nil {
		return llm.Response{}, err
	}
	tokens := promptTokens(r)
	size, corrected, err := b.window.fit(tokens, answerTokens(b.model, r))
	if err != nil {
		return llm.Response{}, err
	}
	for {
		req.Options["num_ctx"] = size
		a := &answer{yield: yield}
		err := b.ask(ctx, req, a)
		counted := a.last.PromptEvalCount
		switch {
		case err == nil && wasCut(counted, size, corrected):
			err = overflow(fmt.Sprintf("the server cut the prompt to %d tokens, its context has %d", counted, size), nil)
		case err == nil:
			b.window.learn(tokens, counted)
		case isKind(err, llm.ContextOverflow):
			if next, ok := b.window.grow(size); ok {
				size = next
				continue
			}
		}
		return a.response(), err
	}
}

// ask makes one request and collects what comes back in a. It returns nil only
// when the server said that the answer is done.
func (b *backend) ask(ctx context.Context, req *api.ChatRequest, a *answer) error {
	client, t := b.client.request()
	t.stream = a.read
	a.sent = time.Now()
	err := client.Chat(ctx, req, nil) // what to do with chunks: see trip
	a.finish()
	switch {
	case a.last.Done:
		return nil
	case ctx.Err() != nil || !t.replied:
		return b.client.explain(ctx, b.model.Name, t, err)
	}
	if err = t.readErr; err == nil {
		err = errors.New("the stream ended early")
	}
	return &llm.Error{Kind: llm.BrokenStream, Err: err,
		Problem: fmt.Sprintf("answer of %s broke off: %s", b.model.Name, innermost(err))}
}

// chunk is one line of a stream: what is needed of an [api.ChatResponse], with
// the arguments of calls as they came, or an error.
type chunk struct {
	Message struct {
		Content   string     `json:"content"`
		Thinking  string     `json:"thinking"`
		ToolCalls []toolCall `json:"tool_calls"`
	} `json:"message"`
	Done            bool   `json:"done"`
	DoneReason      string `json:"done_reason"`
	PromptEvalCount int    `json:"prompt_eval_count"`
	EvalCount       int    `json:"eval_count"`
	Error           string `json:"error"`
	// Where the time went, in nanoseconds. They are whole numbers, but an answer
	// shall not be lost over a server that writes them otherwise.
	Total      float64 `json:"total_duration"`
	Load       float64 `json:"load_duration"`
	PromptEval float64 `json:"prompt_eval_duration"`
	Eval       float64 `json:"eval_duration"`
}

type toolCall struct {
	ID       string `json:"id"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// answer collects a stream and hands it on.
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

// read reads a stream to its end. What comes behind the last chunk does not
// matter, but a connection is used again only when it was read.
func (a *answer) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
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
				return lines.Err() // it is the beginning of a line
			}
			return fmt.Errorf("line that is no answer: %s", oneLine(lines.Text()))
		}
		if c.Error != "" {
			return errors.New(oneLine(c.Error))
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
			return fmt.Errorf("arguments of a call of %s are not an object", oneLine(tc.Function.Name))
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

// finish hands on what waited for the rest of a tag.
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

// timing is where the time of the request went. It waited until the server took
// it up: for what is left of the total, but no longer than until the first line.
// For what is left holds more: a server may not count the choosing of tokens, or
// the turns of others that it serves at once, as evaluation. To load a model is
// not to wait.
func (a *answer) timing() llm.Timing {
	const most = float64(24 * time.Hour)
	c := &a.last
	for _, d := range [...]float64{c.Total, c.Load, c.PromptEval, c.Eval} {
		if d < 0 || d > most {
			return llm.Timing{}
		}
	}
	if c.Total == 0 || c.PromptEval+c.Eval == 0 {
		return llm.Timing{} // it does not say
	}
	begun := float64(a.began.Sub(a.sent))
	queued := max(min(c.Total-c.Eval, begun)-c.Load-c.PromptEval, 0)
	return llm.Timing{Queued: time.Duration(queued), Served: time.Duration(max(c.Total-c.Load-queued, 0))}
}

func (a *answer) response() llm.Response {
	resp := llm.Response{
		Message: llm.Message{Role: llm.Assistant, Content: a.text.String(), Thinking: a.thinking.String(), Calls: a.calls},
		Usage:   task.Usage{InputTokens: a.last.PromptEvalCount, OutputTokens: a.last.EvalCount},
		Timing:  a.timing(),
	}
	switch {
	case a.last.DoneReason == "length":
		resp.Stop = llm.StopLength
	case a.last.Done:
		resp.Stop = llm.StopEnd
	}
	return resp
}
