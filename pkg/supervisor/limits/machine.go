package limits

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// Machine lets jobs wait while the machine has a fault, such as too many open files. A job tries
// again after a pause, which doubles with each try. The job that has waited longest also tries
// again when another job has ended, because what that one used is free then. Several goroutines may
// use a Machine at once.
type Machine struct {
	slots *Slots
	limit time.Duration
	notes Notes

	mu      sync.Mutex
	last    time.Time            // when a job last began to wait
	waiting []*Tries             // the one that has waited longest comes first
	trying  map[*Tries]time.Time // since when they try again
}

// Notes is told what a person should know while jobs run.
type Notes interface {
	// Note gets one line, with the arguments of [fmt.Sprintf].
	Note(format string, args ...any)
}

// Tries are the tries of one job to do what a fault of the machine prevents. The zero value is for
// a job that holds a slot and has not tried yet.
type Tries struct {
	NoSlot bool // the job has given its slot back

	pause  time.Duration // the last one
	waited time.Duration // the pauses since another job was at work
	again  chan struct{} // holds one when the job is to try again before its pause is over
}

const (
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
	// shortTry is how long a try may take that fails. A job whose try takes longer counts as at work.
	shortTry = time.Second
	// newFault is how long nobody has waited when a fault counts as a new one, of which notes is told.
	newFault = 5 * time.Minute
)

// NewMachine returns a Machine for jobs that hold slots. limit is how long a fault may last; with 0
// nobody waits. notes, which may be nil, is told why jobs wait.
func NewMachine(slots *Slots, limit time.Duration, notes Notes) *Machine {
	return &Machine{slots: slots, limit: limit, notes: notes, trying: map[*Tries]time.Time{}}
}

// Wait waits after a failed try of a job. The first line of problem says what failed. Wait returns
// false if the job must give up, because ctx is done or because the fault has lasted for the limit.
// Time in which another job is at work does not count: when that job ends, the fault may be over.
func (m *Machine) Wait(ctx context.Context, t *Tries, problem string) bool {
	if ctx.Err() != nil {
		return false
	}
	last, ok := m.join(t)
	if !ok {
		return false
	}
	if m.notes != nil && time.Since(last) > newFault {
		problem, _, _ = strings.Cut(problem, "\n")
		m.notes.Note("%s: tasks wait until that is over", problem)
	}
	timer := time.NewTimer(t.pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		t.waited += t.pause
	case <-t.again:
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting = slices.DeleteFunc(m.waiting, func(o *Tries) bool { return o == t })
	m.trying[t] = time.Now()
	return ctx.Err() == nil
}

// join adds t to those that wait and sets its next pause. It returns when a job last began to wait,
// and false if t has waited for the whole limit.
func (m *Machine) join(t *Tries) (last time.Time, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.trying, t)
	idle := 0 // slots whose jobs wait here
	for o, since := range m.trying {
		if time.Since(since) > shortTry {
			delete(m.trying, o) // it has started
		} else if !o.NoSlot {
			idle++
		}
	}
	for _, o := range append(m.waiting, t) {
		if !o.NoSlot {
			idle++
		}
	}
	if m.slots.taken() > idle {
		t.waited = 0
	}
	if t.waited >= m.limit {
		m.trying[t] = time.Now() // until its slot is free it is not at work
		return last, false
	}
	t.pause = min(max(2*t.pause, firstPause), longestPause, m.limit-t.waited)
	t.again = make(chan struct{}, 1)
	m.waiting = append(m.waiting, t)
	last, m.last = m.last, time.Now()
	return last, true
}

// Ended says that a job has ended. The job that has waited longest tries again at once.
func (m *Machine) Ended() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiting) > 0 {
		m.waiting[0].again <- struct{}{}
		m.waiting = m.waiting[1:]
	}
}
