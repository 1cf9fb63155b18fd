package models

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
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
	if !b.sized() {
		b.window.raise(m.Context)
	}
	return b
}

type backend struct {
	client  *Client
	dialect dialect.Dialect
	model   Model
	window  window
	refusals
}

var _ llm.Backend = (*backend)(nil)

// The text, the thinking and the tool calls of one answer may have as many bytes as answerContexts contexts of the
// model, with bytesPerToken bytes for each token, but at least minAnswer.
const (
	answerContexts = 4
	bytesPerToken  = 4
	minAnswer      = 8 << 20
)

// longestThinking is how many tokens an answer may have at a server that does not say what its models can: some bill
// thinking that they do not send.
const longestThinking = 1 << 18

// Chat implements [llm.Backend].
func (b *backend) Chat(ctx context.Context, r llm.Request, yield func(llm.Chunk)) (llm.Response, error) {
	if !b.model.Tools {
		r.Tools = nil
	}
	tokens, images := dialect.PromptTokens(r), 0
	for i := range r.Messages {
		images += dialect.ImageTokens * len(r.Messages[i].Images)
	}
	// What a server counts for an image differs too much to judge a prompt by it: images only need room.
	text := tokens - images
	size, corrected, err := b.window.fit(text, images+answerTokens(b.model, r))
	if err != nil {
		return llm.Response{}, err
	}
	ask := b.taken(&dialect.Ask{Request: r, Model: b.model.Name, Thinking: b.model.Thinking})
	for {
		ask.Context, ask.Limit = size, b.limit(r.MaxTokens, size, corrected+images)
		a := dialect.NewAnswer(yield, max(minAnswer, answerContexts*bytesPerToken*max(size, b.model.Context)))
		err := b.send(ctx, ask, a, tokens, yield)
		switch {
		case err == nil && (b.sized() || b.model.Context > 0) && wasCut(a.Counted(), size, corrected):
			err = overflow(fmt.Sprintf("the server cut the prompt to %d tokens, its context has %d", a.Counted(), size),
				nil)
		case err == nil && images == 0:
			b.window.learn(text, a.Counted())
		case isKind(err, llm.ContextOverflow):
			if next, ok := b.window.grow(size); ok {
				size = next
				continue
			}
		default:
			if next := b.refused(ask, err); next != nil {
				ask = next
				continue
			}
		}
		return a.Response(), b.client.discreet(err)
	}
}

// sized reports whether requests say how large the context shall be. Other servers have a context of their own.
func (b *backend) sized() bool { return b.client.server.Kind == servers.Ollama }

// limit returns the limit of tokens for an answer, of which the request wants most; 0 means that the server decides. A
// server whose context is its own refuses a limit that its model does not have.
func (b *backend) limit(most, context, prompt int) int {
	switch {
	case most > 0:
		return most
	case b.sized():
		return answerLimit(context, prompt)
	case b.model.Answer > 0 && b.model.Context > 0:
		return min(b.model.Answer, max(context-int(float64(prompt)*margin), 1))
	}
	return b.model.Answer
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
	output := ask.Context
	if !b.sized() && b.model.Context == 0 {
		output = max(output, longestThinking) // the context is only a guess
	}
	a.Believe(ask.Context, len(body), tokens, output)
	switch {
	case a.Ended():
		drain(reply)
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, dialect.ErrTooLong):
		return &llm.Error{Kind: llm.TooLong, Err: err,
			Problem: fmt.Sprintf("answer of %s did not end: it was cut after %d MiB", b.model.Name, a.Most()>>20),
			Hint:    "use another model, or look after the model server"}
	case errors.Is(err, bufio.ErrTooLong):
		return &llm.Error{Kind: llm.BrokenStream, Err: err,
			Problem: fmt.Sprintf("answer of %s has a line of more than %d MiB", b.model.Name, wire.MaxLine>>20),
			Hint:    "look after the model server: it ends a line after each word or so"}
	case err == io.EOF:
		err = errors.New("the stream ended early")
	}
	kind := llm.BrokenStream
	if f, ok := errors.AsType[*dialect.Failure](err); ok {
		kind = f.Kind
	}
	if kind == llm.ContextOverflow || kind == llm.Rejected && wire.IsTooLong(err.Error()) {
		return overflow(llm.OneLine(err.Error()), &llm.Error{Err: err})
	}
	return &llm.Error{Kind: kind, Err: err, Hint: whenUsedUp(kind),
		Problem: fmt.Sprintf("answer of %s broke off: %s", b.model.Name, llm.OneLine(err.Error()))}
}

// read adds what the server streams to a, up to the end of the answer and what the server says about it, which may
// follow soon. The error is io.EOF if the stream ended before the answer.
func (b *backend) read(body io.ReadCloser, a *dialect.Answer) error {
	var stream wire.Stream = wire.NewEvents(body)
	if b.model.Kind == servers.Ollama {
		stream = wire.NewLines(body)
	}
	end := time.AfterFunc(math.MaxInt64, func() { body.Close() }) // not yet
	defer end.Stop()
	for ended := false; ; ended = a.Ended() {
		line, err := stream.Next()
		if len(line.Data) > 0 { // an empty event keeps the connection alive
			if wrong := a.Take(b.dialect, line.Data); wrong != nil || a.Closed() {
				return cmp.Or(err, wrong) // a line that is cut off is not wrong
			}
		}
		if err != nil {
			return err
		}
		switch {
		case !a.Ended():
			end.Stop()
		case b.model.Kind == servers.Gemini:
			end.Reset(later)
		case !ended:
			end.Reset(soon)
		}
	}
}

// soon is how long the end of a stream may take after the end of the answer. later is that for Gemini, which may go on
// with the answer.
const (
	soon  = time.Second
	later = 20 * time.Second
)

// drain reads the end of a stream after the last line of an answer, because a connection can be reused only when it
// was read to its end. Little may follow, and soon: else the connection is closed.
func drain(stream io.ReadCloser) {
	const atMost = 64 << 10
	stop := time.AfterFunc(soon, func() { stream.Close() })
	defer stop.Stop()
	_, _ = io.CopyN(io.Discard, stream, atMost) // the answer is whole
}
