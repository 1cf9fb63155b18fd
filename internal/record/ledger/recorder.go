package ledger

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"
	"unicode/utf8"

	"qq/internal/record/ledger/alive"
	"qq/internal/record/ledger/appendfile"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Root is a qq process that runs tasks, with all the children it supervises.
type Root struct {
	ID      string    `json:"id"`
	PID     int       `json:"pid"` // 0 means this process
	Started time.Time `json:"started"`
	Dir     string    `json:"dir"`
	Command string    `json:"command"`         // "run" or "batch", never the prompt
	Slots   int       `json:"slots,omitempty"` // how many jobs may be at work at once; 0 means not known
	process string    // its [alive.Identity], from the index
}

// Batch is a list of tasks that a root began or resumed.
type Batch struct {
	ID      string    `json:"id"`
	Root    string    `json:"root"`
	Dir     string    `json:"dir"`
	Joblog  string    `json:"joblog,omitempty"`
	Count   int       `json:"count"`
	Started time.Time `json:"started"` // when it was first begun
}

// Execution describes a task that is about to start, in a child process or in its root.
type Execution struct {
	ID      string    `json:"id"`
	Parent  string    `json:"parent,omitempty"` // execution that delegated it; empty if a person asked for it
	Batch   string    `json:"batch,omitempty"`
	Root    string    `json:"root"`
	Session string    `json:"session,omitempty"`
	Agent   string    `json:"agent"`
	Model   string    `json:"model,omitempty"`
	Task    string    `json:"task"`          // its text, cut to 10,000 characters
	Key     string    `json:"key,omitempty"` // hash of its content: tasks with one key ask for the same
	Dir     string    `json:"dir"`
	Nth     int       `json:"nth,omitempty"` // how many tasks before it in the batch have the same key
	Index   int       `json:"index,omitempty"`
	Depth   int       `json:"depth,omitempty"`
	Queued  time.Time `json:"queued"`
}

// batchWait is how long Begin waits for the lock of a batch. The lock may stay held for a
// moment after the death of its root, because a process that the root was starting has a
// copy of the file descriptor.
const batchWait = 100 * time.Millisecond

// Recorder appends to the journal of one root. Its methods may be called by several
// goroutines at once.
type Recorder struct {
	place
	root Root
	now  func() time.Time

	mu      sync.Mutex
	lock    *alive.Lock      // of the root; nil before the first line
	batches []*alive.Lock    // locks of the batches that the root works on
	out     *appendfile.File // the journal; nil before the first line
	closed  bool
	index   *Ledger // nil until [Recorder.Ledger] opens it
	failed  error   // the error of opening the index
}

// Home returns the folder of qq in which the ledger is.
func (r *Recorder) Home() string { return filepath.Dir(r.file) }

// NewRecorder returns the recorder of the root r. It creates no file before the first
// record.
func NewRecorder(home string, r Root, o Options) *Recorder {
	r.PID = cmp.Or(r.PID, os.Getpid())
	return &Recorder{place: placeIn(home, o), root: r, now: time.Now}
}

// Begin records that the root begins or resumes b. It fails with [ErrAtWork] while another
// root works on b. If the index is open, Begin first adds to it what other roots have
// recorded.
func (r *Recorder) Begin(b Batch) (err error) {
	defer func() { err = r.fault("record batch "+b.ID, err) }()
	if err := r.readable(); err != nil {
		return err
	}
	k, err := alive.Dir{Path: r.roots.Path, Wait: batchWait}.Hold("batch-" + b.ID)
	if held := (*alive.LockedError)(nil); errors.As(err, &held) {
		return ErrAtWork
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.batches = append(r.batches, k)
	index := r.index
	r.mu.Unlock()
	if index != nil {
		if err := index.refresh(); err != nil {
			return err
		}
	}
	e := &begun{Batch: b}
	if !utf8.ValidString(b.Dir + b.Joblog) {
		e.Raw = [][]byte{[]byte(b.Dir), []byte(b.Joblog)}
	}
	return r.append(line{Begin: e}, false)
}

// End records that the work of this root on a batch has ended, with its status and the
// tokens that it used.
func (r *Recorder) End(batch string, status task.Status, used task.Usage) error {
	err := r.append(line{End: &ended{batch, r.root.ID, status, used}}, false)
	return r.fault("record the end of batch "+batch, err)
}

// Claim records that e is about to start. Once it has returned, a crash of this process
// cannot lose the record.
func (r *Recorder) Claim(e Execution) error {
	e.Task = tool.First(e.Task, maxTask, "")
	return r.fault("claim "+e.ID, r.append(line{Claim: &claimed{Execution: e}}, false))
}

// Attempt records the result of the n-th attempt of the execution id, if another attempt
// follows. It ignores errors.
func (r *Recorder) Attempt(id string, n int, started time.Time, res task.Result) {
	e := &failed{id, AttemptRow{n, started, r.now(), res.Status, res.Usage, tool.First(res.Err(), MaxSummary, "")}}
	_ = r.append(line{Attempt: e}, false) // not promised
}

// Touch records that the execution id is about to have side effects. The executions that
// delegated it, directly or not, then count as having side effects too. Touch returns when
// the record is durable.
func (r *Recorder) Touch(id string) error {
	return r.fault("record that "+id+" acts", r.append(line{Touch: id}, true))
}

// Finish records the result of the execution id and returns when the record is durable. If
// recall is not empty, it is the cache key under which [Ledger.Recall] finds the result;
// only a success without side effects is cached. A second result of an execution is
// ignored.
func (r *Recorder) Finish(recall, id string, res task.Result) error {
	f, err := newFinished(recall, id, res)
	if err == nil {
		err = r.append(line{Result: f}, true)
	}
	return r.fault("record the result of "+id, err)
}

// append writes e to the end of the journal. If durable is set, it returns only when the
// line is on the disk.
func (r *Recorder) append(e line, durable bool) error {
	e.Time = r.now()
	text, err := e.encode()
	if err != nil {
		return err
	}
	out, err := r.enter(e.Time)
	if err != nil {
		return err
	}
	end, err := out.Append(text)
	if err == nil && durable {
		err = out.Sync(end)
	}
	return err
}

// enter returns the journal. The first call takes the lock of the root and creates the
// file.
func (r *Recorder) enter(at time.Time) (*appendfile.File, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.out != nil {
		return r.out, nil
	}
	if r.closed {
		return nil, errClosed
	}
	text, err := line{Time: at, Root: &entered{r.root, alive.Identity(r.root.PID)}}.encode()
	if err == nil && r.lock == nil {
		r.lock, err = r.roots.Hold(r.root.ID)
	}
	if err != nil {
		return nil, err
	}
	out, err := appendfile.Create(r.journal(r.root.ID))
	if err != nil {
		return nil, err
	}
	if _, err := out.Append(text); err != nil { // the next call truncates the file
		return nil, errors.Join(err, out.Close())
	}
	r.out = out
	return out, nil
}

// Ledger returns the index. The first call opens the database and adds everything new in
// the journals. Later calls return the same index, or the same error.
func (r *Recorder) Ledger() (*Ledger, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.index == nil && r.failed == nil {
		if r.index, r.failed = r.open(); r.failed == nil {
			r.index.pruneDaily()
		}
	}
	return r.index, r.failed
}

// A root that ends indexes the journals if there are at least maxJournals of them, or
// maxBytes bytes in all of them. Otherwise that is left to the next process that opens the
// ledger.
const maxJournals, maxBytes = 100, 128 << 20

// Close ends the record and releases the locks. From then on the root counts as dead.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	wrote := r.out != nil
	if wrote {
		errs = append(errs, r.out.Close())
	}
	for _, k := range append(r.batches, r.lock) {
		if k != nil {
			errs = append(errs, k.Release())
		}
	}
	if r.index != nil {
		errs = append(errs, r.index.Close())
	}
	r.out, r.batches, r.lock, r.index, r.closed = nil, nil, nil, nil, true
	if wrote && r.failed == nil && r.crowded() {
		l, err := r.open()
		if err == nil {
			l.pruneDaily()
			err = l.Close()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// crowded reports whether the journals are so many or so large that they should be indexed
// now.
func (r *Recorder) crowded() bool {
	ids, err := r.roots.Left(journalSuffix)
	size := int64(0)
	for _, id := range ids {
		if info, err := os.Stat(r.journal(id)); err == nil {
			size += info.Size()
		}
	}
	return err == nil && (len(ids) >= maxJournals || size >= maxBytes)
}
