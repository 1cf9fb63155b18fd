package app

import (
	"context"
	"fmt"
	"time"

	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// Used returns how many tokens all requests to the model server have used so far.
func (w *wiring) Used() task.Usage { return w.gate.Used() }

// Spent reports whether the budget of tokens is used up.
func (w *wiring) Spent() bool { return w.gate.Spent() }

// Waits returns how long requests currently have to wait for the model server, as far as
// that is known; 0 means that none waits.
func (w *wiring) Waits() time.Duration { return w.gate.Waits() }

// remark reports an event of the gate, such as a wait for the model server. Readers of
// events always get it. A person gets it only if there are several agents, because a single
// agent reports it itself.
func (w *wiring) remark(format string, args ...any) {
	if w.several.Load() {
		w.cfg.Person.Note(format, args...)
	}
	w.stream.Emit(event.Event{
		Type: event.SubAgentProgress, ExecutionID: w.cfg.ID, Depth: w.cfg.Settings.Depth,
		Text: fmt.Sprintf(format, args...),
	})
}

// person is who started the run, see [command.Invocation].
type person interface {
	Note(format string, args ...any)
	Say(format string, args ...any)
}

// notes makes a function a gate.Notes and a models.Notes.
type notes func(format string, args ...any)

// Note implements gate.Notes.
func (n notes) Note(format string, args ...any) { n(format, args...) }

// admission connects the supervisor to the gate, through which all model requests of the
// tree go.
type admission struct{ w *wiring }

var _ supervisor.Gate = admission{}

// Enter implements supervisor.Gate.
func (a admission) Enter(ctx context.Context, model string, again bool, who supervisor.Waiter) (llm.Permit, error) {
	return a.w.gate.Enter(ctx, model, again, who)
}

// First implements supervisor.Gate.
func (a admission) First(t task.Task, who supervisor.Waiter) llm.Permit {
	a.w.several.Store(true) // a child uses the gate
	if name, ok := a.w.served(t); ok {
		return a.w.gate.Try(name, who)
	}
	return nil
}

// Refusal implements supervisor.Gate.
func (a admission) Refusal(t task.Task) error {
	if name, ok := a.w.served(t); ok {
		return a.w.gate.Refusal(name)
	}
	return nil
}

// served returns the name that the model for t has at the model server. It returns false if
// t uses the built-in model, or if the model of t is not resolved yet.
func (w *wiring) served(t task.Task) (name string, ok bool) {
	m, ok := w.models.Known(w.modelName(t))
	name, served := m.Served()
	return name, ok && served
}
