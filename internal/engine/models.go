package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"qq/internal/config"
	"qq/internal/models"
	"qq/internal/models/extract"
	"qq/internal/models/gate"
	"qq/pkg/llm"
)

// Names of models that are no model of Ollama's.
const (
	Auto    = "auto"    // the best one of Ollama's, or else Extract
	Extract = "extract" // the built-in extractive model
)

// kindOllama is the kind of a model of Ollama's; what is built in is a kind of
// its own.
const kindOllama = "ollama"

// Model is what a process needs in order to talk to its model. The root asks
// the server about it once; children get the answer in their start frame.
type Model struct {
	Kind   string       `json:"kind"`
	Host   string       `json:"host,omitempty"`
	Ollama models.Model `json:"ollama,omitzero"`
}

func (m Model) String() string {
	if m.Kind == kindOllama {
		return "ollama:" + m.Ollama.Name
	}
	return m.Kind
}

// tools reports whether the model can call tools.
func (m Model) tools() bool { return m.Kind == Extract || m.Ollama.Tools }

// backend connects to the model. The function gives back what it holds.
func (m Model) backend() (llm.Backend, func(), error) {
	switch m.Kind {
	case Extract:
		return extract.New(), func() {}, nil
	case kindOllama:
		client, err := connect(m.Host)
		if err != nil {
			return nil, nil, err
		}
		return client.Backend(m.Ollama, models.Options{}), client.Close, nil
	}
	return nil, nil, fmt.Errorf("no model backend of kind %q", m.Kind)
}

// connect makes a client for the server at host.
func connect(host string) (*models.Client, error) {
	client, err := models.New(host)
	if err != nil {
		return nil, &config.Error{Problem: err.Error(), Hint: "qq config shows where OLLAMA_HOST comes from"}
	}
	return client, nil
}

// showTimeout bounds the look-up of one model: a server that is there answers at
// once.
const showTimeout = 30 * time.Second

// models resolves the names of models, each once.
type resolver struct {
	host string // OLLAMA_HOST
	run  string // the model of the run: what an empty name means
	note func(format string, args ...any)
	// retries is how often a question to the server is repeated.
	retries int

	mu     sync.Mutex
	byName map[string]*lookup
}

// lookup is what is known about one name. What failed is tried again: the next
// child may have more luck.
type lookup struct {
	turn  chan struct{} // holds a token while somebody looks
	found atomic.Pointer[Model]
}

// resolve finds out about the model of that name.
func (m *resolver) resolve(ctx context.Context, name string) (Model, error) {
	if name == "" {
		name = m.run
	}
	m.mu.Lock()
	if m.byName == nil {
		m.byName = map[string]*lookup{}
	}
	l := m.byName[name]
	if l == nil {
		l = &lookup{turn: make(chan struct{}, 1)}
		m.byName[name] = l
	}
	m.mu.Unlock()
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return Model{}, context.Cause(ctx)
	}
	if found := l.found.Load(); found != nil {
		return *found, nil
	}
	found, err := m.lasting(ctx, name)
	if err == nil {
		l.found.Store(&found)
	}
	return found, err
}

// known returns what was found out about the model of that name.
func (m *resolver) known(name string) (Model, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.byName[cmp.Or(name, m.run)]
	if l == nil {
		return Model{}, false
	}
	found := l.found.Load()
	if found == nil {
		return Model{}, false
	}
	return *found, true
}

// lasting is find, again and again while what is wrong may pass. For [Auto] it is
// no fault that there is no server or no model: it does without, for the whole run.
// That the server is busy is one.
func (m *resolver) lasting(ctx context.Context, name string) (found Model, err error) {
	err = gate.Repeat(ctx, gate.Policy{Retries: m.retries}, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeoutCause(ctx, showTimeout, &llm.Error{Kind: llm.Unreachable,
			Problem: fmt.Sprintf("no answer about model %q within %v", name, showTimeout), Hint: "look after the model server, or set OLLAMA_HOST"})
		defer cancel()
		found, err = m.find(ctx, name)
		return err
	})
	return found, err
}

func (m *resolver) find(ctx context.Context, name string) (Model, error) {
	if name == Extract {
		return Model{Kind: Extract}, nil
	}
	client, err := connect(m.host)
	if err != nil {
		return Model{}, err
	}
	defer client.Close()
	found, err := Ask(ctx, client, name)
	if e, ok := errors.AsType[*llm.Error](err); ok && name == Auto && !failing(e) {
		m.note("%s: using the built-in extractive model (summaries, key points, keywords, outlines)", e.Problem)
		return Model{Kind: Extract}, nil
	}
	if err != nil {
		return Model{}, err
	}
	if !found.Tools {
		m.note("model %s cannot call tools: agents work without them", found.Name)
	}
	return Model{Kind: kindOllama, Host: m.host, Ollama: found}, nil
}

// failing reports whether e is that of a server which is there, and may answer
// soon.
func failing(e *llm.Error) bool {
	return e.Kind == llm.Server || e.Passing() && e.Kind != llm.Unreachable
}

// Ask asks the server about the model of that name, "ollama:NAME" or the NAME
// alone, and for [Auto] which one to take. When there is none of that name, the
// error says which ones there are.
func Ask(ctx context.Context, client *models.Client, name string) (models.Model, error) {
	if name == Auto {
		return client.Pick(ctx)
	}
	m, err := client.Show(ctx, strings.TrimPrefix(name, "ollama:"))
	return m, withKnown(ctx, client, err)
}

// withKnown adds to the error about an unknown model which ones there are.
func withKnown(ctx context.Context, client *models.Client, err error) error {
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
