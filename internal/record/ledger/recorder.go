package ledger

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"qq/internal/record/ledger/alive"
	"qq/pkg/task"
)

// Root is one qq process at work.
type Root struct {
	ID      string    `json:"id"`
	PID     int       `json:"pid"` // 0 is this process
	Started time.Time `json:"started"`
	Dir     string    `json:"dir"`
	Command string    `json:"command"` // "run" or "batch", never the prompt
}

// Batch is a list of tasks that a root began to work on: the last one when there
// were several.
type Batch struct {
	ID      string    `json:"id"`
	Root    string    `json:"root"`
	Dir     string    `json:"dir"`
	Joblog  string    `json:"joblog,omitempty"`
	Count   int       `json:"count"`
	Started time.Time `json:"started"` // the first time
}

// Execution is a task that somebody is about to work on.
type Execution struct {
	ID      string    `json:"id"`
	Parent  string    `json:"parent,omitempty"` // execution that asked for it; empty for what a person asked for
	Batch   string    `json:"batch,omitempty"`
	Root    string    `json:"root"`
	Session string    `json:"session,omitempty"`
	Agent   string    `json:"agent"`
	Model   string    `json:"model,omitempty"`
	Task    string    `json:"task"`          // its text; the first 10,000 characters are kept
	Key     string    `json:"key,omitempty"` // of its content, see [Key]
	Dir     string    `json:"dir"`
	Nth     int       `json:"nth,omitempty"` // among the tasks of the batch with the same key
	Index   int       `json:"index,omitempty"`
	Depth   int       `json:"depth,omitempty"`
	Queued  time.Time `json:"queued"`
}

// batchWait is how long the lock of a batch is waited for: a child that is being
// started may hold a copy of it for a moment after its root has died.
const batchWait = 100 * time.Millisecond

// Recorder appends to the journal of one root. Its methods may be called by several
// goroutines at once.
type Recorder struct {
	place
	root Root
	now  func() time.Time

	mu      sync.Mutex
	lock    *alive.Lock
	batches []*alive.Lock // that the root works on
	out     *appender     // the journal; nil before the first line
	closed  bool
	index   *Ledger
	failed  error // of opening the index
}

// NewRecorder returns the recorder of the root r. It touches nothing yet.
func NewRecorder(home string, r Root, o Options) *Recorder {
	r.PID = cmp.Or(r.PID, os.Getpid())
	return &Recorder{place: placeOf(home, o), root: r, now: time.Now}
}

// Begin records that the root works on b. It fails with [ErrAtWork] when another
// root does. Afterwards an index that is open has all that earlier roots did for b.
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

// End records how the work of this root on a batch ended, and what all of it used.
func (r *Recorder) End(batch string, status task.Status, used task.Usage) error {
	err := r.append(line{End: &ended{batch, r.root.ID, status, used}}, false)
	return r.fault("record the end of batch "+batch, err)
}

// Claim records that the work on e is about to start. When it has returned, the
// death of this process does not lose it.
func (r *Recorder) Claim(e Execution) error {
	e.Task = cut(e.Task, maxTask)
	return r.fault("claim "+e.ID, r.append(line{Claim: &claimed{Execution: e}}, false))
}

// Attempt records how the n-th attempt of the execution id ended, which was not the
// last.
func (r *Recorder) Attempt(id string, n int, started time.Time, res task.Result) {
	e := &failed{id, AttemptRow{n, started, r.now(), res.Status, res.Usage, cut(res.Err(), maxSummary)}}
	_ = r.append(line{Attempt: e}, false) // not promised
}

// Touch records that the execution id, and those above it, are about to have side
// effects, and returns when that is durable.
func (r *Recorder) Touch(id string) error {
	return r.fault("record that "+id+" acts", r.append(line{Touch: id}, true))
}

// Finish records the result of the execution id and returns when that is durable. A
// result of reading alone is found again by [Ledger.Recall] with the key recall; empty
// is never. An execution has one result: what comes after the first changes nothing.
func (r *Recorder) Finish(recall, id string, res task.Result) error {
	f, err := newFinished(recall, id, res)
	if err == nil {
		err = r.append(line{Result: f}, true)
	}
	return r.fault("record the result of "+id, err)
}

// append writes e to the end of the journal. When it has to be durable, append returns
// when the disk has it.
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
	end, err := out.append(text)
	if err == nil && durable {
		err = out.sync(end)
	}
	return err
}

// enter takes the lock of the root and begins its journal, once.
func (r *Recorder) enter(at time.Time) (*appender, error) {
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
	f, err := os.OpenFile(r.journal(r.root.ID), os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	out := &appender{file: f}
	if _, err := out.append(text); err != nil { // a journal without its root is begun again
		return nil, errors.Join(err, f.Close())
	}
	r.out = out
	return out, nil
}

// appender is a file of lines that only this process writes to.
type appender struct {
	file *os.File

	mu   sync.Mutex
	size atomic.Int64 // of its whole lines
	torn bool         // there is more than that

	syncing sync.Mutex // held by whoever syncs; those who wait share the next sync
	synced  int64      // bytes that are on the disk
	failed  error      // the first failed sync
}

// append writes text to the end, and returns where that is. Nothing or all of text stays.
func (a *appender) append(text []byte) (end int64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.torn {
		if err := a.file.Truncate(a.size.Load()); err != nil {
			return 0, err
		}
		a.torn = false
	}
	n, err := a.file.Write(text)
	if err != nil {
		a.torn = n > 0 && a.file.Truncate(a.size.Load()) != nil
		return 0, err
	}
	return a.size.Add(int64(n)), nil
}

// sync returns when the bytes up to end are on the disk. After one failure nothing is
// any more: the kernel may have dropped what it could not write.
func (a *appender) sync(end int64) error {
	a.syncing.Lock()
	defer a.syncing.Unlock()
	if a.synced >= end || a.failed != nil {
		return a.failed
	}
	size := a.size.Load()
	if a.failed = syncData(a.file); a.failed == nil && a.synced == 0 {
		a.failed = syncDir(filepath.Dir(a.file.Name()))
	}
	if a.failed == nil {
		a.synced = size
	}
	return a.failed
}

// syncDir makes the names in dir durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	return err
}

// Ledger is the index, with what the journals tell so far. It is opened the first
// time; an error stays.
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

// When so many journals lie about, or so many bytes of them, the root that ends reads
// them into the index.
const (
	maxJournals = 100
	maxBytes    = 128 << 20
)

// Close ends the record: from here on the root counts as ended.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	wrote := r.out != nil
	if wrote {
		errs = append(errs, r.out.file.Close())
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

// crowded reports whether the journals are to be read into the index.
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
