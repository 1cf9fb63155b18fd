// Package models turns the name of a model into a backend that an agent can use.
//
// A name is [Auto], [Extract], "ollama:NAME", or NAME alone. A [Resolver] looks
// names up in the root, each once, and gives a [Model]: all that a process needs
// to connect. The root hands it to its children, so that a child makes no look-up
// of its own: [Model.Connect] gives it an [llm.Backend].
//
// A [Client] knows one Ollama server. Look-ups (version, list, description) go
// through Ollama's own client. A chat does not, because its types are slow to
// load and each child would pay for them: the requests of all dialects go through
// package wire, with small types of their own.
//
// A chat states its context size each time (num_ctx): enough for the prompt and an
// answer, one of few sizes, at most what the model has, and never smaller than
// before, because the server loads the model again for each new size. The prompt
// is measured by estimate, and the estimate is corrected by what the server counts.
// The server is told not to shorten the prompt and not to drop its beginning while
// it answers. When it says that a prompt is too long, the next larger size is
// tried, up to that of the model. A prompt that was cut all the same is a context
// overflow, never an answer.
//
// Every failure is an [*llm.Error], except that the end of a context is returned as
// its cause. An answer counts only when the server said that it is complete. The
// text before a failure is in the response.
//
// Not promised: that an empty answer is an error (the caller decides); that tools
// and a schema work in one request (a server that is held to a schema calls no
// tools).
package models

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"qq/internal/models/extract"
	"qq/internal/models/gate"
	"qq/pkg/llm"
	"qq/pkg/task"
)

// Names of models that are no model of Ollama's.
const (
	Auto    = "auto"    // the best one of Ollama's, or else Extract
	Extract = "extract" // the built-in extractive model
)

// Ollama is the Kind of a model that an Ollama server runs.
const Ollama = "ollama"

// Model is what a process needs in order to talk to its model. The root asks the
// server about it once; children get it in their start frame.
type Model struct {
	Kind string `json:"kind"`           // Ollama or Extract
	Host string `json:"host,omitempty"` // of the server, as in OLLAMA_HOST
	Name string `json:"name,omitempty"` // at the server

	Context  int  `json:"context,omitempty"`  // tokens the model has; 0 is unknown
	Tools    bool `json:"tools,omitempty"`    // it can call tools
	Thinking bool `json:"thinking,omitempty"` // it can think before it answers
	// Modified is when the server's copy of the model last changed, for example by a pull; zero
	// if the server does not say.
	Modified time.Time `json:"modified,omitzero"`
	// Remote is the host that the server passes requests on to; empty if it runs the model itself.
	Remote string `json:"remote,omitempty"`
	// Instead says how to get a language model where Extract replaces one, because no server answers.
	Instead string `json:"-"`
}

func (m Model) String() string {
	if m.Kind == Ollama {
		return "ollama:" + m.Name
	}
	return m.Kind
}

// CallsTools reports whether the model can call tools.
func (m Model) CallsTools() bool { return m.Kind == Extract || m.Tools }

// Served returns the name of the model at its server. ok is false for the built-in model, which
// needs no server.
func (m Model) Served() (name string, ok bool) { return m.Name, m.Kind == Ollama }

// Connect returns a backend for the model, and a function that closes its connections.
func (m Model) Connect() (llm.Backend, func(), error) {
	switch m.Kind {
	case Extract:
		return &extract.Backend{Instead: m.Instead}, func() {}, nil
	case Ollama:
		client, err := connect(m.Host)
		if err != nil {
			return nil, nil, err
		}
		return client.Backend(m, Options{}), client.Close, nil
	}
	return nil, nil, fmt.Errorf("no model backend of kind %q", m.Kind)
}

// connect is [New]. Its error says how to find out where the host was set, because the user may not have set it.
func connect(host string) (*Client, error) {
	client, err := New(host)
	if err != nil {
		return nil, &llm.Error{Kind: llm.Misconfigured, Problem: err.Error(),
			Hint: "qq config shows where OLLAMA_HOST comes from"}
	}
	return client, nil
}

// showTimeout bounds the look-up of one model, which a running server answers at once.
const showTimeout = 30 * time.Second

// Resolver resolves names of models, each once. Set its exported fields before the first use;
// then several goroutines may use it.
type Resolver struct {
	Host    string     // of the server, as in OLLAMA_HOST
	Run     string     // the model of the run: what an empty name means
	Retries int        // of each look-up at the server
	Notes   gate.Notes // told when a model is limited; not nil
	Strict  bool       // the built-in model never replaces Auto
	// Warnings is told when the built-in model replaces Auto; not nil unless Strict is set.
	Warnings gate.Notes

	mu       sync.Mutex
	byName   map[string]*lookup
	replaced atomic.Pointer[string] // see Replaced
}

// lookup is the cached result for one name. A failed look-up is not cached.
type lookup struct {
	turn  chan struct{} // full while a goroutine looks the model up
	found atomic.Pointer[Model]
}

// Resolve returns the model of that name: "" for the model of the run, [Auto], [Extract],
// "ollama:NAME", or NAME alone.
func (r *Resolver) Resolve(ctx context.Context, name string) (Model, error) {
	name = cmp.Or(name, r.Run)
	r.mu.Lock()
	if r.byName == nil {
		r.byName = map[string]*lookup{}
	}
	l := r.byName[name]
	if l == nil {
		l = &lookup{turn: make(chan struct{}, 1)}
		r.byName[name] = l
	}
	r.mu.Unlock()
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return Model{}, context.Cause(ctx)
	}
	if found := l.found.Load(); found != nil {
		return *found, nil
	}
	found, err := r.findWithRetry(ctx, name)
	if err == nil {
		l.found.Store(&found)
	}
	return found, err
}

// Known returns the model of that name if it has been resolved before. It never asks the server.
func (r *Resolver) Known(name string) (Model, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.byName[cmp.Or(name, r.Run)]; l != nil {
		if found := l.found.Load(); found != nil {
			return *found, true
		}
	}
	return Model{}, false
}

// findWithRetry is find, retried after temporary failures.
func (r *Resolver) findWithRetry(ctx context.Context, name string) (found Model, err error) {
	err = gate.Repeat(ctx, gate.Policy{Retries: r.Retries}, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeoutCause(ctx, showTimeout, &llm.Error{Kind: llm.Unreachable,
			Problem: fmt.Sprintf("no answer about model %q within %v", name, showTimeout),
			Hint:    "look after the model server, or set OLLAMA_HOST"})
		defer cancel()
		found, err = r.find(ctx, name)
		return err
	})
	return found, err
}

// Replaced returns a warning that says why the built-in model has replaced [Auto], or none.
func (r *Resolver) Replaced() []string {
	if why := r.replaced.Load(); why != nil {
		return []string{*why}
	}
	return nil
}

// find asks the server for the named model. If name is [Auto] and the server cannot be reached or has no usable
// model, the result is the built-in model, or an error if r is Strict. A server that may soon answer (see recovers)
// is an error in any case.
func (r *Resolver) find(ctx context.Context, name string) (Model, error) {
	if name == Extract {
		return Model{Kind: Extract}, nil
	}
	client, err := connect(r.Host)
	if err != nil {
		return Model{}, err
	}
	defer client.Close()
	found, err := client.Find(ctx, name)
	if e, ok := errors.AsType[*llm.Error](err); ok && name == Auto && !recovers(e) {
		if r.Strict {
			return Model{}, &task.Error{Status: task.Unavailable, Problem: e.Problem, Err: e,
				Hint: e.Hint + "; or choose the built-in model with --model extract"}
		}
		why := e.Problem + ": using the built-in extractive model (summaries, key points, keywords, outlines)"
		r.replaced.Store(&why)
		r.Warnings.Note("%s", why)
		m := Model{Kind: Extract}
		if e.Kind == llm.Unreachable {
			m.Instead = "use Ollama: " + e.Hint + "; unless it has a model: \"ollama pull qwen3:4b\""
		}
		return m, nil
	}
	if err == nil && !found.Tools {
		r.Notes.Note("model %s cannot call tools: agents work without them", found.Name)
	}
	return found, err
}

// recovers reports whether e means that the server runs but cannot serve requests yet, so that a
// retry may help.
func recovers(e *llm.Error) bool {
	return e.Kind == llm.Server || e.Passing() && e.Kind != llm.Unreachable
}

// Find asks the server for the model "ollama:NAME" or NAME; for [Auto] it picks one. The error
// for an unknown name lists the models that the server has.
func (c *Client) Find(ctx context.Context, name string) (Model, error) {
	if name == Auto {
		return c.Pick(ctx)
	}
	m, err := c.Show(ctx, strings.TrimPrefix(name, "ollama:"))
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || e.Kind != llm.UnknownModel {
		return m, err
	}
	names, listErr := c.List(ctx)
	if listErr != nil || len(names) == 0 {
		return Model{}, err
	}
	if len(names) > 10 {
		names = append(names[:10:10], "…")
	}
	more := *e
	more.Hint = strings.TrimSpace(e.Hint + "; the server has: " + strings.Join(names, ", "))
	return Model{}, &more
}
