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

// Used is how many tokens all requests to the model server have used.
func (w *wiring) Used() task.Usage { return w.gate.Used() }

// Spent reports whether the budget of tokens is used up.
func (w *wiring) Spent() bool { return w.gate.Spent() }

// Waits is how long requests have to wait for the model server, as far as it is known; 0
// if none waits.
func (w *wiring) Waits() time.Duration { return w.gate.Waits() }

// remark reports events of the gate, such as a wait for the model server, to a person and
// to readers of events. With a single agent, the agent reports them to the person itself.
func (w *wiring) remark(format string, args ...any) {
	if w.several.Load() {
		w.cfg.Note(format, args...)
	}
	w.stream.Emit(event.Event{
		Type: event.SubAgentProgress, ExecutionID: w.cfg.ID, Depth: w.cfg.Settings.Depth,
		Text: fmt.Sprintf(format, args...),
	})
}

// notes lets a function implement gate.Notes and models.Notes.
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

// served is the name of the model for t at the model server; false if t uses the built-in
// model, or if its model is not resolved yet.
func (w *wiring) served(t task.Task) (name string, ok bool) {
	m, ok := w.models.Known(w.modelName(t))
	name, served := m.Served()
	return name, ok && served
}
