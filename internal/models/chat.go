package models

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

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
	req, err := newChatRequest(b.model, r)
	if err != nil {
		return llm.Response{}, err
	}
	tokens := promptTokens(r)
	size, corrected, err := b.window.fit(tokens, answerTokens(b.model, r))
	if err != nil {
		return llm.Response{}, err
	}
	for {
		req.Options.NumCtx = size
		if r.MaxTokens <= 0 {
			req.Options.NumPredict = answerLimit(size, corrected)
		}
		a := &answer{yield: yield, most: max(minAnswer, answerContexts*bytesPerToken*max(size, b.model.Context))}
		err := b.ask(ctx, req, a, tokens)
		counted := int(a.last.PromptEvalCount)
		switch {
		case err == nil && wasCut(counted, size, corrected):
			err = overflow(fmt.Sprintf("the server cut the prompt to %d tokens, its context has %d", counted, size),
				nil)
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

// ask makes one request and collects the answer in a, also the part that came before an error. It returns nil only
// if the server said that the answer is complete. tokens is the estimate for the prompt.
func (b *backend) ask(ctx context.Context, req *chatRequest, a *answer, tokens int) error {
	body, err := req.encode()
	if err != nil {
		return b.client.unsent(err)
	}
	u, header, err := b.client.sign(ctx, http.MethodPost, "/api/chat")
	if err != nil {
		return b.client.unsent(err)
	}
	a.sent = time.Now()
	stream, err := b.client.transport.Post(ctx, u, header, body)
	if err != nil {
		return b.client.explain(ctx, b.model.Name, err)
	}
	defer stream.Close()
	err = a.read(stream)
	a.finish()
	switch {
	case a.last.Done:
		a.believe(req.Options.NumCtx, len(body), tokens)
		drain(stream)
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errTooLong):
		return &llm.Error{Kind: llm.TooLong, Err: err,
			Problem: fmt.Sprintf("answer of %s did not end: it was cut after %d MiB", b.model.Name, a.most>>20),
			Hint:    "use another model, or look after the model server"}
	case errors.Is(err, bufio.ErrTooLong):
		return &llm.Error{Kind: llm.BrokenStream, Err: err,
			Problem: fmt.Sprintf("answer of %s has a line of more than %d MiB", b.model.Name, wire.MaxLine>>20),
			Hint:    "look after the model server: it ends a line after each word or so"}
	case err == nil:
		err = errors.New("the stream ended early")
	}
	return &llm.Error{Kind: llm.BrokenStream, Err: err,
		Problem: fmt.Sprintf("answer of %s broke off: %s", b.model.Name, wire.OneLine(err.Error()))}
}

// drain reads the end of a stream after the last line of an answer, because a connection can be reused only when it
// was read to its end. Little may follow, and soon: else the connection is closed.
func drain(stream io.ReadCloser) {
	const atMost, soon = 64 << 10, time.Second
	stop := time.AfterFunc(soon, func() { stream.Close() })
	defer stop.Stop()
	_, _ = io.CopyN(io.Discard, stream, atMost) // the answer is whole
}
