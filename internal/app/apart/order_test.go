package apart

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/supervisor"
	"qq/pkg/supervisor/plan"
	"qq/pkg/task"
)

type none struct{}

func (none) Deliver(task.Result) error { return nil }
func (none) Done(task.Result)          {}

// TestOrder: a task waits for all before it, also for those that have not started. In a planned batch it waits only for
// those that have: another one may wait for it.
func TestOrder(t *testing.T) {
	for name, tasks := range map[string][]task.Task{
		"as listed": {{Text: "0"}, {Text: "1"}, {Text: "2"}},
		"planned":   {{Text: "0", Needs: []string{"2"}}, {Text: "1"}, {Text: "2", ID: "2"}},
		"phases":    {{Text: "0"}, {Text: "1"}, {Text: "2", Role: "information-gathering"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				trees := &Trees{}
				given := supervisor.Batch{Tasks: supervisor.Tasks(tasks...), Results: none{}}
				if name != "as listed" {
					given.Plan = &plan.Plan{}
				}
				b := trees.Batch(given)
				o := trees.batch
				joined := make(chan int, 3)
				start := func(i int) {
					o.begin(i, true)
					go func() {
						assert.NoError(t, o.wait(t.Context(), i))
						joined <- i
						b.Results.Done(task.Result{Index: i})
					}()
					synctest.Wait()
				}
				start(2)
				if name != "as listed" {
					assert.Equal(t, 2, <-joined)
					start(0)
					assert.Equal(t, 0, <-joined)
					start(1)
					assert.Equal(t, 1, <-joined)
					return
				}
				start(1)
				assert.Empty(t, joined)
				start(0)
				for want := range 3 {
					assert.Equal(t, want, <-joined)
				}
			})
		})
	}
}

// TestOrderCancelled: a person who cancels a task need not wait for those before it. When the batch ends, they end too.
func TestOrderCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trees := &Trees{}
		b := trees.Batch(supervisor.Batch{Results: none{}})
		waits := func(cause error) chan error {
			ctx, cancel := context.WithCancelCause(t.Context())
			got := make(chan error, 1)
			go func() { got <- trees.batch.wait(ctx, 1) }()
			synctest.Wait()
			cancel(cause)
			synctest.Wait()
			return got
		}
		ended := waits(errors.New("the run ends"))
		assert.Empty(t, ended)
		assert.ErrorIs(t, <-waits(supervisor.ErrCancelled), supervisor.ErrCancelled)
		b.Results.Done(task.Result{})
		assert.NoError(t, <-ended)
	})
}

// broken is a receiver of results that fails.
type broken struct{ none }

func (broken) Deliver(task.Result) error { return errors.New("closed") }

// TestOrderUndeliverable: when no result can be delivered, nobody waits for a task that has not started.
func TestOrderUndeliverable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trees := &Trees{}
		b := trees.Batch(supervisor.Batch{Results: broken{}})
		trees.batch.begin(1, true)
		joined := make(chan error, 1)
		go func() { joined <- trees.batch.wait(t.Context(), 2) }()
		require.Error(t, b.Results.Deliver(task.Result{}))
		synctest.Wait()
		assert.Empty(t, joined, "the one before it runs")
		b.Results.Done(task.Result{Index: 1})
		assert.NoError(t, <-joined)
	})
}

// TestOrderFull: no task starts while too many wait for one that runs. One for which they wait does.
func TestOrderFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trees := &Trees{}
		trees.Slots = 2
		b := trees.Batch(supervisor.Batch{Results: none{}})
		var all sync.WaitGroup
		for i := range 8 {
			assert.Zero(t, b.Pace.Next())
			trees.batch.begin(i+1, true)
			all.Go(func() {
				assert.NoError(t, trees.batch.wait(t.Context(), i+1))
				b.Results.Done(task.Result{Index: i + 1})
			})
			synctest.Wait()
		}
		assert.Zero(t, b.Pace.Next(), "the first one has not started")
		trees.batch.begin(0, false)
		assert.NotZero(t, b.Pace.Next())
		b.Results.Done(task.Result{})
		all.Wait()
		assert.Zero(t, b.Pace.Next())
	})
}
