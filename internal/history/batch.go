package history

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"qq/internal/joblog"
	"qq/internal/ledger"
	"qq/pkg/task"
)

// Batch says what a batch has to do with those before it. The zero Batch is
// nothing.
type Batch struct {
	ID     string // which one goes on; empty is that of the log, or the last one of the directory
	Resume bool   // go on: what has a finished result is not run again
	Failed bool   // but what failed is
	Cache  bool   // what was answered before, and rests on the same files, is not run again
	Log    string // absolute path of the log of the batch; empty is none
	Count  int    // of its tasks
}

// ErrUnknown is that of a batch to go on with of which nothing is known.
var ErrUnknown = errors.New("no such batch")

// errUnknown is ErrUnknown in a text that says so already, and as the ledger does.
var errUnknown = unknown{}

type unknown struct{}

func (unknown) Error() string        { return "nothing is known of it" }
func (unknown) Is(target error) bool { return target == ErrUnknown || target == ledger.ErrNone }

// Open finds the batch that b means, or begins one, and returns its id.
func (r *Record) Open(b Batch) (string, error) {
	r.dir = r.cfg.Dir
	if real, err := filepath.EvalSymlinks(r.dir); err == nil {
		r.dir = real
	}
	if err := r.find(&b); err != nil {
		return "", err
	}
	if b.Log != "" {
		open := joblog.Create
		if b.Resume || r.past.only {
			open = joblog.Open
		}
		var err error
		if r.log, err = open(b.Log); err != nil {
			return "", err
		}
	}
	r.batch = b
	if !r.Keeps() {
		return b.ID, nil
	}
	led, err := r.cfg.Ledger.Ledger()
	if err != nil {
		return "", err
	}
	row := ledger.Batch{ID: b.ID, Root: r.cfg.ID, Dir: r.dir, Joblog: b.Log, Count: b.Count, Started: time.Now()}
	if r.past.only {
		row.Joblog = "" // the ledger does not know all of it: the log goes on to be asked
	}
	err = led.Begin(row)
	if errors.Is(err, ledger.ErrAtWork) {
		short := task.ShortID(b.ID)
		err = fmt.Errorf("%w: batch %s\nhint: wait for it, or end it: qq runs cancel %s", ErrAtWork, short, short)
	}
	return b.ID, err
}

// Settle records how the work on the batch ended. Without that it reads as
// interrupted, unless all of its tasks have an end.
func (r *Record) Settle(status task.Status) error {
	if !r.Keeps() {
		return nil
	}
	led, err := r.cfg.Ledger.Ledger()
	if err != nil {
		return err
	}
	return led.End(r.batch.ID, r.cfg.ID, status)
}

// ErrAtWork is that of a batch that another process works on.
var ErrAtWork = errors.New("another qq is at work on it")

// find finds the batch to go on with: in the ledger, or else in its log.
func (r *Record) find(b *Batch) error {
	switch {
	case !b.Resume:
		b.ID = r.cfg.NewID()
		r.unfinished = r.lastUnfinished()
		return nil
	case !r.Keeps() && b.Log == "":
		return fmt.Errorf("without the ledger nothing is known of an earlier batch: %w\nhint: name the log of the batch with --joblog, or leave --no-ledger out", ErrUnknown)
	}
	err := ledger.ErrNone
	if r.Keeps() {
		err = r.inLedger(b)
	}
	if errors.Is(err, ledger.ErrNone) && b.Log != "" && b.ID == "" {
		b.ID, b.Resume = r.cfg.NewID(), false
		return r.past.read(b.Log, b.Failed, true)
	}
	if err == nil && b.Log != "" {
		return r.past.read(b.Log, b.Failed, false)
	}
	return err
}

func (r *Record) inLedger(b *Batch) error {
	led, err := r.cfg.Ledger.Ledger()
	if err != nil {
		return err
	}
	var found ledger.Batch
	what := "batch of this directory is"
	switch {
	case b.ID != "":
		what = "batch " + b.ID + " is"
		found, err = led.Find(b.ID)
	case b.Log != "":
		what = "batch with the log " + b.Log + " is"
		found, err = led.ByJoblog(b.Log)
	default:
		found, err = led.Last(r.dir)
	}
	switch {
	case errors.Is(err, ledger.ErrNone):
		return fmt.Errorf("no %s in the ledger: %w\nhint: qq runs list shows what there is; without --resume the batch begins", what, errUnknown)
	case err != nil:
		return err
	}
	b.ID = found.ID
	r.finished, err = settledIn(led, b.ID)
	return err
}

// Caches reports whether answers are taken from the cache, and kept for it.
func (r *Record) Caches() bool { return r.Keeps() && r.batch.Cache }

// Unfinished is the last batch of the directory, when another was begun although it
// has not come to its end; empty is none.
func (r *Record) Unfinished() string { return r.unfinished }

func (r *Record) lastUnfinished() string {
	if !r.Keeps() {
		return ""
	}
	led, err := r.cfg.Ledger.Ledger()
	if err != nil {
		return "" // Open says so
	}
	last, err := led.Last(r.dir)
	if err != nil {
		return ""
	}
	row, err := rowOf(led, last.ID)
	if err != nil || row.Live {
		return ""
	}
	if done, _ := row.Done(); done == 0 || done >= last.Count {
		return ""
	}
	return last.ID
}

// settledIn is how many tasks of a batch have a result that is not computed again.
func settledIn(led *ledger.Ledger, id string) (n int, err error) {
	row, err := rowOf(led, id)
	for status, count := range row.Counts {
		if ended(status) {
			n += count
		}
	}
	return n, err
}

// rowOf is what the ledger says of a batch that it knows.
func rowOf(led *ledger.Ledger, id string) (ledger.BatchRow, error) {
	rows, err := led.Batches(ledger.Filter{Batch: id, Limit: 1})
	if err != nil || len(rows) == 0 {
		return ledger.BatchRow{}, err
	}
	return rows[0], nil
}

// Strange reports whether the batch has results and none of them is of a task in
// this input.
func (r *Record) Strange() bool { return r.finished > 0 && r.Resumed() == 0 }

// Resumed is how many tasks of the batch were known from an earlier run of it.
func (r *Record) Resumed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.resumed
}

// Forgets reports whether there are tasks whose answers are not known any more.
func (r *Record) Forgets() bool { return r.past.only }

// past is what the log of the batch tells.
type past struct {
	only   bool // nothing else does
	ends   map[string][]joblog.Entry
	logged map[string]int // how many lines there are
}

// read reads a log. Of a task that ended several times the last time counts.
func (p *past) read(path string, failed, only bool) error {
	type place struct {
		key string
		seq int
	}
	last := map[place]joblog.Entry{}
	for e, err := range joblog.Read(path) {
		if err != nil {
			return fmt.Errorf("%w\nhint: --resume with --joblog takes the log of an earlier batch", err)
		}
		if e.Key != "" {
			last[place{e.Key, e.Seq}] = e
		}
	}
	p.only, p.ends, p.logged = only, map[string][]joblog.Entry{}, map[string]int{}
	for at, e := range last {
		p.logged[at.key]++
		if only && e.Finished(!failed) {
			p.ends[at.key] = append(p.ends[at.key], e)
		}
	}
	return nil
}

// take returns how a task with that key ended, as far as the log alone tells.
func (p *past) take(key string, t task.Task) (task.Result, bool) {
	short := joblog.Key(key)
	ends := p.ends[short]
	if len(ends) == 0 {
		return task.Result{}, false
	}
	e := ends[0]
	p.ends[short] = ends[1:]
	res := t.Normalized().Ended(task.Completed, "")
	if !e.Success() {
		res.End(task.Failed, fmt.Sprintf("it failed before, with exit code %d, as the log of the batch says", e.Exit))
		res.ExitCode = max(1, e.Exit)
	}
	res.Forgotten = true
	return res, true
}

// takeLogged reports whether the log has a line for a task with that key that was
// not asked about before.
func (p *past) takeLogged(key string) bool {
	short := joblog.Key(key)
	if p.logged[short] == 0 {
		return false
	}
	p.logged[short]--
	return true
}
