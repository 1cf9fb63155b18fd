package ledger

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"qq/internal/record/ledger/alive"
	"qq/pkg/task"
)

// Recorder is the record that one root keeps. The database is opened when
// somebody asks for it; until then a journal takes what the root itself does. Its methods
// may be called by several goroutines at once.
type Recorder struct {
	place
	home string
	root Root
	opts Options

	mu      sync.Mutex
	lock    *alive.Lock
	journal *os.File
	synced  bool // the name of the journal is on the disk
	ledger  *Ledger
	failed  error     // what the ledger could not be opened for, the last time
	again   time.Time // when it is tried again
}

// NewRecorder returns the recorder of the root r. It touches nothing yet.
func NewRecorder(home string, r Root, o Options) *Recorder {
	return &Recorder{place: placeOf(home, o), home: home, root: r.here(), opts: o}
}

// Self claims e, which the root itself works on.
func (r *Recorder) Self(e Execution) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ledger != nil {
		return r.ledger.Claim(e)
	}
	e.Task = cut(e.Task, maxTask)
	err := r.enter()
	if err == nil {
		err = line{Time: time.Now(), Claim: &claimed{r.root, alive.Identity(r.root.PID), e}}.append(r.journal)
	}
	return r.fault("claim "+e.ID, err)
}

// SelfEnded records the result of what the root itself worked on, and returns
// when that is durable.
func (r *Recorder) SelfEnded(id string, res task.Result) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ledger != nil {
		return r.ledger.Finish(id, res)
	}
	err := r.enter()
	if err == nil {
		err = line{Time: time.Now(), Result: &concluded{id, task.Store(res), []byte(res.Output)}}.append(r.journal)
	}
	if err == nil {
		err = r.journal.Sync()
	}
	if err == nil && !r.synced {
		err = syncDir(r.dir)
		r.synced = err == nil
	}
	return r.fault("record the result of "+id, err)
}

// enter takes the lock of the root and opens its journal, once.
func (r *Recorder) enter() error {
	err := r.take()
	if err == nil && r.journal == nil {
		r.journal, err = os.OpenFile(filepath.Join(r.dir, r.root.ID+journalSuffix), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	}
	return err
}

// take takes the lock of the root, once.
func (r *Recorder) take() (err error) {
	if r.lock == nil {
		r.lock, err = r.roots().Hold(r.root.ID)
	}
	return err
}

// Ledger is the database, which is opened the first time. What the journal of the
// root tells has gone into it. When it cannot be opened, that is tried again after
// as long as it took to find out, and at least a second; until then everybody gets
// the same error at once.
func (r *Recorder) Ledger() (*Ledger, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	start := time.Now()
	if r.ledger == nil && (r.failed == nil || !start.Before(r.again)) {
		r.ledger, r.failed = r.open()
		r.again = time.Now().Add(max(time.Second, time.Since(start)))
	}
	return r.ledger, r.failed
}

func (r *Recorder) open() (*Ledger, error) {
	const act = "open the ledger"
	if err := r.take(); err != nil {
		return nil, r.fault(act, err)
	}
	l, err := Open(r.home, r.opts) // takes in the journal as well
	if err != nil {
		return nil, err
	}
	err = l.register(r.root)
	if err == nil && r.journal != nil {
		err = errors.Join(r.journal.Close(), os.Remove(r.journal.Name()))
		r.journal = nil
	}
	if err != nil {
		_ = l.Close() // the first error is the one to tell
		return nil, r.fault(act, err)
	}
	r.prune(l)
	return l, nil
}

// Close ends the record: from here on the root counts as ended.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	if r.ledger != nil {
		errs = append(errs, r.ledger.Close())
	}
	wrote := r.journal != nil
	if wrote {
		errs = append(errs, r.journal.Close())
	}
	if r.lock != nil {
		errs = append(errs, r.lock.Release())
	}
	r.ledger, r.journal, r.lock = nil, nil, nil
	if wrote && r.failed == nil {
		errs = append(errs, r.gather())
	}
	return errors.Join(errs...)
}

// pruneEvery is how often old runs are forgotten: it takes a look at all of them.
const pruneEvery = 24 * time.Hour

// prune forgets old runs when that was not done for a day. What cannot be forgotten
// now is forgotten another time.
func (r *Recorder) prune(l *Ledger) {
	stamp := filepath.Join(l.dir, "pruned")
	if info, err := os.Stat(stamp); err == nil && time.Since(info.ModTime()).Abs() < pruneEvery {
		return
	}
	if os.WriteFile(stamp, nil, 0o600) == nil {
		_ = os.Chtimes(stamp, time.Time{}, time.Now())
		_, _ = l.Prune()
	}
}

// maxJournals is how many journals may lie about. Who only ever runs prompts opens
// the database with one in so many of them.
const maxJournals = 100

// gather has the journals taken in when there are many.
func (r *Recorder) gather() error {
	if roots, err := r.roots().Left(journalSuffix); err != nil || len(roots) < maxJournals {
		return err
	}
	l, err := Open(r.home, r.opts)
	if err != nil {
		return err
	}
	r.prune(l)
	return l.Close()
}

// syncDir makes the names in dir durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
