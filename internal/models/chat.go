package models

import (
	"context"
	"errors"
	"fmt"
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
		a := &answer{yield: yield}
		err := b.ask(ctx, req, a)
		counted := a.last.PromptEvalCount
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
// if the server said that the answer is complete.
func (b *backend) ask(ctx context.Context, req *chatRequest, a *answer) error {
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
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil:
		err = errors.New("the stream ended early")
	}
	return &llm.Error{Kind: llm.BrokenStream, Err: err,
		Problem: fmt.Sprintf("answer of %s broke off: %s", b.model.Name, wire.OneLine(err.Error()))}
}
