package models

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"qq/pkg/llm"
	"qq/pkg/task"
)

// tooLong is how a server of v0.17 says that a prompt does not fit. Its status
// is 400 like that of every bad request, so there is nothing but the words.
const tooLong = "exceeds the context length"

// explain turns what went wrong with a request for the named model (empty for
// a request about none) into an [*llm.Error], or into the cause of ctx when
// that has ended.
func (c *Client) explain(ctx context.Context, model string, t *trip, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if status, ok := errors.AsType[*statusError](err); ok {
		return c.explainStatus(model, status)
	}
	var (
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError
		transport   *url.Error // http.Client wraps all that happens on the way
	)
	switch {
	case errors.As(err, &certificate), errors.As(err, &record):
		return &llm.Error{Kind: llm.Rejected, Err: err,
			Problem: fmt.Sprintf("no secure connection to Ollama at %s: %s", c.base.Host, innermost(err)),
			Hint:    "check http:// or https:// in OLLAMA_HOST and the certificate of the server"}
	case !t.replied && !errors.As(err, &transport):
		return &llm.Error{Kind: llm.Rejected, Err: err,
			Problem: fmt.Sprintf("prepare request to Ollama at %s: %s", c.base.Host, oneLine(err.Error()))}
	case !t.replied:
		return &llm.Error{Kind: llm.Unreachable, Err: err,
			Problem: fmt.Sprintf("no answer from Ollama at %s: %s", c.base.Host, innermost(err)),
			Hint:    "start it with `ollama serve`, or set OLLAMA_HOST"}
	case t.readErr != nil:
		return &llm.Error{Kind: llm.BrokenStream, Err: t.readErr,
			Problem: fmt.Sprintf("reply of Ollama at %s broke off: %s", c.base.Host, innermost(t.readErr))}
	}
	return &llm.Error{Kind: llm.Rejected, Err: err,
		Problem: fmt.Sprintf("%s does not answer as Ollama does: %s", c.base.Host, oneLine(err.Error())),
		Hint:    "set OLLAMA_HOST to the address of an Ollama server"}
}

func (c *Client) explainStatus(model string, s *statusError) error {
	e := &llm.Error{Status: s.status, RetryAfter: s.retryAfter, Err: s}
	switch {
	case s.status == http.StatusNotFound && model != "":
		e.Kind, e.Problem = llm.UnknownModel, fmt.Sprintf("Ollama at %s has no model %q", c.base.Host, model)
		e.Hint = fmt.Sprintf("ollama pull %s", model)
		return e
	case s.status == http.StatusBadRequest && strings.Contains(s.message, tooLong):
		return overflow(s.message, e)
	case s.status == http.StatusTooManyRequests, s.status == http.StatusBadGateway,
		s.status == http.StatusServiceUnavailable, s.status == http.StatusGatewayTimeout:
		e.Kind, e.Hint = llm.Busy, "try again later, or run fewer tasks at once"
	case s.status >= 500:
		e.Kind, e.Hint = llm.Server, "the log of the Ollama server says more"
	case s.status == http.StatusUnauthorized:
		e.Kind, e.Hint = llm.Rejected, "sign in with `ollama signin`, or use a local model"
	case s.status < 400:
		e.Kind, e.Hint = llm.Rejected, "set OLLAMA_HOST to that address if it is meant"
	default:
		e.Kind = llm.Rejected
	}
	e.Problem = fmt.Sprintf("Ollama at %s answered %d: %s", c.base.Host, s.status, s.message)
	return e
}

// overflow is the failure of a prompt that does not fit, or did not.
func overflow(detail string, e *llm.Error) *llm.Error {
	if e == nil {
		e = &llm.Error{}
	}
	e.Kind = llm.ContextOverflow
	e.Problem = "context overflow: " + detail
	e.Hint = "shorten the task, split it, or use a model with a larger context"
	return e
}

// innermost is the text of the last error that err wraps: the layers above it
// repeat the address.
func innermost(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return oneLine(err.Error())
		}
		err = next
	}
}

// oneLine makes text of a server fit for an error message: one line, no
// control characters, not endless.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	return task.Shorten(strings.ToValidUTF8(s, "�"), 300)
}
