package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
			Task: "do it", Chain: []string{"coder"},
			State: task.Queued, Since: queued, Queued: queued}
		assert.Equal(t, []Job{want}, table.List())

		time.Sleep(time.Second)
		table.Attempt("a", 1, slot(true))
		want.State, want.Attempt, want.Started, want.Slot = task.Running, 1, time.Now(), true
		want.Doing = Starts
		want.Since = want.Started
		assert.Equal(t, []Job{want}, table.List(), "a clock that never ran is not paused")
		time.Sleep(time.Second)
		c.since = time.Now()
		want.State, want.Since, want.Doing = task.Waiting, c.since, ""
		assert.Equal(t, []Job{want}, table.List())
		time.Sleep(time.Second)
		table.Attempt("a", 2, slot(false))
		c.paused, c.since = false, time.Now()
		want.State, want.Since, want.Attempt, want.Slot = task.Running, c.since, 2, false
		want.Doing = Starts
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

// TestDoing follows a job and its child through what they do, with what they use and change.
func TestDoing(t *testing.T) {
	var table Table
	c := &clock{since: time.Now()}
	cancel := func(error) {}
	add := func(id, parent, agent string) {
		job := task.Job{ExecutionID: id, Parent: parent}
		job.Agent = agent
		table.Add(job, c, cancel)
	}
	job := func(id string) Job {
		for _, j := range table.List() {
			if j.ExecutionID == id {
				return j
			}
		}
		t.Fatalf("no job %s", id)
		return Job{}
	}
	add("a", "", "default")
	table.Hold("a", true)
	assert.Equal(t, AwaitsLease, job("a").Doing)
	table.Hold("a", false)
	assert.Empty(t, job("a").Doing)
	table.Attempt("a", 1, slot(true))
	assert.Equal(t, Starts, job("a").Doing)
	table.Ask("a")
	assert.Equal(t, Asks, job("a").Doing)
	table.Stream("a")
	assert.Equal(t, Streams, job("a").Doing)
	table.Answer("a", task.Usage{InputTokens: 10, OutputTokens: 1})
	assert.Empty(t, job("a").Doing)

	add("b", "a", "coder")
	assert.Equal(t, []string{"default", "coder"}, job("b").Chain)
	c.paused = true
	assert.Equal(t, Awaits, job("a").Doing)
	table.Answer("b", task.Usage{InputTokens: 5})
	table.Change("b", []string{"x", "y", "x"})
	assert.Equal(t, []string{"x", "y"}, job("b").Changed)
	for range 2 {
		for n := range maxChanged {
			table.Change("b", []string{fmt.Sprint(n)})
		}
	}
	assert.Len(t, job("b").Changed, maxChanged)
	assert.Equal(t, maxChanged+2, job("b").ChangedCount, "the same file counts once, also one that is not listed")
	for n := range maxCounted {
		table.Change("b", []string{fmt.Sprint(n)})
	}
	assert.Equal(t, maxCounted, job("b").ChangedCount)
	assert.Equal(t, 5, job("b").Usage.InputTokens)
	table.Remove("b")
	assert.Equal(t, task.Usage{InputTokens: 10, OutputTokens: 1}, job("a").Usage)
	assert.Equal(t, task.Usage{InputTokens: 15, OutputTokens: 1}, job("a").Subtree, "of children that have ended too")
	assert.Empty(t, job("a").Doing, "it waits for nobody")
	table.Ready("a")
	assert.Equal(t, Joins, job("a").Doing)
	for _, id := range []string{"gone", ""} {
		table.Ask(id)
		table.Stream(id)
		table.Answer(id, task.Usage{InputTokens: 1})
		table.Hold(id, true)
		table.Change(id, []string{"x"})
	}
}

// TestMessage: what a person writes reaches the agent of any job that has not ended.
func TestMessage(t *testing.T) {
	var table Table
	mail := table.Add(task.Job{ExecutionID: "a"}, &clock{}, nil)
	require.NoError(t, table.Message("a", "early"))
	inbox := mail.Open()
	require.NoError(t, table.Message("a", "late"))
	assert.Equal(t, "[message from the user]\nearly", <-inbox)
	assert.Equal(t, "[message from the user]\nlate", <-inbox)
	require.Error(t, table.Message("a", strings.Repeat("x", task.MaxMessage+1)))
	require.ErrorIs(t, table.Message("b", "x"), ErrUnknown)
	table.Remove("a")
	require.ErrorIs(t, table.Message("a", "x"), ErrUnknown)
}
