package ledger

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"qq/pkg/task"
)

// Recorder is the record that one root keeps. The database is opened when
// somebody asks for it; until then a journal takes what the root itself does. Its methods
// may be called by several goroutines at once.
type Recorder struct {
	home string
	root Root
	opts Options

	mu      sync.Mutex
	lock    *lock
	journal *os.File
	synced  bool // the name of the journal is on the disk
	ledger  *Ledger
}

// NewRecorder returns the recorder of the root r. It touches nothing yet.
func NewRecorder(home string, r Root, o Options) *Recorder {
	return &Recorder{home: home, root: r.here(), opts: o}
}

// Self claims e, which the root itself works on.
func (r *Recorder) Self(e Execution) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ledger != nil {
		return r.ledger.Claim(e)
	}
	e.Task = cut(e.Task, maxTask)
	p, err := r.enter()
	if err == nil {
		err = line{Time: time.Now(), Claim: &claimed{r.root, process(r.root.PID), e}}.append(r.journal)
	}
	return p.fault("claim "+e.ID, err)
}

// SelfEnded records the result of what the root itself worked on, and returns
// when that is durable.
func (r *Recorder) SelfEnded(id string, res task.Result) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ledger != nil {
		return r.ledger.Finish(id, res)
	}
	p, err := r.enter()
	if err == nil {
		record := kept{Result: res, Effects: res.Effects, Reads: res.Reads}
		record.Output = ""
		err = line{Time: time.Now(), Result: &concluded{id, record, []byte(res.Output)}}.append(r.journal)
	}
	if err == nil {
		err = r.journal.Sync()
	}
	if err == nil && !r.synced {
		err = syncDir(p.dir)
		r.synced = err == nil
	}
	return p.fault("record the result of "+id, err)
}

// enter takes the lock of the root and opens its journal, once.
func (r *Recorder) enter() (place, error) {
	p, err := placeOf(r.home, r.opts)
	if err != nil {
		return p, err
	}
	if err := r.take(p); err != nil || r.journal != nil {
		return p, err
	}
	r.journal, err = os.OpenFile(filepath.Join(p.dir, r.root.ID+journalSuffix), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	return p, err
}

// take takes the lock of the root, once.
func (r *Recorder) take(p place) (err error) {
	if r.lock == nil {
		r.lock, err = p.lock(r.root.ID)
	}
	return err
}

// Ledger is the database, which is opened the first time. What the journal of the
// root tells has gone into it.
func (r *Recorder) Ledger() (*Ledger, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ledger != nil {
		return r.ledger, nil
	}
	p, err := placeOf(r.home, r.opts)
	if err == nil {
		err = r.take(p)
	}
	if err != nil {
		return nil, p.fault("open the ledger", err)
	}
	l, err := Open(r.home, r.opts) // takes in the journal as well
	if err != nil {
		return nil, err
	}
	if err := l.register(r.root, process(r.root.PID)); err != nil {
		return nil, errors.Join(p.fault("open the ledger", err), l.Close())
	}
	if r.journal != nil {
		err = errors.Join(r.journal.Close(), os.Remove(r.journal.Name()))
		r.journal = nil
	}
	if err != nil {
		return nil, errors.Join(p.fault("open the ledger", err), l.Close())
	}
	r.ledger = l
	_, _ = l.Prune() // what cannot be forgotten now is forgotten another time
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
		errs = append(errs, r.lock.release())
	}
	r.ledger, r.journal, r.lock = nil, nil, nil
	if wrote {
		errs = append(errs, r.gather())
	}
	return errors.Join(errs...)
}

// maxJournals is how many journals may lie about. Who only ever runs prompts opens
// the database with one in so many of them.
const maxJournals = 100

// gather has the journals taken in when there are many.
func (r *Recorder) gather() error {
	p, err := placeOf(r.home, r.opts)
	if err != nil {
		return err
	}
	if names, err := p.names(journalSuffix); err != nil || len(names) < maxJournals {
		return err
	}
	l, err := Open(r.home, r.opts)
	if err != nil {
		return err
	}
	_, err = l.Prune()
	return errors.Join(err, l.Close())
}

// syncDir makes the names in dir durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
