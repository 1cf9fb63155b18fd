package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"qq/internal/record/joblog"
	"qq/internal/record/ledger"
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

// unknown is ErrUnknown in a text that says so already: a problem and a hint.
type unknown string

func (u unknown) Error() string        { return string(u) }
func (u unknown) Is(target error) bool { return target == ErrUnknown }

func unknownf(hint, format string, args ...any) error {
	return unknown(fmt.Sprintf(format, args...) + "\nhint: " + hint)
}

// Open finds the batch that b means, or begins one, and returns its id. A batch to
// go on with must have one of the tasks.
func (r *Record) Open(ctx context.Context, b Batch, tasks iter.Seq2[task.Task, error]) (string, error) {
	r.dir = r.cfg.Dir
	if real, err := filepath.EvalSymlinks(r.dir); err == nil {
		r.dir = real
	}
	err := r.find(&b)
	if err == nil && b.Resume {
		err = r.recognise(ctx, b, tasks)
	}
	if err != nil {
		return "", err
	}
	if b.Log != "" {
		open := joblog.Create
		if b.Resume {
			open = joblog.Open
		}
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
	err = led.Begin(ledger.Batch{
		ID: b.ID, Root: r.cfg.ID, Dir: r.dir, Joblog: b.Log, Count: b.Count, Started: time.Now(), Alone: r.past.only,
	})
	if errors.Is(err, ledger.ErrAtWork) {
		short := task.ShortID(b.ID)
		err = fmt.Errorf("%w: batch %s\nhint: wait for it, or end it: qq runs cancel %s", ErrAtWork, short, short)
	}
	return b.ID, err
}

// recognise makes sure that the batch to go on with is that of these tasks: going on
// with another runs all of them again, and writes over what that came to. Of a batch
// that came to nothing nothing is lost.
func (r *Record) recognise(ctx context.Context, b Batch, tasks iter.Seq2[task.Task, error]) error {
	var led *ledger.Ledger
	var err error
	if r.Keeps() {
		if led, err = r.cfg.Ledger.Ledger(); err != nil {
			return err
		}
	}
	fruitful, err := r.fruitful(led, b)
	if err != nil || !fruitful {
		return err
	}
	first := ""
	for t, err := range tasks {
		key, found := "", false
		if err == nil {
			key = ledger.Key(t, contentOf(ctx, t.File))
			if found = r.past.has(key); !found && led != nil {
				found, err = led.Has(b.ID, key)
			}
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil || found {
			return err
		}
		if first == "" {
			first = key
		}
	}
	if first == "" {
		return nil // there are none
	}
	what, hint := "batch "+task.ShortID(b.ID), "without --resume the batch begins anew"
	if r.past.only {
		what = "the log " + b.Log
	} else if other, err := led.With(r.dir, first); err == nil && other != "" {
		hint = fmt.Sprintf("--resume=%s goes on with batch %s, which has the first of them; %s", task.ShortID(other), task.ShortID(other), hint)
	}
	return unknownf(hint, "no task of %s is in this input (the same task is one with the same content)", what)
}

// fruitful reports whether a task of the batch was done.
func (r *Record) fruitful(led *ledger.Ledger, b Batch) (bool, error) {
	if r.past.only {
		return r.past.done, nil
	}
	row, err := rowOf(led, b.ID)
	return row.Counts[task.Completed] > 0, err
}

// Settle records how the work on the batch ended, and what it used. Without that it
// reads as interrupted.
func (r *Record) Settle(status task.Status, used task.Usage) error {
	if !r.Keeps() {
		return nil
	}
	led, err := r.cfg.Ledger.Ledger()
	if err != nil {
		return err
	}
	return led.End(r.batch.ID, r.cfg.ID, status, used)
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
		return unknownf("name the log of the batch with --joblog, or leave --no-ledger out", "without the ledger nothing is known of an earlier batch")
	}
	known := false
	if r.Keeps() {
		var err error
		if known, err = r.inLedger(b); err != nil {
			return err
		}
	}
	if b.Log == "" {
		return nil
	}
	if b.ID == "" {
		b.ID = r.cfg.NewID()
	}
	return r.past.read(b.Log, b.Failed, !known)
}

// inLedger finds the batch in the ledger, and says whether that knows all of it.
func (r *Record) inLedger(b *Batch) (known bool, err error) {
	led, err := r.cfg.Ledger.Ledger()
	if err != nil {
		return false, err
	}
	var found ledger.Batch
	what := "batch of this directory"
	switch {
	case b.ID != "":
		what = "batch " + b.ID
		found, err = led.Find(b.ID)
	case b.Log != "":
		found, err = led.ByJoblog(b.Log)
	default:
		found, err = led.Last(r.dir)
	}
	none := errors.Is(err, ledger.ErrNone)
	short := task.ShortID(found.ID)
	switch {
	case none && b.ID == "" && b.Log != "":
		return false, nil
	case none:
		return false, unknownf("qq runs list shows what there is; without --resume the batch begins", "no %s is in the ledger", what)
	case err != nil:
		return false, err
	case found.Dir != r.dir && directory(found.Dir): // else it was moved
		return false, unknownf("it goes on there: -C "+found.Dir, "batch %s is one of another directory", short)
	case found.Alone && b.Log != found.Joblog:
		return false, unknownf("give --resume --joblog "+found.Joblog, "batch %s goes on by its log: not all of it is in the ledger", short)
	}
	b.ID = found.ID
	return !found.Alone, nil
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
	if done, _ := row.Done(); done == 0 || row.Status == task.Completed || row.Status == task.Failed && done >= row.Count {
		return ""
	}
	return last.ID
}

// directory reports whether there is a directory of that name.
func directory(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// rowOf is what the ledger says of a batch that it knows.
func rowOf(led *ledger.Ledger, id string) (ledger.BatchRow, error) {
	rows, err := led.Batches(ledger.Filter{Batch: id, Limit: 1})
	if err != nil || len(rows) == 0 {
		return ledger.BatchRow{}, err
	}
	return rows[0], nil
}

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
	only   bool // nothing else does, of what was done before the ledger knew of it
	done   bool // a task was
	ends   map[string][]joblog.Entry
	logged map[string]int // how many lines there are
}

// read reads a log. Of a task that ended several times the last time counts. Where
// something else tells of the batch too, there need be none.
func (p *past) read(path string, failed, only bool) error {
	type place struct {
		key string
		seq int
	}
	last := map[place]joblog.Entry{}
	for e, err := range joblog.Read(path) {
		if errors.Is(err, fs.ErrNotExist) && !only {
			break
		}
		if err != nil {
			problem, _, _ := strings.Cut(err.Error(), "\nhint: ")
			return unknownf("--resume with --joblog takes the log of an earlier batch", "%s", problem)
		}
		if e.Key != "" {
			last[place{e.Key, e.Seq}] = e
		}
	}
	p.only, p.ends, p.logged = only, map[string][]joblog.Entry{}, map[string]int{}
	for at, e := range last {
		p.logged[at.key]++
		p.done = p.done || e.Success()
		if only && finished(e, failed) {
			p.ends[at.key] = append(p.ends[at.key], e)
		}
	}
	for _, ends := range p.ends {
		slices.SortFunc(ends, func(a, b joblog.Entry) int {
			return cmp.Or(failures(a)-failures(b), a.Seq-b.Seq) // one that failed at another place may have been done here
		})
	}
	return nil
}

// failures is 1 for a task that failed.
func failures(e joblog.Entry) int {
	if e.Success() {
		return 0
	}
	return 1
}

// finished reports whether a task that ended so is not run again; failedToo is what
// failed.
func finished(e joblog.Entry, failedToo bool) bool {
	if e.Success() {
		return true
	}
	hadNoChance := e.Exit == task.Limit.ExitCode() || e.Exit == task.Unavailable.ExitCode()
	return !failedToo && !hadNoChance
}

// has reports whether the log has a line for a task with that key.
func (p *past) has(key string) bool { return p.logged[joblog.Key(key)] > 0 }

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
