package jobs

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"qq/pkg/task"
)

// clock is a Clock that stands as it says.
type clock struct {
	paused bool
	since  time.Time
}

func (c *clock) Turned() (bool, time.Time) { return c.paused, c.since }

// slot is a Slot that is held or not.
type slot bool

func (s slot) Held() bool { return bool(s) }

func TestTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table Table
		cause := errors.New("as told")
		assert.Empty(t, table.List())
		assert.False(t, table.Cancel("a", cause))
		table.Attempt("a", 1, slot(true))
		table.Remove("a")

		queued := time.Now()
		ctx, cancel := context.WithCancelCause(t.Context())
		c := &clock{paused: true}
		job := task.Job{ExecutionID: "a", Parent: "p", BatchID: "b", Index: 2, Depth: 1}
		job.Agent, job.Text = "coder", "do\n it"
		table.Add(job, c, cancel)
		want := Job{ExecutionID: "a", ParentExecutionID: "p", BatchID: "b", Index: 2, Depth: 1, Agent: "coder",
			Task: "do it", State: task.Queued, Since: queued, Queued: queued}
		assert.Equal(t, []Job{want}, table.List())

		time.Sleep(time.Second)
		table.Attempt("a", 1, slot(true))
		want.State, want.Attempt, want.Started, want.Slot = task.Running, 1, time.Now(), true
		want.Since = want.Started
		assert.Equal(t, []Job{want}, table.List(), "a clock that never ran is not paused")
		time.Sleep(time.Second)
		c.since = time.Now()
		want.State, want.Since = task.Waiting, c.since
		assert.Equal(t, []Job{want}, table.List())
		time.Sleep(time.Second)
		table.Attempt("a", 2, slot(false))
		c.paused, c.since = false, time.Now()
		want.State, want.Since, want.Attempt, want.Slot = task.Running, c.since, 2, false
		assert.Equal(t, []Job{want}, table.List())

		table.Add(task.Job{ExecutionID: "z"}, c, cancel)
		table.Add(task.Job{ExecutionID: "b"}, c, cancel)
		var order []string
		for _, j := range table.List() {
			order = append(order, j.ExecutionID)
		}
		assert.Equal(t, []string{"a", "z", "b"}, order)
		assert.True(t, table.Cancel("a", cause))
		assert.Equal(t, cause, context.Cause(ctx))
		for _, id := range order {
			table.Remove(id)
		}
		assert.Empty(t, table.List())
	})
}
