package agent

import (
	"sync"
	"time"

	"qq/pkg/event"
	"qq/pkg/supervisor"
)

// unwatchedFor is how long a child sends no events if nobody reads them when it starts. Most children
// end before, and sending the first one costs more than all that follow.
const unwatchedFor = time.Second

// Unwatched is a parent that gets no events until unwatchedFor has passed. Later a person may look at a line on the
// terminal, or somebody may have connected to the control socket: then the parent gets what the agent does now, the
// calls that run, and all events that follow. See [TokenEvents] for the text of the model.
type Unwatched struct {
	supervisor.Parent
	mu    sync.Mutex
	late  bool         // unwatchedFor has passed
	calls event.Calls  // unused when late
	phase *event.Event // the last one, unless it was sent; unused when late
}

// NewUnwatched returns p as an Unwatched parent, from now on.
func NewUnwatched(p supervisor.Parent) *Unwatched {
	u := &Unwatched{Parent: p}
	time.AfterFunc(unwatchedFor, u.begin)
	return u
}

// begin sends what the agent does, and the start of each call that runs.
func (u *Unwatched) begin() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.late = true
	if u.phase != nil {
		u.Parent.Emit(*u.phase)
	}
	for _, e := range u.calls {
		u.Parent.Emit(e)
	}
}

// Emit implements supervisor.Report.
func (u *Unwatched) Emit(e event.Event) {
	if u.keep(e) {
		u.Parent.Emit(e)
	}
}

// keep notes the phase and the calls that run, and reports whether e is to be sent. That several tasks, or the parts of
// a text, are about to run is always sent, because the root counts them.
func (u *Unwatched) keep(e event.Event) (send bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.late:
	case e.Phase == event.PhaseParts, e.Phase == event.PhaseDelegating && e.Total > 1:
		u.phase = nil
		return true
	case e.Phase != "":
		u.phase = &e
	case e.Type == event.ToolStart:
		u.calls = append(u.calls, e)
	case e.Type == event.ToolEnd:
		u.calls.End(e)
	}
	return u.late
}
