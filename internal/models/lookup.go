package models

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"qq/internal/models/servers"
	"qq/pkg/llm"
)

// pickTimeout bounds each request that [Client.Pick] makes.
const pickTimeout = 2 * time.Second

// Version returns the version of an Ollama server.
func (c *Client) Version(ctx context.Context) (string, error) {
	var said struct {
		Version string `json:"version"`
	}
	err := c.get(ctx, "api/version", &said)
	return said.Version, err
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

// tag is a model as an Ollama server lists it. Ollama's own types for what is looked up would bring much into the
// binary that nothing here uses, such as the messages of a chat and ordered maps.
type tag struct {
	Name       string    `json:"name"`
	RemoteHost string    `json:"remote_host"`
	ModifiedAt time.Time `json:"modified_at"`
	Size       int64     `json:"size"`
}

// tags returns the models that an Ollama server lists, the newest first.
func (c *Client) tags(ctx context.Context) ([]tag, error) {
	var list struct {
		Models []tag `json:"models"`
	}
	if err := c.get(ctx, "api/tags", &list); err != nil {
		return nil, err
	}
	slices.SortStableFunc(list.Models, func(a, b tag) int { return b.ModifiedAt.Compare(a.ModifiedAt) })
	return list.Models, nil
}

// Show returns the properties of the named model.
func (c *Client) Show(ctx context.Context, name string) (Model, error) {
	o, err := c.show(ctx, name)
	return o.Model, err
}

// show returns the properties of the named model of an Ollama server.
func (c *Client) show(ctx context.Context, name string) (Offer, error) {
	var resp struct {
		Info         map[string]any `json:"model_info"`
		ModifiedAt   time.Time      `json:"modified_at"`
		RemoteHost   string         `json:"remote_host"`
		Capabilities []string       `json:"capabilities"`
	}
	asked, err := json.Marshal(struct {
		Model string `json:"model"`
	}{name})
	if err != nil {
		return Offer{}, c.unsent(err)
	}
	if err := c.read(ctx, http.MethodPost, "api/show", asked, &resp, name); err != nil {
		return Offer{}, err
	}
	o := Offer{Model: c.named(name), chats: true}
	o.Context, o.Modified, o.Remote = contextLength(resp.Info), resp.ModifiedAt.UTC(), resp.RemoteHost
	o.Vision = c.server.Vision || slices.Contains(resp.Capabilities, "vision")
	o.MaySee = !o.Vision && len(resp.Capabilities) == 0
	if len(resp.Capabilities) == 0 { // a server that is too old to say what a model can do serves chat models
		return o, nil
	}
	o.chats = slices.Contains(resp.Capabilities, "completion")
	o.Tools = slices.Contains(resp.Capabilities, "tools") && !c.server.NoTools
	o.Thinking = slices.Contains(resp.Capabilities, "thinking")
	o.ToolCalls = known(o.Tools)
	return o, nil
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

// Pick chooses a model. Of another server than Ollama it is the first one that has tools, or else the first. Of Ollama
// it is the newest model that has tools, or else the newest that can chat.
// It leaves out models that the server only forwards to another host, because
// nobody named that host. It fails at once when no server listens, and within two
// seconds when one hangs. A broken model is skipped; a temporary failure is not a
// reason to skip one. A server without a suitable model is an [*llm.Error] of kind
// [llm.UnknownModel].
func (c *Client) Pick(ctx context.Context) (Model, error) {
	if c.server.Kind != servers.Ollama {
		return c.pickListed(ctx)
	}
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
		o, err := quick(ctx, c, func(ctx context.Context) (Offer, error) { return c.show(ctx, entry.Name) })
		switch {
		case ctx.Err() != nil, passing(err): // without it, the choice would depend on chance
			return Model{}, err
		case err != nil:
			skipped = err // one broken model does not hide the others
		case o.Tools && o.chats:
			return o.Model, nil
		case o.chats && best == nil:
			best = &o.Model
		}
	}
	if best != nil {
		return *best, nil
	}
	if skipped != nil {
		return Model{}, skipped
	}
	return Model{}, &llm.Error{Kind: llm.UnknownModel,
		Problem: c.at() + " has no model of its own that can chat",
		Hint:    "get one, for example: ollama pull qwen3"}
}

// pickListed is Pick for servers other than Ollama.
func (c *Client) pickListed(ctx context.Context) (Model, error) {
	offers, err := quick(ctx, c, c.listedOffers)
	if err != nil {
		return Model{}, err
	}
	best, ok := Best(offers)
	if !ok {
		return Model{}, &llm.Error{Kind: llm.UnknownModel, Problem: c.at() + " has no model that can chat",
			Hint: "load one, or set " + c.server.Setting()}
	}
	return best.Model, nil
}

// quick calls f, which makes one look-up, with a short timeout.
func quick[T any](ctx context.Context, c *Client, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, pickTimeout, &llm.Error{Kind: llm.Unreachable,
		Problem: fmt.Sprintf("no answer from %s within %v", c.at(), pickTimeout),
		Hint:    "look after the server, or set " + c.server.Setting()})
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
