package app

import (
	"fmt"
	"sync/atomic"
	"time"

	"qq/internal/app/gates"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// Used returns how many tokens all requests to the model servers have used so far.
func (w *wiring) Used() task.Usage { return w.gates.Used() }

// Spent reports whether the budget of tokens is used up.
func (w *wiring) Spent() bool { return w.gates.Spent() }

// Waits returns how long requests currently have to wait for the model servers, as far as
// that is known; 0 means that none waits.
func (w *wiring) Waits() time.Duration { return w.gates.Waits() }

// UsedUp implements batch.Runner.
func (w *wiring) UsedUp() string { return w.gates.UsedUp() }

// remark reports an event of the gate, such as a wait for the model server. Readers of
// events always get it. A person gets it only if there are several agents, because a single
// agent reports it itself.
func (w *wiring) remark(format string, args ...any) {
	if w.several.Load() {
		w.cfg.Person.Note(format, args...)
	}
	w.emit(format, args...)
}

// announce reports a wait that a single agent does not report itself.
func (w *wiring) announce(format string, args ...any) {
	w.cfg.Person.Note(format, args...)
	w.emit(format, args...)
}

// Events implements batch.Runner.
func (w *wiring) Events() *event.Stream { return w.stream }

func (w *wiring) emit(format string, args ...any) {
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

// admission is the gates of a run, and notes that a child uses them.
type admission struct {
	*gates.Gates
	several *atomic.Bool
}

// First implements supervisor.Gate.
func (a admission) First(t task.Task, who supervisor.Waiter) llm.Permit {
	a.several.Store(true)
	return a.Gates.First(t, who)
}
