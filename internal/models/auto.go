package models

import (
	"cmp"
	"context"
	"errors"

	"qq/internal/models/servers"
	"qq/pkg/llm"
	"qq/pkg/task"
)

// auto chooses a model: that of Ollama, or else that of another server on this machine that a setting names, in the
// order of their names. It asks no server that nobody named, and goes from this machine to no other one. If none of
// them can be reached and has a usable model, the result is the built-in model, or an error if r is Strict. A server
// that may soon answer (see recovers) is an error in any case.
func (r *Resolver) auto(ctx context.Context) (Model, error) {
	ollama, _ := r.serverOf(Auto)
	found, err := r.pick(ctx, ollama)
	e, ok := errors.AsType[*llm.Error](err)
	if err == nil && r.Verbose {
		r.Notes.Note("auto: using %s, a model of Ollama", found)
	}
	if err == nil || !ok || recovers(e) {
		return found, err
	}
	for _, s := range r.Servers {
		if !s.Own || s.Name == ollama.Name || !s.IsHere() {
			continue
		}
		found, err := r.pick(ctx, s)
		if err == nil {
			found.Remote = "" // it is on this machine
			r.Notes.Note("%s: using %s, on this machine", e.Problem, found)
			return found, nil
		}
		if busy, ok := errors.AsType[*llm.Error](err); ok && recovers(busy) || ctx.Err() != nil {
			return Model{}, err
		}
	}
	if r.Strict {
		return Model{}, &task.Error{Status: task.Unavailable, Problem: e.Problem, Err: e,
			Hint: e.Hint + "; or choose the built-in model with --model extract; qq setup looks for other servers"}
	}
	why := e.Problem + ": using the built-in extractive model (summaries, key points, keywords, outlines)"
	r.replaced.Store(&why)
	r.Warnings.Note("%s", why)
	m := Model{Kind: Extract}
	if e.Kind == llm.Unreachable {
		m.Instead = "run qq setup, which finds a model or takes a key, or use Ollama: " + e.Hint
	}
	return m, nil
}

// pick chooses a model of the server s.
func (r *Resolver) pick(ctx context.Context, s servers.Server) (Model, error) {
	client, err := r.client(ctx, s)
	if err != nil {
		return Model{}, err
	}
	defer client.Close()
	m, err := client.Pick(ctx)
	if err == nil {
		r.noteTools(m)
	}
	return m, err
}

// client returns a client for the server s, with its key.
func (r *Resolver) client(ctx context.Context, s servers.Server) (*Client, error) {
	key, err := r.key(ctx, s)
	if err != nil {
		return nil, err
	}
	return connect(s, key)
}

// Server returns the server of the model of that name. An empty name is that of the run.
func (r *Resolver) Server(name string) servers.Server {
	name = cmp.Or(name, r.Run)
	s, _ := r.serverOf(cmp.Or(r.Aliases[name], name))
	return s
}

// Open returns a client for the server of the named model, and the name of the model there. An empty name is that of
// the run.
func (r *Resolver) Open(ctx context.Context, name string) (*Client, string, error) {
	name = cmp.Or(name, r.Run)
	server, name := r.serverOf(cmp.Or(r.Aliases[name], name))
	client, err := r.client(ctx, server)
	return client, name, err
}

func (r *Resolver) noteTools(m Model) {
	if !m.Tools {
		r.Notes.Note("model %s cannot call tools: agents work without them", m.Name)
	}
}
