package trace

import (
	"context"

	"qq/pkg/event"
	"qq/pkg/task"
)

// Begin starts to collect the spans of a run, if the environment names a trace collector; else the Exporter is nil. id
// is the execution id of the run, tr the trace that the run belongs to.
func Begin(getenv func(string) string, version, id string, tr event.Trace) (*Exporter, error) {
	to, wanted, err := FromEnv(getenv)
	if err != nil || !wanted {
		return nil, err
	}
	to.Version, to.Trace, to.RootID = version, tr, id
	return Start(to), nil
}

// End sends the spans of the run and its outcome to the trace collector. A nil Exporter does nothing.
func (x *Exporter) End(code int) error {
	if x == nil {
		return nil
	}
	e := event.Event{Type: event.SubAgentComplete, Status: task.Completed, ExitCode: &code}
	if code != 0 {
		e.Type, e.Status = event.SubAgentError, task.Failed
	}
	x.Handle(e)
	return x.Close(context.Background())
}
