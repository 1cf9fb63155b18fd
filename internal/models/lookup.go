package models

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ollama/ollama/api"

	"qq/internal/models/servers"
	"qq/pkg/llm"
)

// pickTimeout bounds each request that [Client.Pick] makes.
const pickTimeout = 2 * time.Second

// lookups returns Ollama's own client, which makes all requests except chats.
func (c *Client) lookups() *api.Client {
	return api.NewClient(c.base, &http.Client{Transport: c.transport})
}

// Version returns the version of an Ollama server.
func (c *Client) Version(ctx context.Context) (string, error) {
	v, err := c.lookups().Version(ctx)
	if err != nil {
		return "", c.explain(ctx, "", err)
	}
	return v, nil
}

// List returns the names of the models that the server has, the newest first.
func (c *Client) List(ctx context.Context) ([]string, error) {
	models, err := c.tags(ctx)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(models))
	for i := range models {
		names[i] = models[i].Name
	}
	return names, nil
}

func (c *Client) tags(ctx context.Context) ([]api.ListModelResponse, error) {
	list, err := c.lookups().List(ctx)
	if err != nil {
		return nil, c.explain(ctx, "", err)
	}
	slices.SortStableFunc(list.Models, func(a, b api.ListModelResponse) int {
		return b.ModifiedAt.Compare(a.ModifiedAt)
	})
	return list.Models, nil
}

// Show returns the properties of the named model.
func (c *Client) Show(ctx context.Context, name string) (Model, error) {
	m, _, err := c.show(ctx, name)
	return m, err
}

// show returns the properties of the named model. chats is false for a model that cannot chat, such as an embedding
// model.
func (c *Client) show(ctx context.Context, name string) (m Model, chats bool, err error) {
	resp, err := c.lookups().Show(ctx, &api.ShowRequest{Model: name})
	if err != nil {
		return Model{}, false, c.explain(ctx, name, err)
	}
	m = Model{
		Kind: servers.Ollama, Server: c.server.Name, Host: c.server.URL, Name: name,
		Context: contextLength(resp.ModelInfo), Modified: resp.ModifiedAt.UTC(),
		Remote: resp.RemoteHost,
	}
	if m.Server == servers.Ollama {
		m.Server = "" // see Model.Server
	}
	m.Vision = c.server.Vision || slices.Contains(resp.Capabilities, "vision")
	m.MaySee = !m.Vision && len(resp.Capabilities) == 0 // a server that is too old to say it
	for _, capability := range resp.Capabilities {
		switch capability {
		case "completion":
			chats = true
		case "tools":
			m.Tools = true
		case "thinking":
			m.Thinking = true
		}
	}
	// A server that is too old to say what a model can do serves chat models.
	return m, chats || len(resp.Capabilities) == 0, nil
}

// contextLength returns the value of "<architecture>.context_length" in the server's description of a model; 0 if
// that is missing or implausible.
func contextLength(info map[string]any) int {
	arch, _ := info["general.architecture"].(string)
	n, ok := info[arch+".context_length"].(float64)
	if !ok {
		for key, v := range info {
			if f, isNumber := v.(float64); isNumber && strings.HasSuffix(key, ".context_length") {
				n = max(n, f)
			}
		}
	}
	if n < 1 || n > 1<<30 {
		return 0
	}
	return int(n)
}

// Pick chooses the newest model that has tools, or else the newest that can chat.
// It leaves out models that the server only forwards to another host, because
// nobody named that host. It fails at once when no server listens, and within two
// seconds when one hangs. A broken model is skipped; a temporary failure is not a
// reason to skip one. A server without a suitable model is an [*llm.Error] of kind
// [llm.UnknownModel].
func (c *Client) Pick(ctx context.Context) (Model, error) {
	models, err := quick(ctx, c, c.tags)
	if err != nil {
		return Model{}, err
	}
	var best *Model
	var skipped error
	for _, entry := range models {
		if entry.RemoteHost != "" {
			continue
		}
		chats := false
		m, err := quick(ctx, c, func(ctx context.Context) (m Model, err error) {
			m, chats, err = c.show(ctx, entry.Name)
			return m, err
		})
		switch {
		case ctx.Err() != nil, passing(err): // without it, the choice would depend on chance
			return Model{}, err
		case err != nil:
			skipped = err // one broken model does not hide the others
		case m.Tools && chats:
			return m, nil
		case chats && best == nil:
			best = &m
		}
	}
	if best != nil {
		return *best, nil
	}
	if skipped != nil {
		return Model{}, skipped
	}
	return Model{}, &llm.Error{Kind: llm.UnknownModel,
		Problem: fmt.Sprintf("Ollama at %s has no model of its own that can chat", c.base.Host),
		Hint:    "get one, for example: ollama pull qwen3"}
}

// quick calls f, which makes one look-up, with a short timeout.
func quick[T any](ctx context.Context, c *Client, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, pickTimeout, &llm.Error{Kind: llm.Unreachable,
		Problem: fmt.Sprintf("no answer from Ollama at %s within %v", c.base.Host, pickTimeout),
		Hint:    "look after the server, or set OLLAMA_HOST"})
	defer cancel()
	return f(ctx)
}

func isKind(err error, kind llm.Kind) bool {
	e, ok := errors.AsType[*llm.Error](err)
	return ok && e.Kind == kind
}

func passing(err error) bool {
	e, ok := errors.AsType[*llm.Error](err)
	return ok && e.Passing()
}
