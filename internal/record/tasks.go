package record

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"iter"
	"os"
	"path/filepath"

	"qq/internal/record/ledger"
	"qq/pkg/regular"
	"qq/pkg/task"
)

// Tasks passes on the tasks of the batch, and computes the key of each one on the way. The
// key is that of the task as the user gave it: the caller adds limits to a task only after
// that.
func (r *Record) Tasks(ctx context.Context, tasks iter.Seq2[task.Task, error]) iter.Seq2[task.Task, error] {
	if !r.Keeps() && r.log == nil {
		return tasks
	}
	return func(yield func(task.Task, error) bool) {
		for t, err := range tasks {
			if err == nil {
				r.name(ctx, t)
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

// name adds the next task of the batch to r.tasks, with its key and the number of earlier
// tasks with that key.
func (r *Record) name(ctx context.Context, t task.Task) {
	key := r.keyOf(ctx, t)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tasks[r.next] = r.named(key)
	r.next++
}

// named returns a task with that key, and counts it. The caller holds the lock.
func (r *Record) named(key string) named {
	var short [16]byte // half a key saves memory for many tasks
	_, _ = hex.Decode(short[:], []byte(key[:2*len(short)]))
	n := named{key: key, nth: r.seen[short]}
	r.seen[short]++
	return n
}

// keyOf returns the key of a task of the batch. Where its folder really is does not count: a batch may be resumed after
// the whole folder was moved.
func (r *Record) keyOf(ctx context.Context, t task.Task) string {
	t.Dir = ""
	contents := []string{r.contentOf(ctx, t.File)}
	for _, other := range t.OtherFiles {
		contents = append(contents, r.contentOf(ctx, other))
	}
	return Key(t, contents...)
}

// contentOf returns a hash of the file that a task was made from. It is empty without a
// file, for a file that is not a regular one (a pipe must not be read), and after an
// error.
func (r *Record) contentOf(ctx context.Context, name string) string {
	if name == "" {
		return ""
	}
	if !filepath.IsAbs(name) { // the working directory may be another one by now
		name = filepath.Join(r.cfg.Dir, name)
	}
	f, info, err := regular.Open(name, os.O_RDONLY)
	if err != nil {
		return ""
	}
	defer f.Close()
	h := sha256.New()
	buf := make([]byte, min(info.Size()+1, 256<<10))
	for ctx.Err() == nil {
		n, err := f.Read(buf)
		h.Write(buf[:n])
		if err == io.EOF {
			return hex.EncodeToString(h.Sum(nil))
		}
		if err != nil {
			break
		}
	}
	return ""
}

// Known returns the result of the task at index, and true, if the task need not run. The
// result comes from an earlier run of the batch or from the cache. The caller must call
// Known for each task that it starts, with the results that the task needs: they are a part of its key.
func (r *Record) Known(ctx context.Context, index int, t task.Task) (task.Result, bool) {
	key := ""
	if t.Needed != "" {
		key = r.keyOf(ctx, t)
	}
	r.mu.Lock()
	n, named := r.tasks[index]
	if named && key != "" {
		n = r.named(key)
	}
	r.mu.Unlock()
	if !named {
		return task.Result{}, false
	}
	if r.Caches() {
		n.cache = r.cfg.Tasks.CacheKey(ctx, t)
	}
	res, ok := r.known(ctx, index, &n, t)
	n.known = ok && (res.Attempts > 0 || res.Cached)
	r.mu.Lock()
	r.tasks[index] = n
	if n.known && !res.Cached {
		r.resumed++
	}
	r.mu.Unlock()
	return res, ok
}

// known is Known without the bookkeeping. If the result is from an earlier run, it sets
// n.ended to the time when that ended.
func (r *Record) known(ctx context.Context, index int, n *named, t task.Task) (task.Result, bool) {
	if r.batch.Resume {
		past, err := r.past.Known(r.batch.ID, n.key, n.nth)
		if err != nil { // running it might repeat its side effects
			return notStarted(t, err), true
		}
		if res, ok := r.settled(past, t); ok {
			n.ended = past.At
			return res, true
		}
	}
	if n.cache == "" {
		return task.Result{}, false
	}
	return r.recall(ctx, index, *n, t)
}

// settled returns the earlier result of a task that is not run again, and false if the task
// must run. A resumed batch keeps each conclusive result, even a failure. It does not
// repeat a task that was interrupted after it began side effects, unless the task is
// idempotent. With Batch.Failed, every task that did not succeed runs again.
func (r *Record) settled(past ledger.Earlier, t task.Task) (task.Result, bool) {
	res := past.Result
	done := past.Ended && res.Success
	switch {
	case !done && r.batch.Failed:
		return task.Result{}, false
	case !done && past.Acted:
		if t.Idempotent {
			return task.Result{}, false
		}
		res = stopped(t)
		res.Warnings = r.cfg.Tasks.Left(past.Result.ExecutionID, t)
		return res, true
	case past.Ended && res.Status.Conclusive():
		res.ID = t.ID
		missing(&res)
		return res, true
	}
	return task.Result{}, false
}

// stopped returns the result of a task that was interrupted after it began side effects.
func stopped(t task.Task) task.Result {
	return t.Normalized().Ended(task.UnknownOutcome, "it had begun to act when it was stopped, so it is not repeated\n"+
		"hint: look what it has done; then --resume-failed runs it again (a task that is marked idempotent needs "+
		"no look)")
}

// notStarted returns the result of a task that does not run because its earlier result
// could not be read.
func notStarted(t task.Task, err error) task.Result {
	return t.Normalized().Ended(task.Failed, "not started: "+err.Error())
}

// missing adds a warning to a result if the file with its full output is gone.
func missing(res *task.Result) {
	if res.OutputFile == "" {
		return
	}
	if _, err := os.Stat(res.OutputFile); err != nil {
		res.Warnings = append(res.Warnings, "the file with its full output is gone: "+res.OutputFile)
		res.OutputFile = ""
	}
}
