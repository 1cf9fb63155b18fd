package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"qq/internal/models/gate"
	"qq/pkg/childproc"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/task"
)

// newGate makes the one gate to the model server for the whole tree.
func (e *Engine) newGate() *gate.Gate {
	set := e.cfg.Settings
	return gate.NewGate(gate.Config{
		MaxInFlight: set.MaxParallel, MaxTokens: set.MaxTokens, Retries: set.Retries, Notes: notes(e.remark),
	})
}

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

// notes is a function as gate.Notes.
type notes func(format string, args ...any)

// Note implements gate.Notes.
func (n notes) Note(format string, args ...any) { n(format, args...) }

// repeats is a function as gate.Repeats; it may be nil.
type repeats func(n int, wait time.Duration, err error)

// Repeated implements gate.Repeats.
func (r repeats) Repeated(n int, wait time.Duration, err error) {
	if r != nil {
		r(n, wait, err)
	}
}

// clocked is a job as gate.Clocked.
type clocked struct{ job task.Job }

// Behind gives back the time that the job waited for others at the server.
func (c clocked) Behind(d time.Duration) {
	c.job.Spare(d)
	c.job.Active()
}

// admit lets a request of the child at work on job pass.
func (e *Engine) admit(ctx context.Context, job task.Job, ask childproc.Enter) (llm.Permit, error) {
	e.several.Store(true)
	return e.gate.EnterFor(ctx, ask.Model, clocked{job}, ask.Again)
}

// served is the model of the server that t is done with; false when it is none of
// a server, or not known yet.
func (e *Engine) served(t task.Task) (name string, ok bool) {
	m, ok := e.models.Known(e.modelName(t))
	name, served := m.Served()
	return name, ok && served
}

// first is a permit for the first request of a child, when one is free: then the
// child need not ask. Nil is none.
func (e *Engine) first(job task.Job, _ childproc.Start) llm.Permit {
	if name, ok := e.served(job.Task); ok {
		return e.gate.Try(name, clocked{job})
	}
	return nil
}

// refuse is the result of a task for whose model there is no hope, and nil for
// every other: no process has to be started to find that out.
func (e *Engine) refuse(t task.Task) *task.Result {
	name, ok := e.served(t)
	if !ok {
		return nil
	}
	err := e.gate.Refusal(name)
	if err == nil {
		return nil
	}
	status := task.Unavailable
	if fault, ok := err.(*llm.Error); ok {
		status = fault.TaskStatus()
	}
	r := t.Normalized().Ended(status, err.Error())
	return &r
}

// repeatedEvent says that a request to a model is sent again.
func repeatedEvent(n int, wait time.Duration, err error) event.Event {
	problem, _, _ := strings.Cut(err.Error(), "\n")
	return event.Event{Type: event.SubAgentProgress, Text: fmt.Sprintf("request to the model repeated (%d) in %v: %s", n, wait.Round(time.Millisecond), problem)}
}
