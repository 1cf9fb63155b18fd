package record

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"time"

	"qq/internal/record/ledger"
	"qq/pkg/task"
)

// Batch says what a batch has to do with those before it. The zero Batch is
// nothing.
type Batch struct {
	ID     string // which one goes on; empty is that of the job log, or the last one of the directory
	Resume bool   // go on: what has a finished result is not run again
	Failed bool   // but what failed is
	Cache  bool   // what was answered before, and rests on the same files, is not run again
	Log    string // absolute path of the job log; empty is none
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
	r.batch = b
	if r.Keeps() {
		err = r.cfg.Ledger.Begin(ledger.Batch{ID: b.ID, Root: r.cfg.ID, Dir: r.dir, Joblog: b.Log, Count: b.Count, Started: time.Now()})
	}
	if errors.Is(err, ledger.ErrAtWork) {
		short := task.ShortID(b.ID)
		err = fmt.Errorf("%w: batch %s\nhint: wait for it, or end it: qq runs cancel %s", ErrAtWork, short, short)
	}
	if err == nil && b.Log != "" {
		r.log, err = CreateJobLog(b.Log, b.ID)
	}
	return b.ID, err
}

// recognise makes sure that the batch to go on with is that of these tasks: going on
// with another runs all of them again, and writes over what that came to. Of a batch
// that came to nothing nothing is lost.
func (r *Record) recognise(ctx context.Context, b Batch, tasks iter.Seq2[task.Task, error]) error {
	row, err := r.rowOf(b.ID)
	if err != nil || row.Counts[task.Completed] == 0 {
		return err
	}
	first := ""
	for t, err := range tasks {
		key, found := "", false
		if err == nil {
			key = Key(t, contentOf(ctx, t.File))
			found, err = r.past.Has(b.ID, key)
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
	if other, err := r.past.With(r.dir, first); err == nil && other != "" {
		hint = fmt.Sprintf("--resume=%s goes on with batch %s, which has the first of them; %s", task.ShortID(other), task.ShortID(other), hint)
	}
	return unknownf(hint, "no task of %s is in this input (the same task is one with the same content)", what)
}

// Settle records how the work on the batch ended, and what it used. Without that it
// reads as interrupted.
func (r *Record) Settle(status task.Status, used task.Usage) error {
	if !r.Keeps() {
		return nil
	}
	return r.cfg.Ledger.End(r.batch.ID, status, used)
}

// ErrAtWork is that of a batch that another process works on.
var ErrAtWork = errors.New("another qq is at work on it")

// find finds the batch to go on with in the ledger.
func (r *Record) find(b *Batch) (err error) {
	if !r.Keeps() && b.Resume {
		return unknownf("leave --no-ledger out", "without the ledger nothing is known of an earlier batch")
	}
	if b.Resume || b.Cache {
		if r.past, err = r.cfg.Ledger.Ledger(); err != nil {
			return err
		}
	}
	if !b.Resume {
		b.ID = task.NewID()
		return nil
	}
	var found ledger.Batch
	what := "batch of this directory"
	switch {
	case b.ID != "":
		what = "batch " + b.ID
		found, err = r.past.Find(b.ID)
	case b.Log != "":
		what = "batch with the job log " + b.Log
		found, err = r.past.ByJoblog(b.Log)
	default:
		found, err = r.past.Last(r.dir)
	}
	switch {
	case errors.Is(err, ledger.ErrNone):
		return unknownf("qq runs list shows what there is; without --resume the batch begins", "no %s is in the ledger", what)
	case err != nil:
		return err
	case found.Dir != r.dir && directory(found.Dir): // else it was moved
		return unknownf("it goes on there: -C "+found.Dir, "batch %s is one of another directory", task.ShortID(found.ID))
	}
	b.ID = found.ID
	return nil
}

// Caches reports whether answers are taken from the cache, and kept for it.
func (r *Record) Caches() bool { return r.Keeps() && r.batch.Cache }

// Unfinished is the batch before this one in the directory, when this one began anew
// although that has not come to its end; empty is none. It opens the ledger, and is
// asked before the first task.
func (r *Record) Unfinished() string {
	if !r.Keeps() || r.batch.Resume {
		return ""
	}
	var err error
	if r.past, err = r.cfg.Ledger.Ledger(); err != nil {
		return "" // nothing else needs it
	}
	last, err := r.past.Last(r.dir)
	if err != nil {
		return ""
	}
	row, err := r.rowOf(last.ID)
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
func (r *Record) rowOf(id string) (ledger.BatchRow, error) {
	rows, err := r.past.Batches(ledger.Filter{Batch: id, Limit: 1})
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
