// Package record says what was done, and what need not be done again. It writes the
// ledger, the job log of a batch and the log of child processes.
//
// The key of a task is a hash of its content and of the file it was made of. Two tasks
// with one key are told apart by their order. A result is known when an earlier run of
// the batch ended the task ([Batch].Resume), or when an answer to the same task still
// holds because all files it read are unchanged ([Batch].Cache). Both are answered by
// the ledger alone.
//
// [New] makes the [Record] of a process. For a batch, [Record.Open] finds the one to
// resume, [Record.Tasks] computes the keys of the tasks as they pass, [Record.Known] is
// asked about each task, [Record.Done] is told of each finished one, [Record.Delivered]
// of each printed result, and [Record.Settle] how the batch ended. The supervisor calls
// Claim, Attempt and Finish.
//
// Not promised: that the cache notices what an agent knows by other means than the
// calls of its tools.
package record

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"qq/internal/record/ledger"
	"qq/pkg/task"
)

// Config is what a Record needs.
type Config struct {
	Ledger *ledger.Recorder // nil keeps no record
	ID     string           // execution id of this process
	Dir    string           // its working directory
	Tasks  Tasks
}

// Tasks answers what a Record asks about tasks.
type Tasks interface {
	Reader
	// ModelOf names the model of a task; empty is not known.
	ModelOf(t task.Task) string
	// CacheKey is what an answer to a task depends on besides the files that are read
	// for it; empty for a task that may not be answered from the cache.
	CacheKey(ctx context.Context, t task.Task) string
}

// Record keeps what one process does.
type Record struct {
	cfg   Config
	dir   string // the real path of its working directory; set for a batch
	batch Batch
	log   *JobLog        // nil where none is kept
	past  *ledger.Ledger // earlier runs; nil where nobody asks

	copies sync.WaitGroup // of cached results on their way into the batch
	copied chan struct{}  // one for each that may be

	mu      sync.Mutex
	logErr  error             // the first
	next    int               // index of the next task
	seen    map[[16]byte]int  // how many tasks of the batch had a key that begins so
	tasks   map[int]named     // those that have not ended, by index
	caching map[string]string // cache keys of running tasks, by execution
	resumed int               // tasks that were known
}

// named is what a task of a batch is found by.
type named struct {
	key   string    // what was asked
	nth   int       // of those with that key
	cache string    // and with what it was asked; empty where the answer is not cached
	known bool      // from an earlier run, or the cache
	ended time.Time // zero is not yet
}

// maxCopies is how many cached results are on their way into the ledger at once.
const maxCopies = 64

// New makes the record of a process.
func New(cfg Config) *Record {
	return &Record{
		cfg: cfg, copied: make(chan struct{}, maxCopies),
		seen: map[[16]byte]int{}, tasks: map[int]named{}, caching: map[string]string{},
	}
}

// Keeps reports whether there is a ledger.
func (r *Record) Keeps() bool { return r.cfg.Ledger != nil }

// Claim records that job is about to start. Nothing is started when it fails.
func (r *Record) Claim(job task.Job) error {
	x := r.execution(job.Task, job.ExecutionID)
	x.Parent, x.Batch, x.Index, x.Depth, x.Session = job.Parent, job.BatchID, job.Index, job.Depth, job.Session
	if job.BatchID != "" && job.Parent == "" { // and not what an agent in it handed on
		r.mu.Lock()
		n := r.tasks[job.Index]
		x.Key, x.Nth = n.key, n.nth
		if n.cache != "" {
			r.caching[job.ExecutionID] = n.cache
		}
		r.mu.Unlock()
	}
	return r.cfg.Ledger.Claim(x)
}

func (r *Record) execution(t task.Task, id string) ledger.Execution {
	return ledger.Execution{
		ID: id, Root: r.cfg.ID, Agent: t.Agent, Model: r.cfg.Tasks.ModelOf(t), Task: t.Text, Dir: filepath.Join(r.cfg.Dir, t.WorkingDir), Queued: time.Now(),
	}
}

// Attempt records how an attempt of job ended that began at started and that another
// one is to follow.
func (r *Record) Attempt(job task.Job, started time.Time, res task.Result) {
	r.cfg.Ledger.Attempt(job.ExecutionID, job.Attempt, started, res)
}

// Finish records the result of job and returns when that is durable.
func (r *Record) Finish(job task.Job, res task.Result) error {
	r.mu.Lock()
	key := r.caching[job.ExecutionID]
	delete(r.caching, job.ExecutionID)
	r.mu.Unlock()
	return r.cfg.Ledger.Finish(key, job.ExecutionID, res)
}

// Effects records that job, and with it those above it, are about to have side
// effects. What cannot be recorded must not be done: a resume would do it again.
func (r *Record) Effects(job task.Job) error {
	if !r.Keeps() {
		return nil
	}
	return r.cfg.Ledger.Touch(job.ExecutionID)
}

// Done is told of each task of the batch that has ended.
func (r *Record) Done(res task.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, ok := r.tasks[res.Index]
	switch {
	case !ok:
	case r.log == nil:
		delete(r.tasks, res.Index)
	default: // it may wait long for those before it
		if n.ended.IsZero() {
			n.ended = time.Now()
		}
		r.tasks[res.Index] = named{known: n.known, ended: n.ended}
	}
}

// Delivered is told of each result of the batch that was printed, and writes it
// into the job log.
func (r *Record) Delivered(res task.Result) {
	r.mu.Lock()
	n, ok := r.tasks[res.Index]
	delete(r.tasks, res.Index)
	r.mu.Unlock()
	if r.log == nil || !ok || res.Unrecorded || res.Attempts == 0 && !n.known {
		return
	}
	started := n.ended.Add(-time.Duration(res.DurationMS) * time.Millisecond)
	if err := r.log.Add(res, res.Task, started); err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.logErr == nil {
			r.logErr = fmt.Errorf("%w\nhint: free space, then go on with --resume", err)
		}
	}
}

// Err is the first trouble with the log of the batch.
func (r *Record) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.logErr
}

// Close waits for what is on its way into the ledger.
func (r *Record) Close() error {
	r.copies.Wait()
	if r.log == nil {
		return nil
	}
	return errors.Join(r.Err(), r.log.Close())
}
