package agent

import (
	"context"
	"errors"

	"qq/internal/models/gate"
	"qq/pkg/llm"
	"qq/pkg/task"
)

// inTurn is a backend that asks the models of a run in turn: the next one if one cannot be had. A run that goes on
// with another model stays with it.
type inTurn struct {
	run     *run
	retries int
}

// Chat implements [llm.Backend].
func (b inTurn) Chat(ctx context.Context, q llm.Request, yield func(llm.Chunk)) (llm.Response, error) {
	var used task.Usage // of the models that did not answer too
	for {
		resp, err := b.run.through(b.run.model(), b.retries).Chat(ctx, q, yield)
		used = used.Add(resp.Usage)
		b.run.deeds.did.Asked(resp.First, resp.Took, resp.Waited)
		if resp.Usage = used; !b.run.goesOn(ctx, err) {
			return resp, err
		}
	}
}

// model returns the model that the run asks now.
func (r *run) model() Model {
	if r.fallback > 0 {
		return r.Fallback[r.fallback-1]
	}
	return r.Model
}

// goesOn makes the run ask the next model after err, and reports whether there is one. It does not after a side
// effect: what was begun is ended by the same model, or not.
func (r *run) goesOn(ctx context.Context, err error) bool {
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || !e.Elsewhere() || ctx.Err() != nil || !r.mayGoOn() {
		return false
	}
	r.fallback++
	r.note("%s: going on with %s", e.Problem, r.model())
	return true
}

// mayGoOn reports whether the run may ask the next model: there is one, and nothing was done that has side effects.
func (r *run) mayGoOn() bool {
	return r.fallback < len(r.Fallback) && !r.acted && !r.helpers.handed.Load()
}

// through returns a backend that asks m. Each request waits for a slot at the model server, and is retried after
// temporary failures. The built-in model needs neither.
func (r *run) through(m Model, retries int) llm.Backend {
	name, ok := m.Served()
	if !ok {
		return m
	}
	return gate.Retrying(m, name, r.parent, gate.Policy{
		Retries: retries, Repeats: r, Hasty: r.mayGoOn(),
	})
}
