package supervisor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/task"
)

// spawn starts tasks in the background and returns their ids.
func spawn(t *testing.T, sc *handle, texts ...string) (ids []string) {
	t.Helper()
	for _, text := range texts {
		c, err := sc.Spawn(t.Context(), task.Task{Text: text})
		require.NoError(t, err)
		assert.Equal(t, task.Queued, c.Status)
		ids = append(ids, c.ID)
	}
	return ids
}

// ends is the status and output of results, in order.
func ends(results []task.Result) (s []string) {
	for i, r := range results {
		if r.Index != i {
			return []string{"wrong index"}
		}
		s = append(s, string(r.Status)+" "+r.Output+r.Err())
	}
	return s
}

// listed lists the children of sc.
func listed(t *testing.T, sc *handle) (s []string) {
	t.Helper()
	children, err := sc.Children(t.Context())
	require.NoError(t, err)
	for _, c := range children {
		s = append(s, c.Task+": "+string(c.Status))
	}
	return s
}

func TestBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newTest(task.Limits{MaxParallel: 2})
		sc := root(s, time.Time{})
		start := time.Now()
		ids := spawn(t, sc, "sleep 2s", "sleep 1s", "sleep 3s")
		synctest.Wait()
		assert.Equal(t, []string{"sleep 2s: running", "sleep 1s: running", "sleep 3s: queued"}, listed(t, sc))
		assert.Zero(t, time.Since(start), "nobody waited")

		results, err := sc.Wait(t.Context(), []string{ids[1]}, 0)
		require.NoError(t, err)
		assert.Equal(t, []string{"completed sleep 1s"}, ends(results))
		assert.Equal(t, time.Second, time.Since(start))

		results, err = sc.Wait(t.Context(), nil, 500*time.Millisecond)
		require.NoError(t, err)
		assert.Empty(t, results, "none has ended yet")
		assert.Equal(t, 1500*time.Millisecond, time.Since(start))
		assert.Equal(t, []string{"sleep 2s: running", "sleep 3s: running"}, listed(t, sc))

		results, err = sc.Wait(t.Context(), nil, 0)
		require.NoError(t, err)
		assert.Equal(t, []string{"completed sleep 2s", "completed sleep 3s"}, ends(results))
		assert.Equal(t, 4*time.Second, time.Since(start))
		assert.Empty(t, listed(t, sc))
		_, err = sc.Wait(t.Context(), []string{ids[0]}, 0)
		require.ErrorContains(t, err, "its result was collected")
		assert.Equal(t, 2, f.maxLive)
		sc.background.End(task.ErrAbandoned)
	})
}

// One of three is ended, and the others go on. One that waits for its slot can
// be ended as well.
func TestTerminate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newTest(task.Limits{MaxParallel: 3})
		sc := root(s, time.Time{})
		start := time.Now()
		ids := spawn(t, sc, "sleep 2s", "sleep 50s", "sleep 3s", "sleep 9s")
		synctest.Wait()
		require.NoError(t, sc.Terminate(t.Context(), ids[3]))
		require.NoError(t, sc.Terminate(t.Context(), ids[1]))
		assert.Zero(t, time.Since(start))
		results, err := sc.Wait(t.Context(), ids, 0)
		require.NoError(t, err)
		assert.Equal(
			t,
			[]string{"completed sleep 2s", "cancelled partialSub-agent cancelled by user.", "completed sleep 3s",
				"cancelled Sub-agent cancelled by user."},
			ends(results),
		)
		assert.Equal(t, 3*time.Second, time.Since(start))
		assert.Zero(t, f.live)
		require.Error(t, sc.Terminate(t.Context(), "nobody"))
		require.Error(t, sc.Terminate(t.Context(), ids[0]), "collected")
	})
}

// backgroundFake lets a task look after children in the background.
type backgroundFake struct {
	*fake
	do func(ctx context.Context, job task.Job, p Parent)
}

func (f backgroundFake) Launch(ctx context.Context, job task.Job, p Parent) task.Result {
	if job.Text == "lead" {
		f.do(ctx, job, p)
		return job.Ended(task.Completed, "")
	}
	return f.fake.Launch(ctx, job, p)
}

// With one slot an agent that waits for a child in the background lends it; what
// it does not collect ends with it, before its own result is there.
func TestBackgroundOfAChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newTest(task.Limits{MaxParallel: 1})
		var collected []task.Result
		s.cfg.Launcher = backgroundFake{f, func(ctx context.Context, job task.Job, p Parent) {
			a, err := p.Spawn(ctx, task.Task{Text: "sleep 1s"})
			require.NoError(t, err)
			collected, err = p.Wait(ctx, []string{a.ID}, 0)
			require.NoError(t, err)
			require.Error(t, root(s, time.Time{}).Terminate(ctx, a.ID), "not the child of the root")
			_, err = p.Spawn(ctx, task.Task{Text: "sleep 99s"})
			require.NoError(t, err)
			p.(*handle).pause(ctx, func() { time.Sleep(2 * time.Second) }) // meanwhile that one takes the slot
			_, err = p.Spawn(ctx, task.Task{Text: "sleep 98s"})
			require.NoError(t, err)
		}}
		start := time.Now()
		results := root(s, time.Time{}).Delegate(t.Context(), []task.Task{{Text: "lead"}})
		assert.True(t, results[0].Success)
		assert.Equal(t, []string{"completed sleep 1s"}, ends(collected))
		assert.Equal(t, 100*time.Second, time.Since(start), "it got its slot back when the other ended")
		synctest.Wait()
		assert.Zero(t, f.live)
		assert.NotContains(t, f.launches, "sleep 98s", "it had no slot yet")
	})
}

func TestSpawnHasLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(task.Limits{MaxParallel: 1, MaxChildren: 1})
		sc := root(s, time.Time{})
		spawn(t, sc, "sleep 1s")
		_, err := sc.Spawn(t.Context(), task.Task{Text: "x"})
		require.EqualError(t, err, "Maximum 1 sub-agents exceeded")
		sc.background.End(task.ErrAbandoned)
		_, err = sc.Spawn(t.Context(), task.Task{Text: "x"})
		require.Error(t, err)
		s, _ = newTest(task.Limits{MaxParallel: 1, MaxDepth: 1})
		_, err = root(s, time.Time{}).Spawn(t.Context(), task.Task{Text: "x"})
		require.EqualError(t, err, "Error: Maximum recursion depth (1) exceeded")
	})
}

// Who waits for a person is not at work: another one takes the slot.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newTest(task.Limits{MaxParallel: 1})
		s.cfg.Launcher = backgroundFake{f, func(ctx context.Context, job task.Job, p Parent) {
			p.(*handle).pause(ctx, func() { time.Sleep(10 * time.Second) })
		}}
		start := time.Now()
		results := root(s, time.Time{}).Delegate(t.Context(),
			[]task.Task{{Text: "lead"}, {Text: "sleep 3s"}, {Text: "sleep 4s"}})
		assert.Len(t, results, 3)
		assert.Equal(t, 10*time.Second, time.Since(start))
	})
}
