package apart

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

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
					o.begin(i)
					go func() {
						o.wait(i)
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
