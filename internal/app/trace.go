package app

import (
	"cmp"
	"context"

	"qq/internal/engine"
	"qq/internal/trace"
	"qq/pkg/event"
	"qq/pkg/task"
)

// traced makes this run a part of the trace that it was started in, and sends what
// it does to a collector where the environment names one.
func (r *root) traced(cfg *engine.Config) {
	cfg.ID = cmp.Or(r.id, task.NewID())
	cfg.Trace = event.StartTrace(r.Env.Get("TRACEPARENT")).Of(cfg.ID)
	to, wanted, err := trace.FromEnv(r.Env.Get)
	if err != nil { // often set for the whole machine, and no reason not to work
		r.Say("no traces are exported: %v", err)
	}
	if err != nil || !wanted {
		return
	}
	to.Version, to.Trace = cfg.Version, cfg.Trace
	if r.exporter = trace.Start(to); r.exporter != nil {
		id := cfg.ID
		cfg.Sinks = append(cfg.Sinks, func(e event.Event) {
			if e.ExecutionID == id {
				e.ExecutionID = "" // that is how the exporter knows the root
			}
			if e.ParentExecutionID == id {
				e.ParentExecutionID = ""
			}
			r.exporter.Sink(e)
		})
	}
}

// flush says what became of this run, and sends what is left to the collector.
func (r *root) flush() {
	if r.exporter == nil {
		return
	}
	e := event.Event{Type: event.SubAgentComplete, Status: task.Completed, ExitCode: &r.code}
	if r.code != 0 {
		e.Type, e.Status = event.SubAgentError, task.Failed
	}
	r.exporter.Sink(e)
	if err := r.exporter.Close(context.Background()); err != nil {
		r.Say("%v", err)
	}
}
