// Package unwatched keeps the events of a child back if nobody reads them when it starts.
package unwatched

import (
	"slices"
	"sync"
	"time"

	"qq/pkg/event"
	"qq/pkg/supervisor"
)

// quiet is how long a child sends no events. Most children end before, and sending the first one costs
// more than all that follow.
const quiet = time.Second

// Parent is a parent that gets no events at first. Later a person may look at a line on the
// terminal, or somebody may have subscribed at the control socket: then the parent gets the calls that run, and all
// events that follow. The text of the model is never sent.
type Parent struct {
	supervisor.Parent
	mu    sync.Mutex
	late  bool          // quiet has passed
	calls []event.Event // that run; unused when late
}

// New returns p as the parent of a child that starts now.
func New(p supervisor.Parent) *Parent {
	u := &Parent{Parent: p}
	time.AfterFunc(quiet, u.begin)
	return u
}

// begin sends the start of each call that runs.
func (u *Parent) begin() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.late = true
	for _, e := range u.calls {
		u.Parent.Emit(e)
	}
}

// Emit implements supervisor.Report. That tasks are about to run in parallel is always told, because the
// root logs it.
func (u *Parent) Emit(e event.Event) {
	if u.keep(e) || e.Phase == event.PhaseDelegating && e.Total > 1 {
		u.Parent.Emit(e)
	}
}

// keep notes the calls that run, and reports whether e is to be sent.
func (u *Parent) keep(e event.Event) (late bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.late:
	case e.Type == event.ToolStart:
		u.calls = append(u.calls, e)
	case e.Type == event.ToolEnd:
		same := func(call event.Event) bool { return call.CallID == e.CallID }
		if i := slices.IndexFunc(u.calls, same); i >= 0 {
			u.calls = slices.Delete(u.calls, i, i+1)
		}
	}
	return u.late
}
