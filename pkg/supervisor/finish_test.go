package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/supervisor/halt"
	"qq/pkg/supervisor/limits"
	"qq/pkg/task"
)

// memRecord is a Recorder that writes down what it is told.
type memRecord struct {
	slow  time.Duration    // what Finish takes
	fails map[string]error // by line

	mu        sync.Mutex
	lines     []string
	finishing int // calls under way
	most      int
}

func (m *memRecord) note(format string, args ...any) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	line := fmt.Sprintf(format, args...)
	m.lines = append(m.lines, line)
	return m.fails[line]
}

func (m *memRecord) Claim(job task.Job) error { return m.note("claim %s", job.ExecutionID) }

func (m *memRecord) Attempt(job task.Job, started time.Time, r task.Result) {
	took := time.Duration(r.DurationMS) * time.Millisecond
	if started.Add(took).After(time.Now()) || r.ExecutionID != job.ExecutionID {
		_ = m.note("an attempt in the future, or of somebody else")
	}
	_ = m.note("attempt %d %s %s %s", job.Attempt, r.ExecutionID, r.Status, took)
}

func (m *memRecord) Effects(job task.Job) error { return m.note("effects %s", job.ExecutionID) }

func (m *memRecord) Finish(job task.Job, r task.Result) error {
	count := func(n int) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.finishing += n
		m.most = max(m.most, m.finishing)
	}
	count(1)
	defer count(-1)
	if m.slow > 0 {
		<-time.After(m.slow)
	}
	return m.note("finish %s %s", job.ExecutionID, r.Status)
}

// recorded returns the root of a supervisor with a record.
func recorded(l task.Limits, rec *memRecord) (*handle, *fake) {
	s, f := newTest(l)
	s.cfg.Record = rec
	return root(s, time.Time{}), f
}

// deliverTo returns a batch of tasks that puts its results into results.
func deliverTo(results *[]task.Result, texts ...string) Batch {
	return Batch{
		Tasks: func(yield func(task.Task, error) bool) {
			for _, text := range texts {
				if !yield(task.Task{Text: text}, nil) {
					return
				}
			}
		},
		Results: sink{deliver: func(r task.Result) error { *results = append(*results, r); return nil }},
	}
}

// Batches, delegations and children in the background are recorded alike; what
// was refused is not.
func TestRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &memRecord{}
		sc, _ := recorded(task.Limits{MaxParallel: 1, MaxChildren: 1, Retries: 1}, rec)
		collect(t, sc, Batch{}, "fan die once, sleep 1s")
		assert.Equal(t, []string{"claim x1", "claim x2", "attempt 1 x2 killed 0s", "finish x2 completed",
			"finish x1 failed"}, rec.lines)

		spawned := &memRecord{}
		sc, _ = recorded(task.Limits{MaxParallel: 1}, spawned)
		spawn(t, sc, "sleep 1s", "sleep 1s")
		<-time.After(time.Millisecond)
		sc.background.End(task.ErrAbandoned)
		assert.Equal(t, []string{"claim x1", "finish x1 cancelled"}, spawned.lines, "the second one was never started")
	})
}

// A record that the machine does not allow now is tried again. Other errors are not.
func TestRecordIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := &memRecord{fails: map[string]error{"claim x1": syscall.ENOSPC, "finish x2 completed": syscall.ENOSPC}}
		sc, _ := recorded(task.Limits{MaxParallel: 1}, full)
		sc.s.machine = limits.NewMachine(sc.s.slots, time.Minute, nil)
		go func() {
			<-time.After(10 * time.Second)
			full.mu.Lock()
			defer full.mu.Unlock()
			clear(full.fails)
		}()
		results, _ := collect(t, sc, Batch{}, "sleep 1s", "sleep 1s")
		assert.Equal(t, task.Completed, results[0].Status)
		assert.False(t, results[0].Unrecorded)
		assert.Greater(t, len(full.lines), 6)

		denied := &memRecord{fails: map[string]error{"claim x1": syscall.EACCES}}
		sc, _ = recorded(task.Limits{MaxParallel: 1}, denied)
		sc.s.machine = limits.NewMachine(sc.s.slots, time.Minute, nil)
		results = nil
		require.ErrorIs(t, sc.batch(t.Context(), deliverTo(&results, "sleep 1s", "sleep 1s"), false), syscall.EACCES)
		assert.Equal(t, []string{"claim x1"}, denied.lines)
	})
}

// A slot does not wait for the record, but there is a bound.
func TestSlotsDoNotWaitForTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &memRecord{slow: 50 * time.Second}
		sc, f := recorded(task.Limits{MaxParallel: 2}, rec)
		_, at := collect(t, sc, Batch{}, slices.Repeat([]string{"sleep 1s"}, 10)...)
		assert.Equal(t, 51*time.Second, at[0], "recorded before it is delivered")
		assert.Equal(t, 55*time.Second, at[9])
		assert.Equal(t, 2, f.maxWork)

		rec = &memRecord{slow: time.Hour}
		sc, f = recorded(task.Limits{MaxParallel: 2}, rec)
		results, _ := collect(t, sc, Batch{}, slices.Repeat([]string{"sleep 1s"}, 200)...)
		assert.Len(t, results, 200)
		assert.Equal(t, maxFinishing, rec.most)
		assert.Equal(t, 2, f.maxWork)
	})
}

// announced is a Log beside a record.
type announced struct{ rec *memRecord }

func (a announced) Spawned(id, _ string, _ int, _ string) { _ = a.rec.note("started %s", id) }
func (a announced) Completed(id string, _ bool, _ int)    { _ = a.rec.note("ended %s", id) }
func (a announced) Dispatched(string, int, []string)      {}
func (a announced) Failed(id, msg string)                 { _ = a.rec.note("%s: %s", id, msg) }

// The end of a task is announced when it is on record, or could not be, and
// before it is delivered.
func TestEndedAfterTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &memRecord{slow: 10 * time.Second, fails: map[string]error{"finish x2 failed": errors.New("disk full")}}
		sc := scripted(task.Limits{MaxParallel: 1},
			parts{"bad": func(ctx context.Context, job task.Job, _ Parent) task.Result {
				sleep(ctx, time.Second)
				return job.Ended(task.Failed, "as told")
			}})
		sc.s.cfg.Record = rec
		sc.s.cfg.Log = announced{rec}
		var results []task.Result
		b := deliverTo(&results, "sleep 1s", "bad")
		b.Results = sink{
			deliver: b.Results.Deliver,
			done:    func(r task.Result) { _ = rec.note("done %s", r.ExecutionID) },
		}
		require.Error(t, sc.batch(t.Context(), b, false))
		assert.Equal(t, []string{"claim x1", "started x1", "claim x2", "started x2", "finish x1 completed", "ended x1",
			"done x1", "finish x2 failed", "ended x2", "x2: failed: as told", "x2: its result could not be recorded",
			"done x2"}, rec.lines)
		assert.False(t, results[0].Unrecorded)
		assert.True(t, results[1].Unrecorded)
		assert.Equal(t, []string{"not recorded: disk full"}, results[1].Warnings)
	})
}

// What cannot be claimed is not started, and nothing after it; what runs ends
// and is delivered.
func TestClaimFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("disk full")
		rec := &memRecord{fails: map[string]error{"claim x3": full}}
		sc, f := recorded(task.Limits{MaxParallel: 2}, rec)
		var results []task.Result
		err := sc.batch(
			t.Context(),
			deliverTo(&results, "sleep 2s", "sleep 1s", "sleep 3s", "sleep 4s", "sleep 5s"),
			false,
		)
		require.ErrorIs(t, err, full)
		assert.Equal(t, []task.Status{task.Completed, task.Completed, task.Failed, task.Cancelled, task.Cancelled},
			statuses(results))
		for _, r := range results[2:] {
			assert.Equal(t, "not started: record the start of a task: disk full", r.Err())
			assert.Zero(t, r.Attempts)
		}
		assert.NotContains(t, f.launches, "sleep 3s")
		assert.NotContains(t, rec.lines, "finish x3 failed")
		assert.Equal(t, 2, free(sc.s))
	})
}

// The process that was made ready for a task that cannot be claimed is not left.
func TestClaimFailsWhenStaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc, plain := recorded(task.Limits{MaxParallel: 1},
			&memRecord{fails: map[string]error{"claim x2": errors.New("disk full")}})
		f := &stagingFake{fake: plain}
		sc.s.cfg.Launcher = f
		var results []task.Result
		require.ErrorContains(t, sc.batch(t.Context(), deliverTo(&results, "sleep 1s", "sleep 1s"), false), "disk full")
		assert.Equal(t, 1, f.staged)
		assert.Equal(t, 1, f.discarded)
		assert.Len(t, results, 2)
	})
}

// A result that cannot be recorded is delivered all the same, and says so.
func TestFinishFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full, broken := errors.New("disk full"), errors.New("no more")
		rec := &memRecord{fails: map[string]error{"finish x1 completed": full}}
		sc, _ := recorded(task.Limits{MaxParallel: 2}, rec)
		var results []task.Result
		b := deliverTo(&results, "sleep 1s", "sleep 2s", "sleep 3s", "sleep 4s")
		tasks := b.Tasks
		b.Tasks = func(yield func(task.Task, error) bool) {
			for t := range tasks {
				if !yield(t, nil) {
					return
				}
			}
			yield(task.Task{}, broken)
		}
		err := sc.batch(t.Context(), b, false)
		require.ErrorIs(t, err, full)
		require.ErrorIs(t, err, broken)
		require.Len(t, results, 4)
		assert.True(t, results[0].Success)
		assert.Equal(t, []string{"not recorded: disk full"}, results[0].Warnings)
		assert.Empty(t, results[1].Warnings)
		assert.Equal(t, task.Cancelled, results[3].Status)
		assert.Equal(t, "not started: record the result of a task: disk full", results[3].Err())
	})
}

// An agent learns that its children cannot be recorded.
func TestRecordFailsBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc, f := recorded(
			task.Limits{MaxParallel: 1},
			&memRecord{
				fails: map[string]error{"claim x2": errors.New("disk full"), "claim x3": errors.New("disk full")},
			},
		)
		results, _ := collect(t, sc, Batch{}, "fan sleep 1s")
		assert.Equal(t, "child: not started: record the start of a task: disk full", results[0].Err())
		ids := spawn(t, sc, "sleep 1s")
		children, err := sc.Wait(t.Context(), ids, 0)
		require.NoError(t, err)
		assert.Equal(t, "not started: record the start of a task: disk full", children[0].Err())
		assert.Equal(t, ids[0], children[0].ExecutionID)
		assert.Equal(t, []string{"fan sleep 1s"}, f.launches)
	})
}

// A known result takes its place, and nothing is done for it, not even when no
// more are started.
func TestKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &memRecord{}
		sc, f := recorded(task.Limits{MaxParallel: 1}, rec)
		failed := task.Task{Text: "old"}.Ended(task.Failed, "then")
		failed.Attempts = 3
		known := func(index int, t task.Task) (task.Result, bool) { return failed, index%2 == 1 && t.Text == "old" }
		results, at := collect(t, sc, Batch{Past: past(known), Halt: halt.New(halt.Policy{Fail: 2}, 0)},
			"sleep 1s", "old", "fail", "old", "sleep 1s", "fail", "sleep 7s", "old")
		assert.Equal(
			t,
			[]task.Status{task.Completed, task.Failed, task.Failed, task.Failed, task.Completed, task.Failed,
				task.Cancelled, task.Failed},
			statuses(results),
		)
		assert.Equal(t, "then", results[7].Err())
		assert.Equal(t, 3, results[7].Attempts)
		assert.Equal(t, 2*time.Second, at[7])
		assert.NotContains(t, f.launches, "old")
		assert.Len(t, rec.lines, 8, "four were claimed and finished")
	})
}

// A batch of which all is known is done at once, and ends when nobody takes it.
func TestAllIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc, f := recorded(task.Limits{MaxParallel: 1}, &memRecord{})
		asked, closed := 0, errors.New("broken pipe")
		var results []task.Result
		b := deliverTo(&results, slices.Repeat([]string{"old"}, 1000)...)
		b.Past = past(
			func(_ int, t task.Task) (task.Result, bool) { asked++; return t.Ended(task.Completed, ""), true },
		)
		require.NoError(t, sc.batch(t.Context(), b, false))
		assert.Len(t, results, 1000)
		asked, b.Results = 0, sink{deliver: func(task.Result) error { return closed }}
		require.ErrorIs(t, sc.batch(t.Context(), b, false), closed)
		assert.Equal(t, 1, asked)
		assert.Empty(t, f.launches)
	})
}

// What is refused when its turn comes needs no slot, nor is it a failure of what
// ran.
func TestRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &memRecord{}
		sc, f := recorded(task.Limits{MaxParallel: 1}, rec)
		var gone atomic.Bool
		time.AfterFunc(1500*time.Millisecond, func() { gone.Store(true) })
		sc.s.cfg.Gate = gate(func(task.Task) error {
			if !gone.Load() {
				return nil
			}
			return errors.New("gone")
		})
		results, at := collect(t, sc, Batch{Halt: halt.New(halt.Policy{Fail: 1}, 0)},
			"sleep 1s", "sleep 1s", "sleep 1s", "x", "x")
		assert.Equal(
			t,
			[]task.Status{task.Completed, task.Completed, task.Unavailable, task.Unavailable, task.Unavailable},
			statuses(results),
		)
		assert.Equal(t, 2*time.Second, at[4], "the third was asked about again when it had a slot")
		assert.Equal(t, "gone", results[2].Err())
		assert.Len(t, f.launches, 2)
		assert.Len(t, rec.lines, 4)
		assert.True(t, sc.Delegate(t.Context(), tasksOf("sleep 1s"))[0].Success, "an agent decides for itself")
	})
}

// A slot that is free is free for the next task only after the failure before it
// was counted, however slow the record is.
func TestHaltBeforeTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc, f := recorded(task.Limits{MaxParallel: 1}, &memRecord{slow: time.Minute})
		results, _ := collect(t, sc, Batch{Halt: halt.New(halt.Policy{Fail: 1}, 0)}, "fail", "sleep 1s")
		assert.Equal(t, []task.Status{task.Failed, task.Cancelled}, statuses(results))
		assert.Equal(t, []string{"fail"}, f.launches)
	})
}

// Jobs know their place in the batch or the delegation.
func TestIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		places := map[string]int{}
		note := func(_ context.Context, job task.Job, _ Parent) task.Result {
			mu.Lock()
			defer mu.Unlock()
			places[job.ID] = job.Index
			return job.Ended(task.Completed, "")
		}
		sc := scripted(task.Limits{MaxParallel: 2}, parts{"do": note})
		sc.Delegate(t.Context(), []task.Task{{Text: "do", ID: "a"}, {Text: "sleep 1s"}, {Text: "do", ID: "b"}})
		assert.Equal(t, map[string]int{"a": 0, "b": 2}, places)
	})
}
