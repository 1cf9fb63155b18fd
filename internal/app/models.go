package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"qq/internal/extract"
	"qq/internal/ollama"
	"qq/pkg/llm"
)

// Kinds of backends.
const (
	kindOllama  = "ollama"
	kindExtract = "extract"
)

// model is what a process needs in order to talk to its model. The root asks
// the server about it once; children get the answer in their start frame.
type model struct {
	Kind   string       `json:"kind"`
	Host   string       `json:"host,omitempty"`
	Ollama ollama.Model `json:"ollama,omitzero"`
}

func (m model) String() string {
	if m.Kind == kindOllama {
		return "ollama:" + m.Ollama.Name
	}
	return m.Kind
}

// tools reports whether the model can call tools.
func (m model) tools() bool { return m.Kind == kindExtract || m.Ollama.Tools }

// backend connects to the model. The function gives back what it holds.
func (m model) backend() (llm.Backend, func(), error) {
	switch m.Kind {
	case kindExtract:
		return extract.New(), func() {}, nil
	case kindOllama:
		client, err := ollama.New(m.Host)
		if err != nil {
			return nil, nil, usage(err)
		}
		return client.Backend(m.Ollama, ollama.Options{}), client.Close, nil
	}
	return nil, nil, fmt.Errorf("no model backend of kind %q", m.Kind)
}

// models resolves the names of models, each once.
type models struct {
	host string // OLLAMA_HOST
	run  string // the model of the run: what an empty name means
	say  func(format string, args ...any)

	mu    sync.Mutex
	known map[string]func() (model, error)
}

// resolve finds out about the model of that name: "" for that of the run,
// "auto", "extract", "ollama:NAME", or the NAME alone.
func (m *models) resolve(ctx context.Context, name string) (model, error) {
	if name == "" {
		name = m.run
	}
	m.mu.Lock()
	if m.known == nil {
		m.known = map[string]func() (model, error){}
	}
	find, ok := m.known[name]
	if !ok {
		find = sync.OnceValues(func() (model, error) { return m.find(ctx, name) })
		m.known[name] = find
	}
	m.mu.Unlock()
	return find()
}

func (m *models) find(ctx context.Context, name string) (model, error) {
	if name == kindExtract {
		return model{Kind: kindExtract}, nil
	}
	client, err := ollama.New(m.host)
	if err != nil {
		return model{}, usage(err)
	}
	defer client.Close()
	if name == "auto" {
		return m.auto(ctx, client)
	}
	found, err := client.Show(ctx, strings.TrimPrefix(name, "ollama:"))
	if err != nil {
		return model{}, withKnown(ctx, client, err)
	}
	if !found.Tools {
		m.say("model %s cannot call tools: agents work without them", found.Name)
	}
	return model{Kind: kindOllama, Host: m.host, Ollama: found}, nil
}

// auto takes Ollama when it answers and has a model, and else what is built in.
func (m *models) auto(ctx context.Context, client *ollama.Client) (model, error) {
	found, err := client.Pick(ctx)
	if e, ok := errors.AsType[*llm.Error](err); ok {
		m.say("%s: using the built-in extractive model (summaries, key points, keywords, outlines)", e.Problem)
		return model{Kind: kindExtract}, nil
	}
	if err != nil {
		return model{}, err
	}
	if !found.Tools {
		m.say("model %s cannot call tools: agents work without them", found.Name)
	}
	return model{Kind: kindOllama, Host: m.host, Ollama: found}, nil
}

// withKnown adds to the error about an unknown model which ones there are.
func withKnown(ctx context.Context, client *ollama.Client, err error) error {
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || e.Kind != llm.UnknownModel {
		return err
	}
	names, listErr := client.List(ctx)
	if listErr != nil || len(names) == 0 {
		return err
	}
	if len(names) > 10 {
		names = append(names[:10:10], "…")
	}
	more := *e
	more.Hint = strings.TrimSpace(e.Hint + "; the server has: " + strings.Join(names, ", "))
	return &more
}
