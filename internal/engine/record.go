package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"qq/internal/ledger"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// BatchOptions say what a batch has to do with earlier ones. The zero value is
// nothing.
type BatchOptions struct {
	ID     string // of the batch that goes on, when Resume is set
	Resume bool   // what has a finished result is not run again
	Failed bool   // what failed is
	Cache  bool   // what was answered before, and rests on the same files, is not run again
	// Done tells by other means that a task needs no run; nil is not asked.
	Done func(t task.Task) bool
	// Kept is told of each task that is not run again; nil is not told.
	Kept func(index int)
}

// record keeps what the supervisor does in the ledger, and knows what stands
// there already.
type record struct {
	e       *Engine
	ledger  *ledger.Recorder
	options BatchOptions
	replay  replay

	mu      sync.Mutex
	seen    map[string]int    // how many tasks of the batch had that key
	tasks   map[int]keyed     // those that have not begun, by index
	caching map[string]string // what answers to those at work are found by again, by execution
}

// keyed is what a task of a batch is found by.
type keyed struct {
	key   string // what was asked
	nth   int    // of those with that key
	cache string // and with what it was asked; empty where the answer is not cached
}

var _ supervisor.Recorder = (*record)(nil)

// known returns the result of the task of a batch when there is one already, or
// when it is not wanted.
func (e *Engine) known(ctx context.Context, o BatchOptions, index int, t task.Task) (task.Result, bool) {
	if o.Done != nil && o.Done(t) {
		res := t.Normalized().Ended(task.Completed, "")
		res.Warnings = []string{"it was done before, as the log of the batch says; its output is not known"}
		return res, true
	}
	if e.record == nil {
		return task.Result{}, false
	}
	return e.record.known(ctx, index, t)
}

// known returns the result of the task of a batch when there is one already. It
// is asked about each task, in order.
func (r *record) known(ctx context.Context, index int, t task.Task) (task.Result, bool) {
	k := r.keyed(ctx, t)
	led, err := r.ledger.Ledger()
	if err != nil {
		return task.Result{}, false // Claim will say so
	}
	if r.options.Resume {
		res, ok, err := led.Known(r.options.ID, k.key, k.nth)
		if err != nil {
			r.e.cfg.Note("look for the result of task %d: %v", index+1, err)
		}
		if ok && err == nil && r.settled(res) {
			res.ID = t.ID
			return res, true
		}
	}
	if k.cache != "" && r.options.Cache {
		if res, ok := r.recall(ctx, led, k.cache, t); ok {
			return res, true
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tasks[index] = k
	return task.Result{}, false
}

// settled reports whether a task that ended so is not run again.
func (r *record) settled(res task.Result) bool {
	switch res.Status {
	case task.Cancelled, task.Interrupted: // it did not get to its end
		return false
	}
	return res.Success || !r.options.Failed
}

// keyed makes the keys of a task.
func (r *record) keyed(ctx context.Context, t task.Task) keyed {
	k := keyed{key: TaskKey(t)}
	r.mu.Lock()
	k.nth = r.seen[k.key]
	r.seen[k.key]++
	r.mu.Unlock()
	if r.options.Cache {
		k.cache = r.cacheKey(ctx, t)
	}
	return k
}

// TaskKey is what a task of a batch is found by: all that was asked, and the
// content of the file that it was made of.
func TaskKey(t task.Task) string { return ledger.Key(t, contentOf(t.File)) }

// contentOf is a digest of the file of that name, which a task was made of; of
// none it is empty, and one that cannot be read is like no other.
func contentOf(name string) string {
	if name == "" {
		return ""
	}
	f, err := os.Open(name)
	if err != nil {
		return newID()
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return newID()
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Claim implements supervisor.Recorder.
func (r *record) Claim(job task.Job) error {
	led, err := r.ledger.Ledger()
	if err != nil {
		return err
	}
	x := ledger.Execution{
		ID: job.ExecutionID, Parent: job.Parent, Batch: job.BatchID, Root: r.e.id, Agent: job.Agent, Task: job.Text,
		Dir: filepath.Join(r.e.cfg.Dir, job.WorkingDir), Index: job.Index, Depth: job.Depth, Queued: time.Now(),
	}
	if m, ok := r.e.models.known(r.e.modelName(job.Task)); ok {
		x.Model = m.String()
	}
	r.mu.Lock()
	if k, ok := r.tasks[job.Index]; ok && r.own(job) {
		x.Key, x.Nth = k.key, k.nth
		delete(r.tasks, job.Index)
		if k.cache != "" {
			r.caching[job.ExecutionID] = k.cache
		}
	}
	r.mu.Unlock()
	return led.Claim(x)
}

// own reports whether job is a task of the batch itself, and not one that an
// agent handed on.
func (r *record) own(job task.Job) bool { return job.BatchID != "" && job.Parent == "" }

// Attempt implements supervisor.Recorder.
func (r *record) Attempt(job task.Job, started time.Time, res task.Result) {
	if led, err := r.ledger.Ledger(); err == nil {
		led.Attempt(job.ExecutionID, job.Attempt, started, res)
	}
}

// Finish implements supervisor.Recorder.
func (r *record) Finish(job task.Job, res task.Result) error {
	led, err := r.ledger.Ledger()
	if err != nil {
		return err
	}
	r.mu.Lock()
	key := r.caching[job.ExecutionID]
	delete(r.caching, job.ExecutionID)
	r.mu.Unlock()
	return led.FinishFor(key, job.ExecutionID, res)
}

// cacheKey is what an answer to t depends on besides what is read for it: who
// answers, with which model, where. It is empty for an agent that can change
// something.
func (r *record) cacheKey(ctx context.Context, t task.Task) string {
	agent, m, err := r.e.Staff(ctx, t)
	if err != nil || agent.Changes() && !t.ReadOnly && !r.e.cfg.ReadOnly {
		return ""
	}
	definition, err := json.Marshal(agent)
	if err != nil {
		return ""
	}
	model, err := json.Marshal(m)
	if err != nil {
		return ""
	}
	return ledger.Key(t, string(definition), string(model), filepath.Join(r.e.cfg.Dir, t.WorkingDir), fmt.Sprint(r.e.cfg.ReadOnly, r.e.cfg.Settings.MaxOutput))
}

// recall returns an earlier answer to a task with that key, when what was read
// for it is still the same.
func (r *record) recall(ctx context.Context, led *ledger.Ledger, key string, t task.Task) (task.Result, bool) {
	res, ok, err := led.Recall(key)
	if err != nil || !ok || !r.replay.same(ctx, t, res.Reads) {
		return task.Result{}, false
	}
	res.ID, res.Cached, res.Attempts, res.QueuedMS, res.DurationMS, res.Usage = t.ID, true, 0, 0, 0, task.Usage{}
	return res, true
}
