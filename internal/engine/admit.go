package engine

import (
	"context"
	"fmt"
	"time"

	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// Used is how many tokens all requests to the model server have used.
func (e *Engine) Used() task.Usage { return e.gate.Used() }

// Spent reports whether the budget of tokens is used up.
func (e *Engine) Spent() bool { return e.gate.Spent() }

// Waits is how long everything that waits for the model server has to, as it knows
// by now; 0 when nothing does.
func (e *Engine) Waits() time.Duration { return e.gate.Waits() }

// remark says to a person, and to whoever reads events, what happens between the
// tree and its model server. Who has one prompt hears it from that.
func (e *Engine) remark(format string, args ...any) {
	if e.several.Load() {
		e.cfg.Note(format, args...)
	}
	e.stream.Emit(event.Event{Type: event.SubAgentProgress, ExecutionID: e.id, Text: fmt.Sprintf(format, args...), Depth: e.cfg.Settings.Depth})
}

// notes is a function as gate.Notes and models.Notes.
type notes func(format string, args ...any)

// Note implements gate.Notes.
func (n notes) Note(format string, args ...any) { n(format, args...) }

// admission is the one gate to the model server for the whole tree.
type admission struct{ e *Engine }

var _ supervisor.Gate = admission{}

// Enter implements supervisor.Gate.
func (a admission) Enter(ctx context.Context, model string, again bool, who supervisor.Waiter) (llm.Permit, error) {
	return a.e.gate.EnterFor(ctx, model, who, again)
}

// First implements supervisor.Gate.
func (a admission) First(t task.Task, who supervisor.Waiter) llm.Permit {
	a.e.several.Store(true) // a child asks
	if name, ok := a.e.served(t); ok {
		return a.e.gate.Try(name, who)
	}
	return nil
}

// Refusal implements supervisor.Gate.
func (a admission) Refusal(t task.Task) error {
	if name, ok := a.e.served(t); ok {
		return a.e.gate.Refusal(name)
	}
	return nil
}

// served is the model of the server that t is done with; false when it is none of
// a server, or not known yet.
func (e *Engine) served(t task.Task) (name string, ok bool) {
	m, ok := e.models.Known(e.modelName(t))
	name, served := m.Served()
	return name, ok && served
}
