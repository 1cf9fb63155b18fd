package supervisor

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/agents"
	"qq/pkg/task"
)

// read returns the messages that are in the inbox now.
func read(p Parent) (texts []string) {
	for {
		select {
		case text := <-p.Inbox():
			texts = append(texts, text)
		default:
			return texts
		}
	}
}

// A message to a child that waits for its slot is kept, and the child has it when it starts.
func TestMessageToQueuedChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(func(c *Config) { c.Limits.MaxParallel = 1 })
		var got []string
		h.launcher.does["busy"] = func(ctx context.Context, job task.Job, _ Parent) task.Result {
			return after(ctx, job, time.Minute)
		}
		h.launcher.does["late"] = func(ctx context.Context, job task.Job, p Parent) task.Result {
			got = read(p)
			return job.Ended(task.Completed, "")
		}
		_, _ = h.zero(t.Context(), agents.Agent{Name: "default"}, func(ctx context.Context, p Parent) {
			busy, err := p.Spawn(ctx, task.Task{Text: "busy", Agent: "coder"})
			require.NoError(t, err)
			late, err := p.Spawn(ctx, task.Task{Text: "late", Agent: "coder"})
			require.NoError(t, err)
			synctest.Wait()
			children, err := p.Children(ctx)
			require.NoError(t, err)
			require.Equal(t, task.Queued, children[1].Status)
			for i := range 64 {
				require.NoError(t, p.Send(ctx, late.ID, fmt.Sprint(i)))
			}
			require.Error(t, p.Send(ctx, late.ID, "too many"))
			require.NoError(t, p.Terminate(ctx, busy.ID))
			results, err := p.Wait(ctx, []string{late.ID}, 0)
			require.NoError(t, err)
			require.Len(t, got, 64)
			assert.Equal(t, "[message from your parent]\n0", got[0])
			assert.Equal(t, "[message from your parent]\n63", got[63])
			assert.Empty(t, results[0].Warnings)
			assert.EqualError(t, p.Send(ctx, late.ID, "x"), "no child "+late.ID+" of this agent is queued or running")
		})
	})
}

// The process that has read a message is gone when the job is run again, so the next attempt has it
// too, with what came in between.
func TestMessageToNextAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(func(c *Config) { c.Limits.Retries = 2 })
		var got [][]string
		h.launcher.does["dies"] = func(ctx context.Context, job task.Job, p Parent) task.Result {
			time.Sleep(time.Second)
			got = append(got, read(p))
			if job.Attempt < 3 {
				return job.Ended(task.Killed, "as told")
			}
			return job.Ended(task.Completed, "")
		}
		_, _ = h.zero(t.Context(), agents.Agent{Name: "default"}, func(ctx context.Context, p Parent) {
			c, err := p.Spawn(ctx, task.Task{Text: "dies", Agent: "coder"})
			require.NoError(t, err)
			synctest.Wait()
			require.NoError(t, p.Send(ctx, c.ID, "one"))
			time.Sleep(time.Second + time.Millisecond) // it waits for its second attempt
			require.NoError(t, p.Send(ctx, c.ID, "two"))
			results, err := p.Wait(ctx, nil, 0)
			require.NoError(t, err)
			assert.Equal(t, 3, results[0].Attempts)
			one, two := "[message from your parent]\none", "[message from your parent]\ntwo"
			assert.Equal(t, [][]string{{one}, {one, two}, {one, two}}, got)
		})
	})
}

// A child of somebody else gets no message.
func TestMessageToChildOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(func(c *Config) { c.Limits.MaxParallel = 3 })
		var ids []string
		var up error
		h.launcher.does["other"] = func(ctx context.Context, job task.Job, p Parent) task.Result {
			for _, id := range slices.Concat(ids, []string{job.ExecutionID, job.Parent, ""}) {
				if err := p.Send(ctx, id, "x"); err == nil {
					t.Errorf("%s got a message", id)
				}
			}
			up = p.Send(ctx, task.Parent, "y")
			return job.Ended(task.Completed, "")
		}
		h.launcher.does["idle"] = func(ctx context.Context, job task.Job, _ Parent) task.Result {
			return after(ctx, job, time.Minute)
		}
		_, _ = h.zero(t.Context(), agents.Agent{Name: "default"}, func(ctx context.Context, p Parent) {
			c, err := p.Spawn(ctx, task.Task{Text: "idle", Agent: "coder"})
			require.NoError(t, err)
			ids = []string{c.ID}
			synctest.Wait()
			_, err = p.Spawn(ctx, task.Task{Text: "other", Agent: "coder"})
			require.NoError(t, err)
			_, err = p.Wait(ctx, nil, 0)
			require.NoError(t, err)
			require.NoError(t, up)
		})
	})
}
