// Package history is what a run has to do with those before it: it keeps what is
// done in the ledger and in the log of a batch, and knows what need not be done
// again.
//
// Vocabulary: the key of a task is its content, with that of the file it was made
// of; two tasks with one key are told apart by their order. A result is known when
// an earlier run of the batch came to it ([Batch].Resume) or when an answer to the
// same task holds because all that was read for it is the same ([Batch].Cache). A
// result is forgotten when only the log of a batch tells of it: then how it ended is
// known and its answer is not.
//
// Flow: [New] makes the [Record] of a process. For a batch, [Record.Open] finds the
// one to go on with, [Record.Tasks] names the tasks as they pass, [Record.Known] is
// asked about each, [Record.Done] is told of each end, [Record.Delivered] of each
// result that was printed, and [Record.Settle] how all of it ended. The supervisor is
// told to claim and finish by the methods of [supervisor.Recorder].
//
// Not promised: that the cache notices what an agent knows by other means than the
// calls of its tools.
package history

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"qq/internal/record/joblog"
	"qq/internal/record/ledger"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// Config is what a Record needs.
type Config struct {
	Ledger *ledger.Recorder // nil keeps no record
	ID     string           // execution id of this process
	Dir    string           // its working directory
	NewID  func() string
	// Model names the model that a task is done with; empty is not known.
	Model func(task.Task) string
	// CacheKey is what an answer to a task depends on besides what is read for it;
	// empty for one that may not be answered from the cache.
	CacheKey func(context.Context, task.Task) string
}

// Record keeps what one process does.
type Record struct {
	cfg    Config
	dir    string // the real path of its working directory; set for a batch
	batch  Batch
	log    *joblog.Log // nil where none is kept
	past   past
	replay replay

	copies sync.WaitGroup // of cached results on their way into the batch
	copied chan struct{}  // one for each that may be

	mu         sync.Mutex
	logErr     error             // the first
	unfinished string            // the batch before this one
	next       int               // index of the next task
	seen       map[[16]byte]int  // how many tasks of the batch had a key that begins so
	tasks      map[int]named     // those that have not ended, by index
	caching    map[string]string // what answers to those at work are found by again, by execution
	resumed    int               // tasks that were known
}

// named is what a task of a batch is found by.
type named struct {
	key   string // what was asked
	nth   int    // of those with that key
	cache string // and with what it was asked; empty where the answer is not cached
	known bool
	ended time.Time
}

var _ supervisor.Recorder = (*Record)(nil)

// maxCopies is how many cached results are on their way into the ledger at once.
const maxCopies = 64

// New makes the record of a process.
func New(cfg Config) *Record {
	return &Record{
		cfg: cfg, replay: replay{dir: cfg.Dir}, copied: make(chan struct{}, maxCopies),
		seen: map[[16]byte]int{}, tasks: map[int]named{}, caching: map[string]string{},
	}
}

// Keeps reports whether there is a ledger.
func (r *Record) Keeps() bool { return r.cfg.Ledger != nil }

// Begin records that the agent of this process itself begins to work on t.
func (r *Record) Begin(t task.Task, session, model string, depth int) error {
	if !r.Keeps() {
		return nil
	}
	return r.cfg.Ledger.Self(ledger.Execution{
		ID: r.cfg.ID, Root: r.cfg.ID, Session: session, Agent: t.Agent, Model: model, Task: t.Text, Dir: r.cfg.Dir, Depth: depth, Queued: time.Now(),
	})
}

// End records how that ended, and returns when it is durable.
func (r *Record) End(res task.Result) error {
	if !r.Keeps() {
		return nil
	}
	return r.cfg.Ledger.SelfEnded(r.cfg.ID, res)
}

// Claim implements [supervisor.Recorder].
func (r *Record) Claim(job task.Job) error {
	led, err := r.cfg.Ledger.Ledger()
	if err != nil {
		return err
	}
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
	return led.Claim(x)
}

func (r *Record) execution(t task.Task, id string) ledger.Execution {
	return ledger.Execution{
		ID: id, Root: r.cfg.ID, Agent: t.Agent, Model: r.cfg.Model(t), Task: t.Text, Dir: filepath.Join(r.cfg.Dir, t.WorkingDir), Queued: time.Now(),
	}
}

// Attempt implements [supervisor.Recorder].
func (r *Record) Attempt(job task.Job, started time.Time, res task.Result) {
	if led, err := r.cfg.Ledger.Ledger(); err == nil {
		led.Attempt(job.ExecutionID, job.Attempt, started, res)
	}
}

// Finish implements [supervisor.Recorder].
func (r *Record) Finish(job task.Job, res task.Result) error {
	led, err := r.cfg.Ledger.Ledger()
	if err != nil {
		return err
	}
	r.mu.Lock()
	key := r.caching[job.ExecutionID]
	delete(r.caching, job.ExecutionID)
	r.mu.Unlock()
	return led.FinishFor(key, job.ExecutionID, res)
}

// Effects records that job is about to do what reading does not undo, and with it
// those above it. What cannot be recorded must not be done: who goes on after a
// crash would do it again.
func (r *Record) Effects(job task.Job) error {
	if !r.Keeps() {
		return nil
	}
	led, err := r.cfg.Ledger.Ledger()
	if err != nil {
		return err
	}
	return led.Touch(job.ExecutionID)
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
		r.tasks[res.Index] = named{key: strings.Clone(joblog.Key(n.key)), known: n.known, ended: time.Now()}
	}
}

// Delivered is told of each result of the batch that was printed, and writes it
// into the log. Not before: where the ledger is gone the log is all that is known,
// and then nobody else has the answer.
func (r *Record) Delivered(res task.Result) {
	r.mu.Lock()
	n, ok := r.tasks[res.Index]
	delete(r.tasks, res.Index)
	logged := ok && n.known && r.past.takeLogged(n.key)
	r.mu.Unlock()
	if r.log == nil || !ok || logged || res.Unrecorded || res.Attempts == 0 && !n.known {
		return
	}
	started := n.ended.Add(-time.Duration(res.DurationMS) * time.Millisecond)
	if err := r.log.Add(res, n.key, res.Task, started); err != nil {
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
	r.replay.close()
	if r.log == nil {
		return nil
	}
	return errors.Join(r.Err(), r.log.Close())
}
