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
	"qq/internal/models/servers"
	"qq/pkg/llm"
	"qq/pkg/spelling"
)

// Names of models that are no model of Ollama's.
const (
	Auto    = "auto"    // the best one of a server on this machine, or else Extract
	Extract = "extract" // the built-in extractive model
)

// Program is the kind of a model that another agent program asks itself: its Server is the name of the program.
const Program = "program"

// Model is what a process needs in order to talk to its model. The root asks the
// server about it once; children get it in their start frame.
type Model struct {
	Kind   string `json:"kind"`             // of the server, or Extract
	Server string `json:"server,omitempty"` // its name; empty means ollama, so that known results stay known
	Host   string `json:"host,omitempty"`   // its address, see [Server]
	Name   string `json:"name,omitempty"`   // at the server

	Context  int  `json:"context,omitempty"`  // tokens the model has; 0 is unknown
	Answer   int  `json:"answer,omitempty"`   // tokens of its longest answer; 0 is unknown
	Tools    bool `json:"tools,omitempty"`    // it can call tools
	Thinking bool `json:"thinking,omitempty"` // it can think before it answers
	// Vision says that it sees images, MaySee that nobody knows whether it does. Without either it sees none.
	Vision bool `json:"vision,omitempty"`
	MaySee bool `json:"may_see,omitempty"`
	// Modified is when the server's copy of the model last changed, for example by a pull; zero
	// if the server does not say.
	Modified time.Time `json:"modified,omitzero"`
	// Remote is the host that the server passes requests on to; empty if it runs the model itself.
	Remote string `json:"remote,omitempty"`
	// Instead says how to get a language model where Extract replaces one, because no server answers.
	Instead string `json:"-"`
}

func (m Model) String() string {
	if m.Kind == Extract {
		return Extract
	}
	return cmp.Or(m.Server, servers.Ollama) + ":" + m.Name
}

// Home reports whether the model is on the user's own Ollama server, or built in, so that text that goes to it goes
// nowhere else.
func (m Model) Home() bool {
	return m.Remote == "" && cmp.Or(m.Server, servers.Ollama) == servers.Ollama
}

// Whither names the model, and where text goes that is given to it.
func (m Model) Whither() string {
	if m.Server == "" {
		return fmt.Sprintf("%s, which %s passes on to another machine", m, m.Host)
	}
	return fmt.Sprintf("%s, a model of the server at %s", m, m.Host)
}

// CallsTools reports whether the model can call tools.
func (m Model) CallsTools() bool { return m.Kind == Extract || m.Tools }

// Sees reports whether the model is known to see images.
func (m Model) Sees() bool { return m.Vision }

// Blind reports whether the model is known to see no images. Of a model that neither sees nor is blind, nobody knows.
func (m Model) Blind() bool { return !m.Vision && !m.MaySee }

// Served returns the whole name of the model, see [Model.String]. ok is false for a model that needs no server of qq's:
// the built-in one, and that of another agent program.
func (m Model) Served() (name string, ok bool) {
	return m.String(), m.Kind != Extract && m.Kind != Program
}

// BuiltIn reports whether the model is the built-in one.
func (m Model) BuiltIn() bool { return m.Kind == Extract }

// Connect returns a backend for the model, and a function that closes its connections. key is that of the server;
// empty means none.
func (m Model) Connect(key string) (llm.Backend, func(), error) {
	if m.Kind == Extract {
		return &extract.Backend{Instead: m.Instead}, func() {}, nil
	}
	client, err := connect(servers.Server{Name: cmp.Or(m.Server, servers.Ollama), Kind: m.Kind, URL: m.Host}, key)
	if err != nil {
		return nil, nil, err
	}
	return client.Backend(m, Options{}), client.Close, nil
}

// connect is [Open]. Its error says how to find out where the address was set, because the user may not have set it.
func connect(s servers.Server, key string) (*Client, error) {
	client, err := Open(s, key)
	if err != nil {
		return nil, &llm.Error{Kind: llm.Misconfigured, Problem: err.Error(),
			Hint: "qq config shows where " + s.Setting() + " comes from"}
	}
	return client, nil
}

// showTimeout bounds the look-up of one model, which a running server answers at once.
const showTimeout = 30 * time.Second

// Resolver resolves names of models, each once. Set its exported fields before the first use;
// then several goroutines may use it.
type Resolver struct {
	Servers []servers.Server  // that can be named; ollama is one of them
	Aliases map[string]string // the models that names mean
	Keys    Keys              // of the servers; nil means that there are none
	Run     string            // the model of the run: what an empty name means
	Retries int               // of each look-up at the server
	Notes   gate.Notes        // told when a model is limited, and what Auto is if that is not obvious; not nil
	Verbose bool              // Notes is told what Auto is in any case
	Strict  bool              // the built-in model never replaces Auto
	// Warnings is told when the built-in model replaces Auto; not nil unless Strict is set.
	Warnings gate.Notes

	mu       sync.Mutex
	byName   map[string]*lookup
	replaced atomic.Pointer[string] // see Replaced
}

// Keys knows the keys of servers.
type Keys interface {
	// Key returns the key of s; empty if it needs none. The error is for a person.
	Key(ctx context.Context, s servers.Server) (string, error)
}

// lookup is the cached result for one name. A failed look-up is not cached.
type lookup struct {
	turn  chan struct{} // full while a goroutine looks the model up
	found atomic.Pointer[Model]
}

// Resolve returns the model of that name: "" for the model of the run, [Auto], [Extract],
// "ollama:NAME", or NAME alone.
func (r *Resolver) Resolve(ctx context.Context, name string) (Model, error) {
	return r.resolve(ctx, name, r.Retries)
}

// Try is Resolve without retries.
func (r *Resolver) Try(ctx context.Context, name string) (Model, error) {
	return r.resolve(ctx, name, 0)
}

func (r *Resolver) resolve(ctx context.Context, name string, retries int) (Model, error) {
	name = r.Whole(name)
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
	found, err := r.findWithRetry(ctx, name, retries)
	if err == nil {
		l.found.Store(&found)
	}
	return found, err
}

// Known returns the model of that name if it has been resolved before. It never asks the server.
func (r *Resolver) Known(name string) (Model, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.byName[r.Whole(name)]; l != nil {
		if found := l.found.Load(); found != nil {
			return *found, true
		}
	}
	return Model{}, false
}

// findWithRetry is find, retried after temporary failures. The key of the server is asked for once, and may take as
// long as a person needs.
func (r *Resolver) findWithRetry(ctx context.Context, name string, retries int) (found Model, err error) {
	if name == Extract {
		return Model{Kind: Extract}, nil
	}
	server, own := r.serverOf(name)
	key, err := r.key(ctx, server)
	if err != nil {
		return Model{}, err
	}
	err = gate.Repeat(ctx, gate.Policy{Retries: retries}, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeoutCause(ctx, showTimeout, &llm.Error{Kind: llm.Unreachable,
			Problem: fmt.Sprintf("no answer about model %q within %v", name, showTimeout),
			Hint:    "look after the model server, or set " + server.Setting()})
		defer cancel()
		if name == Auto {
			found, err = r.auto(ctx)
		} else {
			found, err = r.find(ctx, server, key, own)
		}
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

// find asks the server for its model name.
func (r *Resolver) find(ctx context.Context, server servers.Server, key, name string) (Model, error) {
	client, err := connect(server, key)
	if err != nil {
		return Model{}, err
	}
	defer client.Close()
	found, err := client.Find(ctx, name)
	if err == nil {
		r.noteTools(found)
	}
	return found, r.Doubt(server, name, err)
}

// Doubt makes the hint of err, the result of a look-up of name at server, ask whether another server was meant.
func (r *Resolver) Doubt(server servers.Server, name string, err error) error {
	e, ok := errors.AsType[*llm.Error](err)
	if ok && (e.Kind == llm.UnknownModel || e.Kind == llm.Unreachable) && server.Name == servers.Ollama {
		if near := r.misspelt(name); near != "" {
			e.Hint = near + e.Hint
		} else if unset := servers.Unset(name); unset != "" {
			e.Hint += "; " + unset
		}
	}
	return err
}

// misspelt returns the question whether name, which Ollama does not know, or is not there to know, was to begin with
// another server.
func (r *Resolver) misspelt(name string) string {
	before, after, ok := strings.Cut(name, ":")
	if !ok {
		return ""
	}
	var known []string
	for _, s := range r.Servers {
		known = append(known, s.Name)
	}
	near := spelling.Nearest(before, known)
	if near == "" {
		return ""
	}
	return spelling.DidYouMean(near + ":" + after)
}

func (r *Resolver) key(ctx context.Context, s servers.Server) (string, error) {
	if r.Keys == nil {
		return "", nil
	}
	return r.Keys.Key(ctx, s)
}

// KeyOf returns the key of the server of m; empty if it needs none.
func (r *Resolver) KeyOf(ctx context.Context, m Model) (string, error) {
	if m.Kind == Extract || m.Kind == Program {
		return "", nil
	}
	server, _ := r.serverOf(m.String())
	return r.key(ctx, server)
}

// serverOf splits the name of a model into the server and its name there. Without the name of a server, it is one of
// Ollama's, whose names may have a colon too.
func (r *Resolver) serverOf(name string) (servers.Server, string) {
	ollama := servers.Server{Name: servers.Ollama, Kind: servers.Ollama}
	before, after, ok := strings.Cut(name, ":")
	for _, s := range r.Servers {
		switch {
		case ok && s.Name == before:
			return s, after
		case s.Name == servers.Ollama:
			ollama = s
		}
	}
	return ollama, name
}

// Whole returns name as [Model.String] says it, with the server and without an alias; "" is the model of the run.
func (r *Resolver) Whole(name string) string {
	name = cmp.Or(name, r.Run)
	name = cmp.Or(r.Aliases[name], name)
	if name == Auto || name == Extract {
		return name
	}
	server, model := r.serverOf(name)
	return server.Name + ":" + model
}

// Same reports whether two names are of one model.
func (r *Resolver) Same(a, b string) bool {
	const tag = ":latest" // which Ollama adds
	return strings.TrimSuffix(r.Whole(a), tag) == strings.TrimSuffix(r.Whole(b), tag)
}

// recovers reports whether e means that the server runs but cannot serve requests yet, so that a
// retry may help.
func recovers(e *llm.Error) bool {
	return e.Kind == llm.Server || e.Passing() && e.Kind != llm.Unreachable
}

// Find asks the server for the model of that name. The error for an unknown name lists the models that the server has.
func (c *Client) Find(ctx context.Context, name string) (Model, error) {
	if c.server.Kind != servers.Ollama {
		o, err := c.look(ctx, name)
		return o.Model, err
	}
	m, err := c.Show(ctx, strings.TrimPrefix(name, "ollama:"))
	return m, c.withNames(ctx, err)
}

// withNames adds to the error for an unknown model the names of those that the Ollama server has.
func (c *Client) withNames(ctx context.Context, err error) error {
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || e.Kind != llm.UnknownModel {
		return err
	}
	names, listErr := c.List(ctx)
	if listErr != nil || len(names) == 0 {
		return err
	}
	more := *e
	more.Hint = strings.TrimSpace(e.Hint + "; the server has: " + shortList(names))
	return &more
}
