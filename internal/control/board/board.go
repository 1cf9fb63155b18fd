// Package board shows a tree of jobs as it is now: each live job with what it does, its last call and what it has used,
// the jobs that ended last, and how far the batch is. It is what every face shows.
//
// Flow: a [Board] is a sink of the events of a root. It adds what they tell to the list of live jobs, which package
// jobs keeps. It asks for no event that costs something: a child that nobody watches tells what it does from its second
// second on.
//
// Promises: what comes from agents is bounded. A [Job] holds whatever the events before it have told.
package board

import (
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"qq/pkg/event"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/task"
)

// What jobs do, besides what package jobs says.
const (
	Tool     jobs.Doing = "tool"     // running: calls of tools run
	Approval jobs.Doing = "approval" // waiting: for a person
	Server   jobs.Doing = "server"   // waiting: for its turn at the model server
)

// Limits of a Board.
const (
	maxCalls = 100      // of one job that run; an agent may begin calls and never end them
	maxText  = 64 << 10 // bytes of the text of a turn: the last ones are kept
	maxEnded = 64       // jobs
)

// Job is a live job. Its JSON is part of the protocol of the control socket.
type Job struct {
	jobs.Job
	Call  *Call       `json:"call,omitempty"`  // the last one that runs, or else the last one
	Phase event.Phase `json:"phase,omitempty"` // what its agent said last, see package event
	Done  int         `json:"done,omitempty"`  // of the phase
	Total int         `json:"total,omitempty"` // of the phase
	Note  string      `json:"note,omitempty"`  // what it waits for, or why a request is repeated
}

// Call is a call of a tool.
type Call struct {
	Tool      string    `json:"tool"`
	Arguments string    `json:"arguments,omitempty"` // JSON, shortened
	Text      string    `json:"text"`                // the call in readable form
	Started   time.Time `json:"started"`
	Running   bool      `json:"running,omitempty"`
	Failed    bool      `json:"failed,omitempty"`
}

// Ended is a job that has ended.
type Ended struct {
	ExecutionID       string      `json:"execution_id"`
	ParentExecutionID string      `json:"parent_execution_id"`
	BatchID           string      `json:"batch_id"`
	Agent             string      `json:"agent"`
	Depth             int         `json:"depth"`
	Task              string      `json:"task"` // empty if it never started
	Status            task.Status `json:"status"`
	Error             string      `json:"error,omitempty"`
	Summary           string      `json:"summary,omitempty"` // the beginning of its output
	Usage             task.Usage  `json:"usage"`
	DurationMS        int64       `json:"duration_ms"`
	Ended             time.Time   `json:"ended"`
}

// Batch counts the results of a batch.
type Batch struct {
	ID        string    `json:"id"`
	Started   time.Time `json:"started"`
	Total     int       `json:"total,omitempty"` // 0 if it is not known
	Done      int       `json:"done"`            // tasks that have a result
	Failed    int       `json:"failed"`          // of them, without those that were cancelled
	Cancelled int       `json:"cancelled"`
	Cached    int       `json:"cached"` // whose result was known
}

// Board is a sink of events. Several goroutines may call its methods at once.
type Board struct {
	mu    sync.Mutex
	jobs  map[string]*live
	ended []Ended // the last ones, oldest first
	batch *Batch  // nil outside of qq batch
}

// live is what events have told about a job.
type live struct {
	start event.Event // of its start
	last  event.Event // progress with a phase
	note  string
	calls event.Calls
	call  Call
	text  []byte // of the turn that the model writes
}

// New returns an empty Board.
func New() *Board { return &Board{jobs: map[string]*live{}} }

// Handle implements [event.Sink].
func (b *Board) Handle(e event.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e.Type {
	case event.BatchStart:
		if e.Agent == "" { // else an agent has called run_parallel_tasks
			b.batch = &Batch{ID: e.BatchID, Started: e.TS, Total: e.Count}
		}
		return
	case event.SubAgentComplete, event.SubAgentError:
		b.end(e)
		return
	}
	if e.ExecutionID == "" {
		return
	}
	j := b.jobs[e.ExecutionID]
	if j == nil {
		if e.Type != event.SubAgentStart { // it has ended
			return
		}
		j = &live{}
		b.jobs[e.ExecutionID] = j
	}
	j.add(e)
}

// add adds what an event tells about the job.
func (j *live) add(e event.Event) {
	switch e.Type {
	case event.SubAgentStart:
		j.start = e
	case event.SubAgentProgress:
		if j.note = e.Text; e.Phase != "" {
			if j.last = e; e.Phase == event.PhaseModel {
				j.text = nil
			}
		}
	case event.ToolStart:
		j.call = Call{Tool: e.Tool, Arguments: e.Arguments, Text: e.Text, Started: e.TS, Running: true}
		if len(j.calls) < maxCalls {
			j.calls = append(j.calls, e)
		}
	case event.ToolEnd:
		j.calls.End(e)
		if n := len(j.calls); n > 0 {
			c := j.calls[n-1]
			j.call = Call{Tool: c.Tool, Arguments: c.Arguments, Text: c.Text, Started: c.TS, Running: true}
		} else {
			j.call.Running, j.call.Failed = false, e.Failed
		}
	case event.Token:
		j.text = append(j.text, e.Text...)
		if len(j.text) > 2*maxText { // seldom: it copies
			j.text = append([]byte(nil), last(j.text)...)
		}
	}
}

// last returns the end of text, at most [maxText] bytes. It begins with a whole character.
func last(text []byte) []byte {
	cut := max(len(text)-maxText, 0)
	for cut > 0 && cut < len(text) && !utf8.RuneStart(text[cut]) {
		cut++
	}
	return text[cut:]
}

// end moves a job to those that have ended, and counts it if it is a task of the batch.
func (b *Board) end(e event.Event) {
	end := Ended{
		ExecutionID: e.ExecutionID, ParentExecutionID: e.ParentExecutionID, BatchID: e.BatchID, Agent: e.Agent,
		Depth: e.Depth, Status: e.Status, Error: e.Error, Summary: e.Summary, DurationMS: e.DurationMS, Ended: e.TS,
	}
	if e.Usage != nil {
		end.Usage = *e.Usage
	}
	if j := b.jobs[e.ExecutionID]; j != nil {
		end.Task = j.start.Task
		delete(b.jobs, e.ExecutionID)
	}
	if len(b.ended) == maxEnded {
		b.ended = slices.Delete(b.ended, 0, 1)
	}
	b.ended = append(b.ended, end)
	if b.batch == nil || e.BatchID != b.batch.ID || e.ParentExecutionID != "" {
		return
	}
	b.batch.Done++
	switch {
	case e.Cached:
		b.batch.Cached++
	case e.Type == event.SubAgentComplete:
	case e.Status == task.Cancelled || e.Status == task.Interrupted || e.Status == task.Terminated:
		b.batch.Cancelled++
	default:
		b.batch.Failed++
	}
}

// Jobs returns the jobs of list with what events have told about them. asking are the ids of those that wait for a
// person.
func (b *Board) Jobs(list []jobs.Job, asking map[string]bool) []Job {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]Job, len(list))
	for i, j := range list {
		all[i].Job = j
		if known := b.jobs[j.ExecutionID]; known != nil {
			known.show(&all[i])
		}
		all[i].Doing = all[i].doing(asking[j.ExecutionID])
	}
	return all
}

// show completes job with what events have told about it.
func (j *live) show(job *Job) {
	job.Phase, job.Done, job.Total, job.Note = j.last.Phase, j.last.Done, j.last.Total, j.note
	if j.call.Tool != "" {
		call := j.call
		job.Call = &call
	}
}

// doing returns what the job does, where the list of jobs does not say it. asks says that it waits for a person.
func (j *Job) doing(asks bool) jobs.Doing {
	switch {
	case asks:
		return Approval
	case j.Doing != "" || j.State == task.Queued:
		return j.Doing
	case j.State != task.Waiting:
		if j.Call != nil && j.Call.Running {
			return Tool
		}
		return ""
	case j.Phase == event.PhaseWaiting && j.Note == event.AwaitsServer:
		return Server
	}
	return ""
}

// Text returns what the model has written of the turn that a job is in. It is known only of jobs that are watched.
func (b *Board) Text(executionID string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if j := b.jobs[executionID]; j != nil {
		return string(last(j.text))
	}
	return ""
}

// Ended returns the jobs that ended last, the oldest first.
func (b *Board) Ended() []Ended {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.ended)
}

// Batch returns the counts of the batch, or nil if there is none.
func (b *Board) Batch() *Batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.batch == nil {
		return nil
	}
	counts := *b.batch
	return &counts
}
