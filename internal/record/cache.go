package record

import (
	"context"
	"path/filepath"

	"qq/internal/record/ledger"
	"qq/pkg/task"
)

// Reader repeats a call of a reading tool that an agent made in the folder dir. It returns
// the digest of the result, to be compared with that in the [task.Read].
type Reader interface {
	Read(ctx context.Context, dir string, r task.Read) (digest string, err error)
}

// unchanged reports whether all reads for t still have the same results. It is false if a
// read fails.
func (r *Record) unchanged(ctx context.Context, t task.Task, reads []task.Read) bool {
	for _, read := range reads {
		now, err := r.cfg.Tasks.Read(ctx, filepath.Join(r.cfg.Dir, t.WorkingDir), read)
		if err != nil || now != read.Digest {
			return false
		}
	}
	return true
}

// recall returns the cached answer to a task, and true, if everything that was read for the
// answer is unchanged. It records the answer as a result of this batch too, in the
// background.
func (r *Record) recall(ctx context.Context, index int, n named, t task.Task) (task.Result, bool) {
	res, ok, err := r.past.Recall(n.cache)
	if err != nil || !ok || !r.unchanged(ctx, t, res.Reads) {
		return task.Result{}, false
	}
	res.ID, res.BatchID, res.Cached = t.ID, r.batch.ID, true
	res.Attempts, res.QueuedMS, res.DurationMS, res.Usage, res.Away = 0, 0, 0, task.Usage{}, nil
	missing(&res)
	r.copy(n.cache, r.inBatch(t, index, n), res)
	return res, true
}

// inBatch returns the ledger entry for a task of the batch that is not run.
func (r *Record) inBatch(t task.Task, index int, n named) ledger.Execution {
	x := r.execution(t, task.NewID())
	x.Batch, x.Index, x.Depth, x.Key, x.Nth = r.batch.ID, index, 1, n.key, n.nth
	return x
}

// copy records the result of a task that is not run, in the background. Errors are ignored: what is known without it
// stays. recall is its key in the cache, or empty.
func (r *Record) copy(recall string, x ledger.Execution, res task.Result) {
	r.copied <- struct{}{}
	r.copies.Go(func() {
		defer func() { <-r.copied }()
		if r.cfg.Ledger.Claim(x) == nil {
			_ = r.cfg.Ledger.Finish(recall, x.ID, res)
		}
	})
}
