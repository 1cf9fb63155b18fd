package record

import (
	"context"
	"path/filepath"

	"qq/pkg/task"
)

// Reader repeats a reading tool call of an agent in the folder dir, and returns the digest
// of its result as in [task.Read].
type Reader interface {
	Read(ctx context.Context, dir string, r task.Read) (digest string, err error)
}

// unchanged reports whether all reads for t have the same results as before.
func (r *Record) unchanged(ctx context.Context, t task.Task, reads []task.Read) bool {
	for _, read := range reads {
		now, err := r.cfg.Tasks.Read(ctx, filepath.Join(r.cfg.Dir, t.WorkingDir), read)
		if err != nil || now != read.Digest {
			return false
		}
	}
	return true
}

// recall returns the cached answer to a task if everything that was read for it is
// unchanged. The answer is recorded as a result of this batch too.
func (r *Record) recall(ctx context.Context, index int, n named, t task.Task) (task.Result, bool) {
	res, ok, err := r.past.Recall(n.cache)
	if err != nil || !ok || !r.unchanged(ctx, t, res.Reads) {
		return task.Result{}, false
	}
	res.ID, res.BatchID, res.Cached = t.ID, r.batch.ID, true
	res.Attempts, res.QueuedMS, res.DurationMS, res.Usage = 0, 0, 0, task.Usage{}
	missing(&res)
	x := r.execution(t, task.NewID())
	x.Batch, x.Index, x.Depth, x.Key, x.Nth = r.batch.ID, index, 1, n.key, n.nth
	r.copied <- struct{}{}
	r.copies.Go(func() {
		defer func() { <-r.copied }()
		if r.cfg.Ledger.Claim(x) == nil { // errors are ignored: the earlier record stays
			_ = r.cfg.Ledger.Finish(n.cache, x.ID, res)
		}
	})
	return res, true
}
