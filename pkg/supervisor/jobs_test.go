package supervisor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/event"
	"qq/pkg/supervisor/halt"
	"qq/pkg/task"
)

// standing are the jobs of s, with how long each has been in its state.
func standing(s *Supervisor) (lines []string) {
	for _, j := range s.Jobs() {
		since := time.Since(j.Since)
		lines = append(lines, fmt.Sprintf("%s<%s #%d at %d: %s %v attempt %d", j.ExecutionID, j.ParentExecutionID,
			j.Index, j.Depth, strings.TrimSpace(string(j.State)+" "+string(j.Doing)), since, j.Attempt))
	}
	return lines
}

// Who queues, who works and who waits, and since when.
func TestJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(task.Limits{MaxParallel: 1, Retries: 1})
		at := func(d time.Duration, want ...string) {
			time.AfterFunc(d, func() { assert.Equal(t, want, standing(s), d) })
		}
		at(1500*time.Millisecond, "x1< #0 at 1: waiting children 500ms attempt 1",
			"x2< #1 at 1: running starting 500ms attempt 1", "x3<x1 #0 at 2: queued 500ms attempt 0")
		at(3*time.Second, "x1< #0 at 1: waiting children 2s attempt 1",
			"x3<x1 #0 at 2: running starting 600ms attempt 1", "x4<x1 #1 at 2: queued 600ms attempt 0")
		at(4600*time.Millisecond, "x1< #0 at 1: waiting children 3.6s attempt 1",
			"x4<x1 #1 at 2: waiting retry 200ms attempt 1") // between two attempts
		collect(t, root(s, time.Time{}), Batch{}, "sleep 1s; fan sleep 2s, die", "sleep 1400ms")
		assert.Empty(t, s.Jobs())
	})
}

// A job that was cancelled in the queue is never launched, the others go on, and its slot is not lost.
func TestCancelQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newTest(task.Limits{MaxParallel: 1, MaxDepth: 4})
		var ends []event.Event
		s.cfg.Events = event.NewStream("", event.SinkFunc(func(e event.Event) {
			if e.Type == event.SubAgentError {
				ends = append(ends, e)
			}
		}))
		go func() {
			time.Sleep(time.Second)
			assert.True(t, s.Cancel("x2"))
			synctest.Wait()
			assert.False(t, s.Cancel("x2"), "it has ended at once")
		}()
		results, at := collect(t, root(s, time.Time{}), Batch{Halt: halt.New(halt.Policy{Now: true, Fail: 1}, 0)},
			"sleep 5s", "sleep 50s", "sleep 1s")
		assert.Equal(t, []task.Status{task.Completed, task.Cancelled, task.Completed}, statuses(results))
		assert.Equal(t, []time.Duration{5 * time.Second, 5 * time.Second, 6 * time.Second}, at)
		assert.Equal(t, []any{"Sub-agent cancelled by user.", "x2", 0},
			[]any{results[1].Err(), results[1].ExecutionID, results[1].Attempts})
		assert.Equal(t, []string{"sleep 5s", "sleep 1s"}, f.launches)
		require.Len(t, ends, 1)
		assert.Equal(t, []any{"x2", task.Cancelled}, []any{ends[0].ExecutionID, ends[0].Status})
		assert.Equal(t, 1, free(s))
	})
}

// To cancel a running task of a batch is no failure that halts the batch.
func TestCancelDoesNotHalt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(task.Limits{MaxParallel: 1})
		time.AfterFunc(time.Second, func() { s.Cancel("x1") })
		results, _ := collect(t, root(s, time.Time{}), Batch{Halt: halt.New(halt.Policy{Now: true, Fail: 1}, 0)},
			"sleep 9s", "sleep 1s")
		assert.Equal(t, []task.Status{task.Cancelled, task.Completed}, statuses(results))
	})
}

// A background child is cancelled while it queues, while it works, and between two attempts.
func TestCancelBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newTest(task.Limits{MaxParallel: 2, Retries: 2})
		r := root(s, time.Time{})
		ids := spawn(t, r, "sleep 50s", "sleep 50s", "sleep 50s")
		time.Sleep(time.Second)
		assert.Equal(t, []task.Status{task.Running, task.Running, task.Queued}, states(s))
		for _, id := range ids {
			assert.True(t, s.Cancel(id))
		}
		results, err := r.Wait(t.Context(), nil, 0)
		require.NoError(t, err)
		assert.Len(t, f.launches, 2)
		dying := spawn(t, r, "die")
		synctest.Wait() // it has died, and pauses
		assert.Equal(t, []task.Status{task.Waiting}, states(s))
		assert.True(t, s.Cancel(dying[0]))
		synctest.Wait()
		late, err := r.Wait(t.Context(), nil, 0)
		require.NoError(t, err)
		for _, res := range append(results, late...) {
			assert.Equal(t, []any{task.Cancelled, "Sub-agent cancelled by user."}, []any{res.Status, res.Err()})
		}
		assert.Len(t, f.launches, 3)
		assert.Equal(t, 2, free(s))
		assert.Empty(t, s.Jobs())
	})
}

func states(s *Supervisor) (all []task.Status) {
	for _, j := range s.Jobs() {
		all = append(all, j.State)
	}
	return all
}

// Whoever looks at the jobs does so at any time.
func TestJobsAtAnyTime(t *testing.T) {
	s, _ := newTest(task.Limits{MaxParallel: 4, MaxChildren: 1000})
	ctx, stop := context.WithCancel(t.Context())
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		for ctx.Err() == nil {
			for _, j := range s.Jobs() {
				assert.NotEmpty(t, j.ExecutionID)
			}
		}
	}()
	collect(t, root(s, time.Time{}), Batch{}, "fan a, b, c", "fan a, b, c", "fan a, b, c", "x", "x", "x")
	stop()
	<-looked
}
