package models

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"qq/internal/models/servers"
	"qq/pkg/llm"
)

// listed is a model as servers other than Ollama list it. What they say of it, and how that is called, differs.
type listed struct {
	ID   string `json:"id"`   // of chat completions and Anthropic
	Name string `json:"name"` // of Gemini, with "models/" before it
	// The size of its context: OpenRouter, vLLM, Groq and LM Studio, Mistral, Anthropic, Gemini, llama.cpp.
	ContextLength    int `json:"context_length"`
	MaxModelLen      int `json:"max_model_len"`
	ContextWindow    int `json:"context_window"`
	MaxContextLength int `json:"max_context_length"`
	MaxInputTokens   int `json:"max_input_tokens"`
	InputTokenLimit  int `json:"inputTokenLimit"`
	Meta             struct {
		TrainContext int `json:"n_ctx_train"`
	} `json:"meta"`
	// MaxTokens and OutputTokenLimit are the longest answer: Anthropic, Gemini.
	MaxTokens        int `json:"max_tokens"`
	OutputTokenLimit int `json:"outputTokenLimit"`
	// Parameters are what OpenRouter takes for the model.
	Parameters []string `json:"supported_parameters"`
	// Methods are what Gemini offers for the model.
	Methods  []string `json:"supportedGenerationMethods"`
	Thinking bool     `json:"thinking"` // Gemini
	// Architecture and Capabilities say what OpenRouter and Mistral let the model see.
	Architecture struct {
		Inputs []string `json:"input_modalities"`
	} `json:"architecture"`
	Capabilities json.RawMessage `json:"capabilities"` // others say something else by that name
}

// sees reports whether the model sees images, and whether that is known. All models that Anthropic and Google list see
// them. Ollama speaks the dialect of Anthropic too, and does not say it there.
func (c *Client) sees(l listed) (images, known bool) {
	var mistral struct {
		Vision *bool `json:"vision"`
	}
	switch {
	case c.server.Vision, c.server.Kind == servers.Gemini, c.base.Host == "api.anthropic.com":
		return true, true
	case l.Architecture.Inputs != nil:
		return slices.Contains(l.Architecture.Inputs, "image"), true
	case json.Unmarshal(l.Capabilities, &mistral) == nil && mistral.Vision != nil:
		return *mistral.Vision, true
	}
	return false, false
}

// id returns the name by which requests name the model.
func (l listed) id() string {
	if l.ID != "" {
		return l.ID
	}
	return strings.TrimPrefix(l.Name, "models/")
}

// chats reports whether the model answers chats, as far as the server says.
func (l listed) chats() bool {
	return l.Methods == nil || slices.Contains(l.Methods, "generateContent")
}

// model returns what l says.
func (c *Client) model(l listed) Model {
	m := Model{
		Kind: c.server.Kind, Server: c.server.Name, Host: c.server.URL, Name: l.id(), Remote: c.base.Host,
		Context: c.server.Context, Thinking: l.Thinking, Answer: max(l.MaxTokens, l.OutputTokenLimit, 0),
		Tools: l.Parameters == nil || slices.Contains(l.Parameters, "tools"),
	}
	if m.Context == 0 {
		m.Context = max(l.ContextLength, l.MaxModelLen, l.ContextWindow, l.MaxContextLength, l.MaxInputTokens,
			l.InputTokenLimit, 0)
	}
	if m.Context > 1<<30 {
		m.Context = 0 // implausible
	}
	images, known := c.sees(l)
	m.Vision, m.MaySee = images, !known
	return m
}

// get reads the JSON at path into v.
func (c *Client) get(ctx context.Context, path string, v any) error {
	u, header, err := c.sign(ctx, http.MethodGet, path)
	if err != nil {
		return c.unsent(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return c.unsent(err)
	}
	req.Header = header
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return c.explain(ctx, "", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(body, v)
	}
	if err != nil {
		return c.explain(ctx, "", err)
	}
	return nil
}

// mostPages bounds how many pages of a list are read.
const mostPages = 20

// catalog returns the models that a server other than Ollama lists.
func (c *Client) catalog(ctx context.Context) ([]listed, error) {
	var all []listed
	next := ""
	for range mostPages {
		var page struct {
			Data   []listed `json:"data"`
			Models []listed `json:"models"`        // Gemini
			Next   string   `json:"nextPageToken"` // Gemini
			More   bool     `json:"has_more"`      // Anthropic
			Last   string   `json:"last_id"`
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
			return all, nil
		}
	}
	return all, nil
}

// look asks a server other than Ollama for the model of that name. An empty name means the only one.
func (c *Client) look(ctx context.Context, name string) (Model, error) {
	all, err := c.catalog(ctx)
	if err != nil {
		return Model{}, err
	}
	if name == "" && len(all) == 1 {
		name = all[0].id()
	}
	i := slices.IndexFunc(all, func(l listed) bool { return l.id() == name })
	if i < 0 { // Ollama lists names with their tag
		i = slices.IndexFunc(all, func(l listed) bool { return l.id() == name+":latest" })
	}
	if i < 0 {
		return Model{}, &llm.Error{Kind: llm.UnknownModel, Hint: c.has(all),
			Problem: fmt.Sprintf("%s has no model %q", c.at(), name)}
	}
	m := c.model(all[i])
	if m.Context == 0 && m.Kind == servers.OpenAI {
		c.props(ctx, &m)
	}
	return m, nil
}

// has returns a hint that names the models of a server.
func (c *Client) has(all []listed) string {
	var names []string
	for _, l := range all {
		if l.chats() {
			names = append(names, c.server.Name+":"+l.id())
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

// props adds what llama.cpp says of its model beside its interface for chats: the size of the context, and whether it
// sees images. Another server does not say it.
func (c *Client) props(ctx context.Context, m *Model) {
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
	if at.get(ctx, "props", &props) != nil {
		return
	}
	m.Context = max(props.Settings.Context, 0)
	if sees := props.Modalities.Vision; sees != nil && m.MaySee {
		m.Vision, m.MaySee = *sees, false
	}
}
