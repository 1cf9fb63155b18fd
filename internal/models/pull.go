package models

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"

	"github.com/ollama/ollama/api"

	"qq/internal/models/wire"
	"qq/pkg/llm"
)

// Pulled is how far a pull is. Status is what the server says. For the download of a file, Digest names it, and Done
// and Total count its bytes.
type Pulled struct {
	Status, Digest string
	Done, Total    int64
}

// errStopped says that nobody wants to hear more.
var errStopped = errors.New("stopped")

// Pull makes the Ollama server get the model of that name, and yields how far it is. insecure allows a registry
// without a certificate. A pull has succeeded only if it ends without an error: the server has then said so.
func (c *Client) Pull(ctx context.Context, name string, insecure bool) iter.Seq2[Pulled, error] {
	return func(yield func(Pulled, error) bool) {
		// A long download has more lines about it than a reply may have.
		client := api.NewClient(c.base, &http.Client{Transport: unbounded{c}})
		done := false
		err := client.Pull(ctx, &api.PullRequest{Model: name, Insecure: insecure}, func(p api.ProgressResponse) error {
			done = p.Status == "success"
			status := c.withoutKey(p.Status)
			if !yield(Pulled{Status: status, Digest: p.Digest, Done: p.Completed, Total: p.Total}, nil) {
				return errStopped
			}
			return nil
		})
		switch {
		case errors.Is(err, errStopped):
			return
		case err == nil && !done:
			err = &wire.Fault{Kind: llm.BrokenStream, Text: io.ErrUnexpectedEOF.Error(), Err: io.ErrUnexpectedEOF}
		}
		if err != nil {
			yield(Pulled{}, c.explainPull(ctx, err))
		}
	}
}

// explainPull converts the error of a pull. What the server says in its stream has no status: the server could not get
// the model.
func (c *Client) explainPull(ctx context.Context, err error) error {
	_, ours := errors.AsType[*wire.Fault](err)
	if said, ok := errors.AsType[api.StatusError](err); ok && !ours {
		err = errors.New(said.ErrorMessage)
	}
	if ours || ctx.Err() != nil {
		return c.explain(ctx, "", err)
	}
	return c.discreet(&llm.Error{Kind: llm.Rejected, Err: err, Problem: c.at() + ": " + llm.OneLine(err.Error()),
		Hint: "check the name of the model, and the network of the server"})
}

// unbounded is the transport of a client for replies of any length.
type unbounded struct{ client *Client }

// RoundTrip implements [http.RoundTripper].
func (u unbounded) RoundTrip(req *http.Request) (*http.Response, error) {
	return u.client.transport.Stream(u.client.keyed(req))
}

// keyed returns req with the key of the server, if there is one. Ollama's own client knows no keys.
func (c *Client) keyed(req *http.Request) *http.Request {
	if c.key != "" {
		req = req.Clone(req.Context())
		c.dialect.Authorize(req.Header, c.key)
	}
	return req
}
