package supervisor

import (
	"qq/pkg/event"
	"qq/pkg/supervisor/ceiling"
	"qq/pkg/supervisor/tally"
	"qq/pkg/task"
)

// started announces the start of a job. The log is about children only.
func (x *execution) started() {
	s, job := x.s, x.job
	if s.cfg.Log != nil && !x.zero() {
		tally.Started(s.cfg.Log, job)
	}
	if s.cfg.Events.Wanted() {
		s.cfg.Events.Emit(event.Start(job))
	}
}

// finished announces the end of a job, after its result was recorded.
func (x *execution) finished(r task.Result) {
	if log := x.s.cfg.Log; log != nil && !x.zero() {
		tally.Ended(log, x.job, r, event.NotRecorded)
	}
	x.announce(r)
}

// announce emits the event of the end of a job.
func (x *execution) announce(r task.Result) {
	if x.s.cfg.Events.Wanted() {
		x.s.cfg.Events.Emit(event.End(x.job, r))
	}
}

// Emit implements [Report].
func (h *handle) Emit(e event.Event) {
	switch e.Phase {
	case "":
	case event.PhaseDelegating, event.PhaseParts:
		h.tally.Announce(e.Phase == event.PhaseParts, e.Total, e.Tasks)
	default:
		h.tally.Announce(false, 0, nil)
	}
	h.phases.Emit(e.By(h.job))
}

// dispatched writes a line to the log if tasks run in parallel, with each other or with more that the
// agent has announced.
func (h *handle) dispatched(tasks ...task.Task) {
	if h.s.cfg.Log == nil {
		return
	}
	h.tally.Log(h.s.cfg.Log, task.ShortID(h.job.ExecutionID), ceiling.Lines(tasks))
}
