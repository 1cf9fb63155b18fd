package models

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"

	"qq/internal/models/gate"
	"qq/internal/models/servers"
	"qq/internal/models/wire"
	"qq/pkg/llm"
)

// noCredit is part of the text by which Anthropic says that nothing is paid for. Its documentation has a class for
// that, but what it sends is that of every bad request.
const noCredit = "credit balance is too low"

// explain converts the error of a request to an [*llm.Error], or to the cause of ctx if ctx has
// ended. model is the name of the requested model, or "".
func (c *Client) explain(ctx context.Context, model string, err error) error {
	return c.discreet(c.explained(ctx, model, err))
}

func (c *Client) explained(ctx context.Context, model string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f, ok := errors.AsType[*wire.Fault](err)
	switch {
	case !ok && isPath(err): // the key that signs requests cannot be read
		return c.unsent(err)
	case !ok:
		return &llm.Error{Kind: llm.Rejected, Err: err,
			Hint:    "set " + c.server.Setting() + " to the address of " + c.kind(),
			Problem: fmt.Sprintf("%s does not answer as %s does: %s", c.base.Host, c.title(), llm.OneLine(err.Error()))}
	case f.Status != 0:
		return c.explainStatus(model, f)
	}
	e := &llm.Error{Kind: f.Kind, Err: f.Err}
	switch f.Kind {
	case llm.Unreachable:
		e.Problem = fmt.Sprintf("no answer from %s: %s", c.at(), f.Text)
		e.Hint = c.whenAway()
	case llm.BrokenStream:
		e.Problem = fmt.Sprintf("reply of %s broke off: %s", c.at(), f.Text)
	default:
		e.Problem = fmt.Sprintf("no secure connection to %s: %s", c.at(), f.Text)
		e.Hint = "check http:// or https:// in " + c.server.Setting() + " and the certificate of the server"
	}
	return e
}

func (c *Client) explainStatus(model string, f *wire.Fault) error {
	said := f.Text
	if !strings.HasSuffix(said, "..") { // it is not cut: a full stop would stand before what follows it
		said = strings.TrimSuffix(said, ".")
	}
	e := &llm.Error{Kind: f.Kind, Status: f.Status, RetryAfter: f.RetryAfter, Err: f,
		Problem: fmt.Sprintf("%s answered %d: %s", c.at(), f.Status, said)}
	switch {
	case f.Status == http.StatusNotFound && model != "":
		e.Kind, e.Problem = llm.UnknownModel, fmt.Sprintf("%s has no model %q", c.at(), model)
		if e.Hint = "qq models list shows those that it has"; c.server.Kind == servers.Ollama {
			if e.Hint = "ollama pull " + model; c.server.Name != servers.Ollama {
				e.Hint = "qq models pull " + c.server.Name + ":" + model
			}
		} else { // it may have the model, but not for this key or this request
			e.Problem += ": " + f.Text
		}
	case f.Status == http.StatusNotFound:
		e.Hint = c.whenElsewhere()
	case f.Kind == llm.ContextOverflow, f.Status == http.StatusBadRequest && wire.IsTooLong(f.Text):
		return overflow(f.Text, e)
	case f.Kind == llm.Quota, f.Status == http.StatusBadRequest && c.server.Kind == servers.Anthropic &&
		strings.Contains(f.Text, noCredit):
		e.Kind, e.Hint = llm.Quota, gate.QuotaHint
	case f.Kind == llm.Busy:
		e.Hint = "try again later, or run fewer tasks at once"
	case f.Kind == llm.Server:
		e.Hint = "the log of the " + c.title() + " server says more"
	case f.BadKey, f.Status == http.StatusUnauthorized,
		f.Status == http.StatusForbidden && c.server.Kind != servers.Ollama:
		e.Hint = c.whenRefused()
	case f.Status == http.StatusBadRequest && c.server.Kind == servers.OpenAI && strings.Contains(f.Text, "tool"):
		e.Hint = "if it takes no requests with tools, write no-tools in " + c.server.Setting()
	case f.Status < 400:
		e.Hint = "set " + c.server.Setting() + " to that address if it is meant"
	}
	return e
}

// discreet returns err without the key of the user, which some servers repeat in their errors.
func (c *Client) discreet(err error) error {
	if e, ok := errors.AsType[*llm.Error](err); ok {
		e.Problem, e.Hint = c.withoutKey(e.Problem), c.withoutKey(e.Hint)
	}
	return err
}

// withoutKey returns text without the key of the user. The text may be cut, so a long beginning of the key is the key.
func (c *Client) withoutKey(text string) string {
	const enough = 8 // bytes; a shorter key is a word such as none
	if len(c.key) < enough {
		return text
	}
	for {
		before, after, found := strings.Cut(text, c.key[:enough])
		if !found {
			return text
		}
		n := 0
		for n < min(len(c.key)-enough, len(after)) && after[n] == c.key[enough+n] {
			n++
		}
		text = before + "(the key)" + after[n:]
	}
}

// title returns how messages name the server.
func (c *Client) title() string {
	if c.server.Name == servers.Ollama {
		return "Ollama"
	}
	return c.server.Name
}

// at returns how messages name the server, with its address.
func (c *Client) at() string { return c.title() + " at " + c.base.Host }

// kind returns what kind of server it is, for hints.
func (c *Client) kind() string {
	if c.server.Kind == servers.Ollama {
		return "an Ollama server"
	}
	return "a server that speaks " + c.server.Kind
}

// whenAway returns what to do if the server does not answer.
func (c *Client) whenAway() string {
	switch {
	case c.server.Kind == servers.Ollama:
		return "start it with `ollama serve`, or set " + c.server.Setting()
	case servers.IsHere(c.base):
		return "start it, or set " + c.server.Setting()
	}
	return "look after the network, or set " + c.server.Setting()
}

// whenUsedUp returns what to do if kind says that a quota is used up, or "".
func whenUsedUp(kind llm.Kind) string {
	if kind != llm.Quota {
		return ""
	}
	return gate.QuotaHint
}

// whenRefused returns what to do if the server does not accept the key.
func (c *Client) whenRefused() string {
	switch {
	case c.server.Kind == servers.Ollama && c.key == "":
		return "sign in with `ollama signin`, or use a local model"
	case c.server.KeyName != "":
		return "check the key in " + c.server.KeyName
	case c.key != "": // a child does not know where it comes from
		return "check the key that key= or key_cmd= of " + c.server.Setting() + " names"
	}
	return "give the key in " + c.server.Setting() + ", for example: key=LAB_KEY"
}

// whenElsewhere returns what to do if the server does not know the path of a list of models.
func (c *Client) whenElsewhere() string {
	hint := "check the address in " + c.server.Setting()
	if usual := c.server.UsualPath(); !strings.HasSuffix(strings.TrimSuffix(c.base.Path, "/"), usual) {
		hint += ": that of " + c.kind() + " ends with " + usual + " as a rule"
	}
	return hint
}

// unsent returns the error for a request that could not be built.
func (c *Client) unsent(err error) error {
	return &llm.Error{Kind: llm.Rejected, Err: err,
		Problem: fmt.Sprintf("prepare request to %s: %s", c.at(), llm.OneLine(err.Error()))}
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
