package models

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"

	"qq/internal/models/wire"
	"qq/pkg/llm"
)

// tooLong is part of the text by which Ollama 0.17 says that a prompt does not fit. The status is 400 as for every
// bad request, so only the text tells them apart.
const tooLong = "exceeds the context length"

// explain converts the error of a request to an [*llm.Error], or to the cause of ctx if ctx has
// ended. model is the name of the requested model, or "".
func (c *Client) explain(ctx context.Context, model string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f, ok := errors.AsType[*wire.Fault](err)
	switch {
	case !ok && isPath(err): // the key that signs requests cannot be read
		return c.unsent(err)
	case !ok:
		return &llm.Error{Kind: llm.Rejected, Err: err,
			Problem: fmt.Sprintf("%s does not answer as Ollama does: %s", c.base.Host, llm.OneLine(err.Error())),
			Hint:    "set OLLAMA_HOST to the address of an Ollama server"}
	case f.Status != 0:
		return c.explainStatus(model, f)
	}
	e := &llm.Error{Kind: f.Kind, Err: f.Err}
	switch f.Kind {
	case llm.Unreachable:
		e.Problem = fmt.Sprintf("no answer from Ollama at %s: %s", c.base.Host, f.Text)
		e.Hint = "start it with `ollama serve`, or set OLLAMA_HOST"
	case llm.BrokenStream:
		e.Problem = fmt.Sprintf("reply of Ollama at %s broke off: %s", c.base.Host, f.Text)
	default:
		e.Problem = fmt.Sprintf("no secure connection to Ollama at %s: %s", c.base.Host, f.Text)
		e.Hint = "check http:// or https:// in OLLAMA_HOST and the certificate of the server"
	}
	return e
}

func (c *Client) explainStatus(model string, f *wire.Fault) error {
	e := &llm.Error{Kind: f.Kind, Status: f.Status, RetryAfter: f.RetryAfter, Err: f,
		Problem: fmt.Sprintf("Ollama at %s answered %d: %s", c.base.Host, f.Status, f.Text)}
	switch {
	case f.Status == http.StatusNotFound && model != "":
		e.Kind, e.Problem = llm.UnknownModel, fmt.Sprintf("Ollama at %s has no model %q", c.base.Host, model)
		e.Hint = fmt.Sprintf("ollama pull %s", model)
	case f.Status == http.StatusBadRequest && strings.Contains(f.Text, tooLong):
		return overflow(f.Text, e)
	case f.Kind == llm.Busy:
		e.Hint = "try again later, or run fewer tasks at once"
	case f.Kind == llm.Server:
		e.Hint = "the log of the Ollama server says more"
	case f.Status == http.StatusUnauthorized:
		e.Hint = "sign in with `ollama signin`, or use a local model"
	case f.Status < 400:
		e.Hint = "set OLLAMA_HOST to that address if it is meant"
	}
	return e
}

// unsent returns the error for a request that could not be built.
func (c *Client) unsent(err error) error {
	return &llm.Error{Kind: llm.Rejected, Err: err,
		Problem: fmt.Sprintf("prepare request to Ollama at %s: %s", c.base.Host, llm.OneLine(err.Error()))}
}

func isPath(err error) bool {
	_, ok := errors.AsType[*fs.PathError](err)
	return ok
}

// overflow returns the error for a prompt that is longer than the context. If e is not nil, it
// adds the details to e.
func overflow(detail string, e *llm.Error) *llm.Error {
	if e == nil {
		e = &llm.Error{}
	}
	e.Kind = llm.ContextOverflow
	e.Problem = "context overflow: " + detail
	e.Hint = "shorten the task, split it, or use a model with a larger context"
	return e
}
