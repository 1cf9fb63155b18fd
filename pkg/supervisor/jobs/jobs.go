// Package jobs lists the jobs of a tree that have not ended, with what they do and what they have used, cancels one of
// them, and keeps the messages to it. A queued job is in the list as soon as it has an id.
package jobs

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"qq/pkg/task"
)

// Job is a job that has not ended. Its JSON is part of the protocol of the control socket.
type Job struct {
	ExecutionID       string      `json:"execution_id"`
	ParentExecutionID string      `json:"parent_execution_id"` // empty for job zero and the tasks of a batch
	BatchID           string      `json:"batch_id"`            // of qq batch; empty outside of one
	Index             int         `json:"index"`               // in its batch or delegation, from 0
	Agent             string      `json:"agent"`
	Depth             int         `json:"depth"`                   // in the tree of tasks; 0 is the root
	Task              string      `json:"task"`                    // its text, shortened to 100 characters
	State             task.Status `json:"state"`                   // queued, running or waiting
	Since             time.Time   `json:"since"`                   // when it came into that state
	Queued            time.Time   `json:"queued"`                  // when it was accepted
	Started           time.Time   `json:"started,omitzero"`        // when its first attempt started
	Attempt           int         `json:"attempt"`                 // counts from 1; 0 while it is queued
	Chain             []string    `json:"chain,omitempty"`         // agents from the top of the tree to its own
	Doing             Doing       `json:"doing,omitempty"`         // what it does in its state, where that is known
	Model             string      `json:"model,omitempty"`         // with its provider; empty until it is known
	Usage             task.Usage  `json:"usage,omitzero"`          // of its own requests so far
	Subtree           task.Usage  `json:"subtree,omitzero"`        // and of all that it has started
	Changed           []string    `json:"changed,omitempty"`       // files that it has changed, the first of them
	ChangedCount      int         `json:"changed_count,omitempty"` // of different ones; 10,000 are that many or more
	// Slot says that it has a slot now. It lends it while it waits for children, a person or its next attempt.
	Slot bool `json:"-"`
	// Ready says that it has ended its work, and waits until its changes are joined.
	Ready bool `json:"-"`
}

// Doing is what a job does while it is in a state.
type Doing string

// What jobs do.
const (
	AwaitsLease Doing = "lease"     // queued: another job may touch what it will touch
	Starts      Doing = "starting"  // running: it has not asked its model yet
	Asks        Doing = "model"     // running: it waits for the answer of its model
	Streams     Doing = "streaming" // running: the answer comes
	Awaits      Doing = "children"  // waiting: for jobs that it has started
	AwaitsSlot  Doing = "slot"      // waiting: it goes on when it has a slot, and its lease, again
	Retries     Doing = "retry"     // waiting: for its next attempt
	Joins       Doing = "joining"   // waiting: its changes are joined
)

// Of the changed files of one job, so many are listed, and so many counted.
const (
	maxChanged = 50
	maxCounted = 10_000
)

// Slot is the slot of a job that has started.
type Slot interface {
	// Held reports whether the job has it now.
	Held() bool
}

// Clock is the idle clock of a job. It pauses while the job waits for somebody.
type Clock interface {
	// Turned returns whether the clock is paused, and since when that is so. The time is zero if the
	// clock never ran.
	Turned() (paused bool, since time.Time)
}

// Table holds the jobs of one tree that have not ended. The zero value is ready for use. Several
// goroutines may call its methods at once.
type Table struct {
	mu   sync.Mutex
	jobs []*entry // oldest first
	byID map[string]*entry
}

// entry is one job of a Table, with what the table needs to look at it and to cancel it.
type entry struct {
	Job
	clock  Clock
	slot   Slot // nil until it starts
	cancel context.CancelCauseFunc
	mail   Mailbox

	children  int  // that have not ended
	requests  int  // to its model, that are not answered
	asked     bool // it has sent one
	streaming bool // the answer to one of them comes
	awaits    map[Doing]int
	changed   map[uint64]struct{} // hashes of the names of changed files
}

// seed is for the hashes of names.
var seed = maphash.MakeSeed()

// Add adds a job that waits for its slot, and returns its mailbox. cancel ends it, whether it has
// started or not. A job that is added again, because it waited for others first, keeps its place and its mailbox.
// clock may be nil until then.
func (t *Table) Add(job task.Job, clock Clock, cancel context.CancelCauseFunc) *Mailbox {
	since := job.Queued
	if since.IsZero() {
		since = time.Now()
	}
	e := &entry{clock: clock, cancel: cancel, Job: Job{
		ExecutionID: job.ExecutionID, ParentExecutionID: job.Parent, BatchID: job.BatchID, Index: job.Index,
		Agent: job.Agent, Depth: job.Depth, Task: job.Brief(),
		State: task.Queued, Since: since, Queued: since,
	}}
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.byID[job.ExecutionID]; known != nil {
		e.Chain = known.Chain
		known.Job, known.clock, known.cancel = e.Job, clock, cancel
		return &known.mail
	}
	if t.byID == nil {
		t.byID = map[string]*entry{}
	}
	e.Chain = []string{job.Agent}
	if parent := t.parent(e); parent != nil {
		e.Chain = append(slices.Clone(parent.Chain), job.Agent)
		parent.children++
	}
	t.jobs, t.byID[job.ExecutionID] = append(t.jobs, e), e
	return &e.mail
}

// Send puts a message of the agent of the job from into the mailbox of another job: a job that it has started, or the
// one that has started it, which is called [task.Parent]. The error says why nobody will read it.
func (t *Table) Send(from, to, text string) error {
	if err := fits(text); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	sender := t.byID[from]
	if to != task.Parent {
		if e := t.byID[to]; e != nil && sender != nil && e.ParentExecutionID == from {
			return e.mail.Put("[message from your parent]\n" + text)
		}
		return fmt.Errorf("no child %s of this agent is queued or running", to)
	}
	parent := t.parent(sender)
	if parent == nil {
		return errors.New("this agent has no parent that could read a message")
	}
	return parent.mail.Put(fmt.Sprintf("[message from your child %s (%s)]\n%s", from, sender.Agent, text))
}

// Message puts a message of the person who started the tree into the mailbox of a job. Its agent reads it before its
// next request to the model.
func (t *Table) Message(id, text string) error {
	if err := fits(text); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.byID[id]
	if e == nil {
		return ErrUnknown
	}
	return e.mail.Put("[message from the user]\n" + text)
}

// ErrUnknown says that no such job queues or runs.
var ErrUnknown = errors.New("no such job queues or runs")

func fits(text string) error {
	if len(text) > task.MaxMessage {
		return fmt.Errorf("the message has %d bytes, at most %d: put it into a file", len(text), task.MaxMessage)
	}
	return nil
}

// Hold says whether a queued job waits for its lease.
func (t *Table) Hold(id string, waits bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.byID[id]; e != nil {
		if e.Doing = ""; waits {
			e.Doing = AwaitsLease
		}
	}
}

// Await says what a job waits for, until the returned function is called.
func (t *Table) Await(id string, what Doing) (over func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.byID[id]
	if e == nil {
		return func() {}
	}
	if e.awaits == nil {
		e.awaits = map[Doing]int{}
	}
	e.awaits[what]++ // several calls of an agent may wait at once
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		e.awaits[what]--
	}
}

// Use says which model the agent of the job asks.
func (t *Table) Use(id, model string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.byID[id]; e != nil {
		e.Model = model
	}
}

// Ask says that the job sends a request to its model.
func (t *Table) Ask(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.byID[id]; e != nil {
		e.requests, e.asked, e.streaming = e.requests+1, true, false
	}
}

// Stream says that a part of an answer has come.
func (t *Table) Stream(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.byID[id]; e != nil {
		e.streaming = true
	}
}

// Answer says that a request of the job has ended, and what it used.
func (t *Table) Answer(id string, used task.Usage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.byID[id]
	if e == nil {
		return
	}
	if e.requests--; e.requests <= 0 {
		e.requests, e.streaming = 0, false
	}
	e.Usage = e.Usage.Add(used)
	for ; e != nil; e = t.parent(e) {
		e.Subtree = e.Subtree.Add(used)
	}
}

// Change says that the job has changed files.
func (t *Table) Change(id string, paths []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.byID[id]
	if e == nil {
		return
	}
	if e.changed == nil {
		e.changed = map[uint64]struct{}{}
	}
	for _, p := range paths {
		sum := maphash.String(seed, p)
		if _, known := e.changed[sum]; known || len(e.changed) == maxCounted {
			continue
		}
		e.changed[sum] = struct{}{}
		if e.ChangedCount++; len(e.Changed) < maxChanged {
			e.Changed = append(e.Changed[:len(e.Changed):len(e.Changed)], p) // the old list may be in use
		}
	}
}

// parent returns the job that has started the one of e, or nil. The caller holds t.mu.
func (t *Table) parent(e *entry) *entry {
	if e == nil || e.ParentExecutionID == e.ExecutionID {
		return nil
	}
	return t.byID[e.ParentExecutionID]
}

// Attempt says that an attempt of the job starts, with that slot. n counts from 1.
func (t *Table) Attempt(id string, n int, slot Slot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.byID[id]; e != nil {
		if e.Attempt, e.slot, e.Ready = n, slot, false; n == 1 {
			e.State, e.Started = task.Running, time.Now()
		}
	}
}

// Ready says that the job has ended its work, and waits until its changes are joined.
func (t *Table) Ready(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.byID[id]; e != nil {
		e.Ready = true
	}
}

// Remove removes a job that has ended. A job that is not there is no harm.
func (t *Table) Remove(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.byID[id]; e != nil {
		delete(t.byID, id)
		if parent := t.parent(e); parent != nil {
			parent.children--
		}
		t.jobs = slices.DeleteFunc(t.jobs, func(other *entry) bool { return other == e })
	}
}

// Cancel cancels the job with that cause, and with it all that it has started. It returns false if
// there is no such job.
func (t *Table) Cancel(id string, cause error) bool {
	t.mu.Lock()
	e := t.byID[id]
	t.mu.Unlock()
	if e == nil {
		return false
	}
	e.cancel(cause)
	return true
}

// List returns all jobs. Parents come before the jobs that they started.
func (t *Table) List() []Job {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]Job, len(t.jobs))
	for i, e := range t.jobs {
		list[i] = e.Job
		if e.State == task.Queued {
			continue
		}
		list[i].Slot = e.slot.Held()
		paused, since := e.clock.Turned()
		if paused && !since.IsZero() {
			list[i].State = task.Waiting
		}
		list[i].Since = since
		if since.Before(e.Started) {
			list[i].Since = e.Started
		}
		list[i].Doing = e.doing(list[i].State)
	}
	return list
}

// doing returns what a job does that has started.
func (e *entry) doing(s task.Status) Doing {
	waits := s == task.Waiting
	switch {
	case e.Ready:
		return Joins
	case waits && e.children > 0:
		return Awaits
	case waits && e.awaits[Retries] > 0: // then too it may wait for a slot
		return Retries
	case waits && e.awaits[AwaitsSlot] > 0:
		return AwaitsSlot
	case waits:
		return ""
	case e.streaming:
		return Streams
	case e.requests > 0:
		return Asks
	case !e.asked:
		return Starts
	}
	return ""
}
