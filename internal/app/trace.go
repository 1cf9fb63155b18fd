package app

import (
	"qq/internal/trace"
	"qq/pkg/event"
)

// startExporter starts to collect the spans of the run, if the environment names a trace
// collector. id is the execution id of the run, tr the trace that the run belongs to.
func (r *root) startExporter(id string, tr event.Trace) {
	to, wanted, err := trace.FromEnv(r.Env.Get)
	if err != nil { // often set for the whole machine: the run continues
		r.Say("no traces are exported: %v", err)
		return
	}
	if wanted {
		to.Version, to.Trace, to.RootID = Version(), tr, id
		r.exporter = trace.Start(to)
	}
}

// flush sends the spans of the run and its outcome to the trace collector.
func (r *root) flush() {
	if r.exporter == nil {
		return
	}
	if err := r.exporter.End(r.code); err != nil {
		r.Say("%v", err)
	}
}
