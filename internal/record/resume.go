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

// Batch says what a batch takes over from earlier ones. The zero Batch takes over nothing.
type Batch struct {
	ID     string // the batch to resume; empty means that of the job log, or else the last one of the directory
	Resume bool   // do not run tasks again that have a result
	Failed bool   // with Resume, run failed tasks again
	Begin  bool   // with Resume and no ID, begin a new batch if there is none to resume
	Cache  bool   // take answers from the cache if the files that they rest on are unchanged
	Log    string // absolute path of the job log; empty means none
	Count  int    // number of its tasks
}

// ErrUnknown is the error about a batch to resume that cannot be found.
var ErrUnknown = errors.New("no such batch")

// unknownf returns an error that is [ErrUnknown], with a problem and a hint.
func unknownf(hint, format string, args ...any) error {
	return &task.Error{Problem: fmt.Sprintf(format, args...), Hint: hint, Err: ErrUnknown}
}

// Open finds the batch to resume, or begins a new one, and returns its id. tasks are the
// tasks of the input. The error is [ErrUnknown] if the batch to resume does not exist, or
// has results but started none of these tasks.
func (r *Record) Open(ctx context.Context, b Batch, tasks iter.Seq2[task.Task, error]) (string, error) {
	r.dir = r.cfg.Dir
	if real, err := filepath.EvalSymlinks(r.dir); err == nil {
		r.dir = real
	}
	named := b.ID != ""
	err := r.find(&b)
	if err == nil && b.Resume {
		err = r.recognise(ctx, b, tasks)
	}
	if errors.Is(err, ErrUnknown) && !named && r.past != nil {
		err = r.restart(&b, err)
	}
	if err != nil {
		return "", err
	}
	r.batch = b
	if b.Log != "" { // before the ledger hears of the batch: it may be somebody else's file
		if r.log, err = OpenJobLog(ctx, b.Log); err != nil {
			return "", err
		}
		if b.Resume && r.log.isForeign() {
			return "", task.Hinted("give --joblog the log of the batch, or leave --resume out to begin a new one",
				"%s is the job log of another program", b.Log)
		}
	}
	if r.Keeps() {
		err = r.cfg.Ledger.Begin(ledger.Batch{
			ID: b.ID, Root: r.cfg.ID, Dir: r.dir, Joblog: b.Log, Count: b.Count, Started: time.Now(),
		})
	}
	if errors.Is(err, ledger.ErrAtWork) {
		err = atWork(b.ID)
	}
	if err == nil && r.log != nil {
		err = r.log.Begin(b.ID)
	}
	return b.ID, err
}

// restart finds the batch to resume if none with a finished task can be resumed because of err: one
// that was stopped before its first task. If there is none, and neither a job log nor b.Begin says
// that there should be, it makes b a new batch. Otherwise it returns err.
func (r *Record) restart(b *Batch, err error) error {
	last, none := r.past.Begun(r.dir, b.Log)
	switch {
	case none == nil && last.ID != b.ID:
		b.ID = last.ID
		return nil
	case errors.Is(none, ledger.ErrNone) && b.Begin && !hasLines(b.Log):
		b.ID, b.Resume = task.NewID(), false
		return nil
	}
	return err
}

// recognise checks that the batch to resume started at least one of these tasks. Otherwise
// resuming it would run all tasks and replace the results of an unrelated batch. A batch
// without a completed task has no results to replace, so it passes.
func (r *Record) recognise(ctx context.Context, b Batch, tasks iter.Seq2[task.Task, error]) error {
	row, err := rowOf(r.past, b.ID)
	if err != nil || row.Counts[task.Completed] == 0 {
		return err
	}
	first := ""
	for t, err := range tasks {
		key, found := "", false
		if err == nil {
			key = r.keyOf(ctx, t)
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
		return nil // there are no tasks
	}
	what, hint := "batch "+task.ShortID(b.ID), "without --resume the batch starts over"
	if other, err := r.past.With(r.dir, first); err == nil && other != "" {
		other = task.ShortID(other)
		hint = fmt.Sprintf("--resume=%s continues batch %s, which has the first of them; %s", other, other, hint)
	}
	return unknownf(hint, "no task of %s is in this input (the same task is one with the same content)", what)
}

// Settle records that the work on the batch has ended, with its status and the tokens that
// it used. A batch without that record is shown as interrupted.
func (r *Record) Settle(status task.Status, used task.Usage) error {
	if !r.Keeps() {
		return nil
	}
	return r.cfg.Ledger.End(r.batch.ID, status, used)
}

// ErrAtWork is the error about a batch that another process is working on.
var ErrAtWork = errors.New("another qq is at work on it")

// find sets the id of b: that of the batch to resume, which it looks up in the ledger, or a
// new one.
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
		found, err = r.past.Last(r.dir, "")
	}
	switch {
	case errors.Is(err, ledger.ErrNone):
		const hint = "qq runs list shows what there is; without --resume the batch begins"
		return unknownf(hint, "no %s is in the ledger", what)
	case err != nil:
		return err
	case found.Dir != r.dir && directory(found.Dir): // a directory that is gone may have been moved
		return unknownf("resume it there: -C "+found.Dir, "batch %s is one of another directory",
			task.ShortID(found.ID))
	}
	b.ID = found.ID
	row, err := rowOf(r.past, b.ID)
	if err == nil && row.Live {
		return atWork(b.ID) // a qq of an older version is seen by this alone
	}
	return err
}

// atWork returns the error about a batch that another process is working on.
func atWork(batch string) error {
	short := task.ShortID(batch)
	return task.Hinted(fmt.Sprintf("wait for it, or end it: qq runs cancel %s", short),
		"%w: batch %s", ErrAtWork, short)
}

// Caches reports whether answers are taken from the cache and stored in it.
func (r *Record) Caches() bool { return r.Keeps() && r.batch.Cache }

// Unfinished returns the previous batch of the directory if that batch has finished
// tasks but did not come to its end, and has one of the first of tasks, as resuming it
// requires. Otherwise, after an error, and if the current batch is itself a resumed one,
// it returns false. It opens the ledger, and may be called while tasks run.
func (r *Record) Unfinished(ctx context.Context, tasks iter.Seq2[task.Task, error]) (row ledger.BatchRow, ok bool) {
	if !r.Keeps() || r.batch.Resume {
		return row, false
	}
	past, err := r.cfg.Ledger.Ledger()
	if err != nil {
		return row, false // no reason to fail the batch
	}
	last, err := past.Last(r.dir, r.batch.ID)
	if err != nil {
		return row, false
	}
	row, err = rowOf(past, last.ID)
	if err != nil || row.Live {
		return row, false
	}
	done, _ := row.Done()
	ended := done + row.Counts[task.Skipped]
	if done == 0 || row.Status == task.Completed || row.Status == task.Failed && ended >= row.Count {
		return row, false
	}
	n := 0
	for t, err := range tasks {
		if n++; err != nil || n > mostCompared {
			return row, false
		}
		switch found, err := past.Has(last.ID, r.keyOf(ctx, t)); {
		case err != nil:
			return row, false
		case found:
			return row, true
		}
	}
	return row, false
}

// mostCompared is how many tasks are looked up to find out whether a batch is begun again.
const mostCompared = 20

// directory reports whether there is a directory of that name.
func directory(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// rowOf returns what the ledger knows about a batch; the zero row means nothing.
func rowOf(past *ledger.Ledger, id string) (ledger.BatchRow, error) {
	rows, err := past.Batches(ledger.Filter{Batch: id, Limit: 1})
	if err != nil || len(rows) == 0 {
		return ledger.BatchRow{}, err
	}
	return rows[0], nil
}

// Resumes reports whether the batch continues one that was begun before.
func (r *Record) Resumes() bool { return r.batch.Resume }

// Resumed returns how many tasks of the batch had a result from an earlier run.
func (r *Record) Resumed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.resumed
}
