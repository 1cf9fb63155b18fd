package models

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"qq/internal/models/dialect"
	"qq/internal/models/listing"
	"qq/internal/models/servers"
	"qq/pkg/llm"
)

// sees reports whether the model sees images, and whether that is known. All models that Anthropic and Google list see
// them. Ollama speaks the dialect of Anthropic too, and does not say it there.
func (c *Client) sees(a listing.Abilities) (images, known bool) {
	switch {
	case c.server.Vision, c.server.Kind == servers.Gemini, c.base.Hostname() == anthropicHost:
		return true, true
	case a.Vision != nil:
		return *a.Vision, true
	}
	return false, false
}

// offer returns what l says. A model of which it is not said whether it can call tools is offered them.
func (c *Client) offer(l listing.Entry) Offer {
	a := l.Abilities()
	if c.server.NoTools {
		a.Functions = new(false)
	}
	m := c.named(l.Name())
	m.Remote, m.Thinking, m.Answer = c.base.Host, l.Thinking, l.Longest()
	m.Context, m.Tools = cmp.Or(c.server.Context, l.Context()), a.Functions == nil || *a.Functions
	images, known := c.sees(a)
	m.Vision, m.MaySee = images, !known
	return Offer{Model: m, ToolCalls: a.Functions, Size: l.Meta.Size, chats: l.Chats(a), created: l.Made()}
}

// get reads the JSON at path into v.
func (c *Client) get(ctx context.Context, path string, v any) error {
	return c.read(ctx, http.MethodGet, path, nil, v, "")
}

// read sends body to path, and reads the JSON of the reply into v. model is the name of the model that is asked for,
// or "".
func (c *Client) read(ctx context.Context, method, path string, body []byte, v any, model string) error {
	u, header, err := c.sign(ctx, method, path)
	if err != nil {
		return c.unsent(err)
	}
	req, err := http.NewRequestWithContext(ctx, method, u, bytes.NewReader(body))
	if err != nil {
		return c.unsent(err)
	}
	if req.Header = header; body != nil {
		header.Set("Content-Type", "application/json")
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return c.explain(ctx, model, err)
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(reply, v)
	}
	odd, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if ok && strings.Contains(odd.Field, ".") { // within the description of one model: only that is not known
		return nil
	}
	if err != nil {
		return c.explain(ctx, model, err)
	}
	return nil
}

// mostPages bounds how many pages of a list are read.
const mostPages = 20

// catalog returns the models that a server other than Ollama lists.
func (c *Client) catalog(ctx context.Context) ([]listing.Entry, error) {
	var all []listing.Entry
	next := ""
	for range mostPages {
		var page struct {
			Data   []listing.Entry `json:"data"`
			Models []listing.Entry `json:"models"`        // Gemini
			Next   string          `json:"nextPageToken"` // Gemini
			More   bool            `json:"has_more"`      // Anthropic
			Last   string          `json:"last_id"`
		}
		if err := c.get(ctx, "models"+next, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Data...)
		if c.server.Kind == servers.Gemini {
			all = append(all, page.Models...)
		}
		switch {
		case page.Next != "":
			next = "?pageToken=" + url.QueryEscape(page.Next)
		case page.More && page.Last != "":
			next = "?after_id=" + url.QueryEscape(page.Last)
		default:
			return named(all), nil
		}
	}
	return named(all), nil
}

// named returns the models of a list that have a name.
func named(all []listing.Entry) []listing.Entry {
	return slices.DeleteFunc(all, func(l listing.Entry) bool { return l.Name() == "" })
}

// look asks a server other than Ollama for the model of that name. An empty name means the only one.
func (c *Client) look(ctx context.Context, name string) (Offer, error) {
	all, err := c.catalog(ctx)
	if err != nil {
		return Offer{}, err
	}
	if name == "" && len(all) == 1 {
		name = all[0].Name()
	}
	i := slices.IndexFunc(all, func(l listing.Entry) bool { return l.Name() == name })
	if i < 0 { // Ollama lists names with their tag
		i = slices.IndexFunc(all, func(l listing.Entry) bool { return l.Name() == name+":latest" })
	}
	if i < 0 {
		if l, ok := c.unlisted(ctx, name, all); ok {
			o := c.offer(l)
			o.Name = name
			return o, nil
		}
		return Offer{}, c.discreet(&llm.Error{Kind: llm.UnknownModel, Hint: c.has(all),
			Problem: fmt.Sprintf("%s has no model %q", c.at(), name)})
	}
	o := c.offer(all[i])
	c.addProps(ctx, &o, all[i].Owner)
	return o, nil
}

// unlisted returns the model that name means at a server which does not list it: an alias of Anthropic, such as
// claude-haiku-4-5, or a model of Google's that is not for everybody; of OpenRouter a variant, such as x/y:nitro, of a
// model that is listed.
func (c *Client) unlisted(ctx context.Context, name string, all []listing.Entry) (l listing.Entry, ok bool) {
	switch {
	case name == "":
		return l, false
	case c.server.Kind == servers.Anthropic, c.server.Kind == servers.Gemini:
		err := c.get(ctx, "models/"+url.PathEscape(name), &l)
		return l, err == nil && l.Name() != ""
	case dialect.VendorAt(c.base.Hostname()) == dialect.OpenRouter:
		before, _, _ := strings.Cut(name, ":")
		i := slices.IndexFunc(all, func(l listing.Entry) bool { return l.Name() == before })
		if i >= 0 {
			return all[i], true
		}
	}
	return l, false
}

// has returns a hint that names the models of a server.
func (c *Client) has(all []listing.Entry) string {
	var names []string
	for _, l := range all {
		if l.Chats(l.Abilities()) {
			names = append(names, c.server.Name+":"+l.Name())
		}
	}
	return "the server has: " + shortList(names)
}

// shortList joins the first of the names.
func shortList(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	if len(names) > 10 {
		names = append(names[:10:10], "…")
	}
	return strings.Join(names, ", ")
}

// llamaCPP is what llama.cpp says that it is.
const llamaCPP = "llamacpp"

// addProps adds to o what llama.cpp says beside its interface for chats. A server that does not say what it is, is
// asked only if it did not say how large the context is, and one that is another not at all: that costs a request for
// each prompt.
func (c *Client) addProps(ctx context.Context, o *Offer, owner string) {
	if c.server.Kind != servers.OpenAI || owner != llamaCPP && (owner != "" || o.Context > 0) {
		return
	}
	var props struct {
		Settings struct {
			Context int `json:"n_ctx"`
		} `json:"default_generation_settings"`
		Modalities struct {
			Vision *bool `json:"vision"`
		} `json:"modalities"`
	}
	root := *c.base
	root.Path = strings.TrimSuffix(root.Path, "/v1")
	at := *c
	at.base = &root
	if at.get(ctx, "props", &props) != nil { // another server
		return
	}
	if o.Context == 0 {
		o.Context = listing.Entry{ContextLength: props.Settings.Context}.Context()
	}
	if sees := props.Modalities.Vision; sees != nil && o.MaySee {
		o.Vision, o.MaySee = *sees, false
	}
}
