// Package jobs lists the jobs of a tree that have not ended, cancels one of them, and keeps the
// messages to it. A queued job is in the list as soon as it has an id.
package jobs

import (
	"context"
	"fmt"
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
	Depth             int         `json:"depth"`            // in the tree of tasks; 0 is the root
	Task              string      `json:"task"`             // its text, shortened to 100 characters
	State             task.Status `json:"state"`            // queued, running or waiting
	Since             time.Time   `json:"since"`            // when it came into that state
	Queued            time.Time   `json:"queued"`           // when it was accepted
	Started           time.Time   `json:"started,omitzero"` // when its first attempt started
	Attempt           int         `json:"attempt"`          // counts from 1; 0 while it is queued
	// Slot says that it has a slot now. It lends it while it waits for children, a person or its next attempt.
	Slot bool `json:"-"`
	// Ready says that it has ended its work, and waits until its changes are joined.
	Ready bool `json:"-"`
}

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
}

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
		known.Job, known.clock, known.cancel = e.Job, clock, cancel
		return &known.mail
	}
	if t.byID == nil {
		t.byID = map[string]*entry{}
	}
	t.jobs, t.byID[job.ExecutionID] = append(t.jobs, e), e
	return &e.mail
}

// Tell puts a text into the mailbox of the job with that id, which the agent with the id parent has started. It returns
// an error if that agent has started no such job, or if the job has ended.
func (t *Table) Tell(id, parent, text string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.byID[id]; e != nil && e.ParentExecutionID == parent {
		return e.mail.Put(text)
	}
	return fmt.Errorf("no child %s of this agent is queued or running", id)
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
	}
	return list
}
