package record

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"iter"
	"os"

	"qq/internal/record/ledger"
	"qq/pkg/task"
)

// Tasks hands on the tasks of the batch and names each, as it was asked: before any
// limit is put into it.
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

func (r *Record) name(ctx context.Context, t task.Task) {
	n := named{key: Key(t, contentOf(ctx, t.File))}
	r.mu.Lock()
	defer r.mu.Unlock()
	var short [16]byte // of many tasks, this is what is kept
	_, _ = hex.Decode(short[:], []byte(n.key[:2*len(short)]))
	n.nth = r.seen[short]
	r.seen[short]++
	r.tasks[r.next] = n
	r.next++
}

// contentOf is a digest of the file of that name, which a task was made of. What is
// no regular file has no content that could be compared, and a pipe must not be
// read; then it is empty.
func contentOf(ctx context.Context, name string) string {
	if name == "" {
		return ""
	}
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	f, err := os.Open(name)
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

// Known returns the result of the task at index when there is one already. It is
// asked about each task, in order.
func (r *Record) Known(ctx context.Context, index int, t task.Task) (task.Result, bool) {
	r.mu.Lock()
	n, named := r.tasks[index]
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

func (r *Record) known(ctx context.Context, index int, n *named, t task.Task) (task.Result, bool) {
	if r.batch.Resume {
		past, err := r.past.Known(r.batch.ID, n.key, n.nth)
		if err != nil { // doing it again might be doing it twice
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

// settled is what a task is not run again for, when there is such a thing.
//
// Who goes on gets what came to an end, be it a failure, and what had begun to act
// and did not come to one is left alone, for nobody knows how far it came. Who asks
// for what failed gets all done again that was no success.
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
		return stopped(t), true
	case past.Ended && res.Status.Conclusive():
		res.ID = t.ID
		missing(&res)
		return res, true
	}
	return task.Result{}, false
}

// stopped is the result of a task that had begun to act and was stopped.
func stopped(t task.Task) task.Result {
	return t.Normalized().Ended(task.UnknownOutcome, "it had begun to act when it was stopped, so it is not repeated\n"+
		"hint: look what it has done; then --resume-failed runs it again (a task that is marked idempotent needs no look)")
}

// notStarted is the result of a task of which nobody knows whether it was done.
func notStarted(t task.Task, err error) task.Result {
	return t.Normalized().Ended(task.Failed, "not started: "+err.Error())
}

// missing says so when the file with the full output of a result is gone.
func missing(res *task.Result) {
	if res.OutputFile == "" {
		return
	}
	if _, err := os.Stat(res.OutputFile); err != nil {
		res.Warnings = append(res.Warnings, "the file with its full output is gone: "+res.OutputFile)
		res.OutputFile = ""
	}
}
