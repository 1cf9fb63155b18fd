package app

import (
	"cmp"
	"context"

	"qq/internal/trace"
	"qq/pkg/event"
	"qq/pkg/task"
)

// traced makes this run a part of the trace that it was started in, and keeps its
// spans if the environment names a collector.
func (r *root) traced(cfg *wiringConfig) {
	cfg.ID = cmp.Or(r.id, task.NewID())
	cfg.Trace = event.StartTrace(r.Env.Get("TRACEPARENT"))
	to, wanted, err := trace.FromEnv(r.Env.Get)
	if err != nil { // often set for the whole machine, and no reason not to run
		r.Say("no traces are exported: %v", err)
	}
	if err != nil || !wanted {
		return
	}
	to.Version, to.Trace, to.RootID = cfg.Version, cfg.Trace, cfg.ID
	if r.exporter = trace.Start(to); r.exporter != nil {
		cfg.Sinks = append(cfg.Sinks, r.exporter)
	}
}

// flush tells the collector what the run did and how it ended.
func (r *root) flush() {
	if r.exporter == nil {
		return
	}
	e := event.Event{Type: event.SubAgentComplete, Status: task.Completed, ExitCode: &r.code}
	if r.code != 0 {
		e.Type, e.Status = event.SubAgentError, task.Failed
	}
	r.exporter.Handle(e)
	if err := r.exporter.Close(context.Background()); err != nil {
		r.Say("%v", err)
	}
}
