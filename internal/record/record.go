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
	"path/filepath"
	"sync"
	"time"

	"qq/internal/record/ledger"
	"qq/pkg/task"
)

// Config is what a Record needs.
type Config struct {
	Ledger *ledger.Recorder // nil means no ledger
	ID     string           // execution id of this process
	Dir    string           // the working directory of this process
	Tasks  Tasks
}

// Tasks tells a Record what it must know about a task to recognize or reuse an answer.
type Tasks interface {
	Reader
	// ModelOf returns the name of the model of a task, or "" if it is not known.
	ModelOf(t task.Task) string
	// CacheKey returns a hash of everything that the answer to a task depends on, except
	// for the files that the agent reads. It returns "" if the task may not be answered
	// from the cache.
	CacheKey(ctx context.Context, t task.Task) string
	// Left says, for a person, what is left of an execution of a task that did not end or was interrupted.
	Left(executionID string, t task.Task) []string
}

// Record keeps what one process does: it writes the ledger and the job log, and answers
// which tasks need not run.
type Record struct {
	cfg   Config
	dir   string // the working directory without symbolic links; set for a batch
	batch Batch
	log   *JobLog        // nil without a job log
	past  *ledger.Ledger // to look up earlier runs; nil if that is not needed

	copies sync.WaitGroup // waits for cached results that are being written to the ledger
	copied chan struct{}  // limits the number of such writes

	mu      sync.Mutex
	logErr  error             // the first error of the job log
	next    int               // index of the next task
	seen    map[[16]byte]int  // number of tasks so far with a key, by the first half of the key
	tasks   map[int]named     // tasks that are not delivered, by index
	caching map[string]string // cache keys of running tasks, by execution
	resumed int               // tasks with a result from an earlier run
}

// named is what a Record knows about a task of the batch.
type named struct {
	key   string    // see [Key]
	nth   int       // number of tasks before it with that key
	cache string    // see [Tasks]; empty if the answer is not cached
	known bool      // its result came from an earlier run or the cache
	ended time.Time // zero while it has not ended
}

// maxCopies is how many cached results may be written to the ledger at the same time.
const maxCopies = 64

// New returns the record of a process.
func New(cfg Config) *Record {
	return &Record{
		cfg: cfg, copied: make(chan struct{}, maxCopies),
		seen: map[[16]byte]int{}, tasks: map[int]named{}, caching: map[string]string{},
	}
}

// Keeps reports whether there is a ledger to write to. With --no-ledger there is none.
func (r *Record) Keeps() bool { return r.cfg.Ledger != nil }

// Claim records that job is about to start. On an error the job must not start. The caller
// makes sure that there is a ledger: see [Record.Keeps].
func (r *Record) Claim(job task.Job) error {
	x := r.execution(job.Task, job.ExecutionID)
	x.Parent, x.Batch, x.Index, x.Depth, x.Session = job.Parent, job.BatchID, job.Index, job.Depth, job.Session
	if !job.Queued.IsZero() {
		x.Queued = job.Queued
	}
	if job.BatchID != "" && job.Parent == "" { // not a task that was delegated from the batch
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

// execution returns the ledger entry for the execution of t with that id.
func (r *Record) execution(t task.Task, id string) ledger.Execution {
	return ledger.Execution{
		ID: id, Root: r.cfg.ID, Agent: t.Agent, Model: r.cfg.Tasks.ModelOf(t), Task: t.Text,
		Dir: filepath.Join(r.cfg.Dir, t.WorkingDir), Queued: time.Now(),
	}
}

// Attempt records the result of an attempt of job, if another attempt follows. started is
// when the attempt began.
func (r *Record) Attempt(job task.Job, started time.Time, res task.Result) {
	r.cfg.Ledger.Attempt(job.ExecutionID, job.Attempt, started, res)
}

// Finish records the result of job and returns when the record is durable.
func (r *Record) Finish(job task.Job, res task.Result) error {
	r.mu.Lock()
	key := r.caching[job.ExecutionID]
	delete(r.caching, job.ExecutionID)
	r.mu.Unlock()
	if res.Fallback > 0 {
		key = "" // of another model
	}
	return r.cfg.Ledger.Finish(key, job.ExecutionID, res)
}

// Effects records that job is about to have side effects; its ancestors then count as
// having side effects too. On an error job must not act, because a resumed batch would
// repeat the side effects.
func (r *Record) Effects(job task.Job) error {
	if !r.Keeps() {
		return nil
	}
	return r.cfg.Ledger.Touch(job.ExecutionID)
}

// Done is told that a task of the batch has ended. It keeps the time of the end for the job
// log, and drops what is not needed any more.
func (r *Record) Done(res task.Result) {
	r.mu.Lock()
	n, ok := r.tasks[res.Index]
	r.drop(n, ok, res)
	r.mu.Unlock()
	if ok && r.Keeps() && res.Status == task.Skipped && res.ExecutionID == "" { // people look for it
		t := task.Task{Text: res.Task, Agent: res.Agent}
		r.copy("", r.inBatch(t, res.Index, n), res)
	}
}

// drop drops what is not needed any more of a task that has ended. The caller holds the lock.
func (r *Record) drop(n named, ok bool, res task.Result) {
	switch {
	case !ok:
	case r.log == nil:
		delete(r.tasks, res.Index)
	default: // its result may wait long for those before it
		if n.ended.IsZero() {
			n.ended = time.Now()
		}
		r.tasks[res.Index] = named{known: n.known, ended: n.ended}
	}
}

// Delivered is told that a result of the batch was printed. It writes the line of the task
// to the job log; [Record.Err] returns an error of that.
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
			r.logErr = task.Hinted("free space, then go on with --resume", "%w", err)
		}
	}
}

// Err returns the first error of the job log.
func (r *Record) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.logErr
}

// Close waits until all cached results are in the ledger, and closes the job log.
func (r *Record) Close() error {
	r.copies.Wait()
	if r.log == nil {
		return nil
	}
	return errors.Join(r.Err(), r.log.Close())
}
