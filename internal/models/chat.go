package models

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"qq/internal/models/dialect"
	"qq/internal/models/servers"
	"qq/internal/models/wire"
	"qq/pkg/llm"
)

// Options adjust a backend. The zero value means the defaults.
type Options struct {
	// MinContext is the smallest context size to request, in tokens. A model with a smaller context gets what it
	// has. Processes that request the same size share one loaded copy of a model.
	MinContext int
}

// Backend returns a backend that sends its requests to model m.
func (c *Client) Backend(m Model, o Options) llm.Backend {
	b := &backend{client: c, dialect: c.dialect, model: m, window: window{limit: m.Context}}
	b.window.raise(o.MinContext)
	return b
}

type backend struct {
	client  *Client
	dialect dialect.Dialect
	model   Model
	window  window
}

var _ llm.Backend = (*backend)(nil)

// The text, the thinking and the tool calls of one answer may have as many bytes as answerContexts contexts of the
// model, with bytesPerToken bytes for each token, but at least minAnswer.
const (
	answerContexts = 4
	bytesPerToken  = 4
	minAnswer      = 8 << 20
)

// Chat implements [llm.Backend].
func (b *backend) Chat(ctx context.Context, r llm.Request, yield func(llm.Chunk)) (llm.Response, error) {
	if !b.model.Tools {
		r.Tools = nil
	}
	tokens := dialect.PromptTokens(r)
	size, corrected, err := b.window.fit(tokens, answerTokens(b.model, r))
	if err != nil {
		return llm.Response{}, err
	}
	ask := &dialect.Ask{Request: r, Model: b.model.Name, Thinking: b.model.Thinking}
	for {
		ask.Context, ask.Limit = size, r.MaxTokens
		if r.MaxTokens <= 0 {
			ask.Limit = answerLimit(size, corrected)
		}
		a := dialect.NewAnswer(yield, max(minAnswer, answerContexts*bytesPerToken*max(size, b.model.Context)))
		err := b.send(ctx, ask, a, tokens, yield)
		switch {
		case err == nil && wasCut(a.Counted(), size, corrected):
			err = overflow(fmt.Sprintf("the server cut the prompt to %d tokens, its context has %d", a.Counted(), size),
				nil)
		case err == nil:
			b.window.learn(tokens, a.Counted())
		case isKind(err, llm.ContextOverflow):
			if next, ok := b.window.grow(size); ok {
				size = next
				continue
			}
		}
		return a.Response(), err
	}
}

// send makes one request and collects the answer in a, also the part that came before an error. It returns nil only
// if the server said that the answer is complete. tokens is the estimate for the prompt. What the server says about
// further requests goes to yield at once.
func (b *backend) send(
	ctx context.Context, ask *dialect.Ask, a *dialect.Answer, tokens int, yield func(llm.Chunk),
) error {
	path, body, err := b.dialect.Encode(ask)
	if _, ok := errors.AsType[*llm.Error](err); ok {
		return err
	}
	if err != nil {
		return b.client.unsent(err)
	}
	u, header, err := b.client.sign(ctx, http.MethodPost, path)
	if err != nil {
		return b.client.unsent(err)
	}
	a.Asked()
	reply, err := b.client.transport.Post(ctx, u, header, body)
	if f, ok := errors.AsType[*wire.Fault](err); ok {
		reply.Allowed = f.Allowed
	}
	if reply.Allowed != (llm.Allowance{}) && yield != nil {
		yield(llm.Chunk{Allowed: &reply.Allowed})
	}
	if err != nil {
		return b.client.explain(ctx, b.model.Name, err)
	}
	defer reply.Close()
	err = b.read(reply, a)
	a.Finish()
	switch {
	case a.Ended():
		a.Believe(ask.Context, len(body), tokens)
		drain(reply)
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, dialect.ErrTooLong):
		return &llm.Error{Kind: llm.TooLong, Err: err,
			Problem: fmt.Sprintf("answer of %s did not end: it was cut after %d MiB", b.model.Name, a.Most()>>20),
			Hint:    "use another model, or look after the model server"}
	case errors.Is(err, bufio.ErrTooLong):
		return &llm.Error{Kind: llm.TooLong, Err: err,
			Problem: fmt.Sprintf("answer of %s has a line of more than %d MiB", b.model.Name, wire.MaxLine>>20),
			Hint:    "look after the model server: it ends a line after each word or so"}
	case err == io.EOF:
		err = errors.New("the stream ended early")
	}
	kind := llm.BrokenStream
	if f, ok := errors.AsType[*dialect.Failure](err); ok && f.Kind == llm.Quota {
		kind = f.Kind
	}
	return &llm.Error{Kind: kind, Err: err, Hint: whenUsedUp(kind),
		Problem: fmt.Sprintf("answer of %s broke off: %s", b.model.Name, llm.OneLine(err.Error()))}
}

// read adds what the server streams to a, up to the end of the answer: what follows that is no part of it. Only its
// usage may follow, and soon. The error is io.EOF if the stream ended before the answer.
func (b *backend) read(body io.ReadCloser, a *dialect.Answer) error {
	var stream wire.Stream = wire.NewEvents(body)
	if b.model.Kind == servers.Ollama {
		stream = wire.NewLines(body)
	}
	ended := false
	for {
		line, err := stream.Next()
		if line.Data != nil {
			if wrong := a.Take(b.dialect, line.Data); wrong != nil || a.Closed() {
				return cmp.Or(err, wrong) // a line that is cut off is not wrong
			}
		}
		if err != nil {
			return err
		}
		if a.Ended() && !ended {
			ended = true
			defer time.AfterFunc(soon, func() { body.Close() }).Stop()
		}
	}
}

// soon is how long the end of a stream may take after the end of the answer.
const soon = time.Second

// drain reads the end of a stream after the last line of an answer, because a connection can be reused only when it
// was read to its end. Little may follow, and soon: else the connection is closed.
func drain(stream io.ReadCloser) {
	const atMost = 64 << 10
	stop := time.AfterFunc(soon, func() { stream.Close() })
	defer stop.Stop()
	_, _ = io.CopyN(io.Discard, stream, atMost) // the answer is whole
}
