package loop

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// stopped runs an agent that makes one tool call, and stops it a second later, while the
// model or the tool is running.
func stopped(t *testing.T, steps []step, why error) (task.Result, *script) {
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(time.Second, func() { cancel(why) })
	look := reading("look", func(context.Context) tool.Result { return tool.Result{Content: "a fact"} })
	model := &script{steps: steps}
	out, _ := start(t, ctx, Config{Backend: model, Final: model, Tools: tool.Set{look}, MaxTurns: 5}, nil)
	return out, model
}

// grace is a cause of cancellation that grants time for a final answer.
type grace struct {
	error
	time time.Duration
}

func (g grace) Unwrap() error           { return g.error }
func (g grace) HandBack() time.Duration { return g.time }

// errFourSeconds are granted by a cause that stands behind another.
var errFourSeconds = fmt.Errorf("told to end: %w", grace{errEnough, 4 * time.Second})

// silent blocks until ctx ends.
func silent(ctx context.Context, _ func(llm.Chunk)) (llm.Response, error) {
	<-ctx.Done()
	return llm.Response{}, context.Cause(ctx)
}

func TestFinalAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, model := stopped(t, []step{says("", calling("look")), silent, says("so far: a fact")}, errFourSeconds)
		assert.Equal(t, task.Interrupted, out.Status)
		assert.Equal(t, "told to end: enough", out.Err())
		assert.Equal(t, "so far: a fact", out.Output)
		assert.Empty(t, model.asked[2].Tools)
		assert.Equal(t, 20, out.Usage.InputTokens)
	})
}

// The final answer gets no more time than was granted. Without one, the earlier text is
// kept.
func TestFinalAnswerInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		out, _ := stopped(t, []step{says("a remark", calling("look")), silent, silent}, errFourSeconds)
		assert.Equal(t, 5*time.Second, time.Since(begin))
		assert.Equal(t, "a remark", out.Output)
	})
}

// There is no final answer if the model was stopped while it answered, if no tool has run
// yet, or if no time is granted.
func TestNoFinalAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, model := stopped(t, []step{says("", calling("look")), hangs}, errFourSeconds)
		assert.Equal(t, "so f", out.Output)
		assert.Len(t, model.asked, 2)
		out, model = stopped(t, []step{silent}, errFourSeconds)
		assert.Empty(t, out.Output)
		assert.Len(t, model.asked, 1)
		for _, why := range []error{errEnough, grace{errEnough, 0}} {
			out, model = stopped(t, []step{says("", calling("look")), silent}, why)
			assert.Equal(t, task.Interrupted, out.Status)
			assert.Len(t, model.asked, 2)
		}
	})
}

// The cause of a cancellation may set the status of the result.
func TestStatusOfTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			why    error
			status task.Status
		}{
			{&task.ClockError{Status: task.Timeout, After: time.Second}, task.Timeout},
			{fmt.Errorf("from above: %w", &task.ClockError{Status: task.Idle, After: time.Second}), task.Idle},
			{&task.Error{Status: task.Cancelled, Problem: "not needed"}, task.Cancelled},
			{&task.Error{Problem: "it says no status"}, task.Interrupted},
			{context.Canceled, task.Interrupted},
			{errEnough, task.Interrupted},
		} {
			out, _ := stopped(t, []step{silent}, c.why)
			assert.Equal(t, c.status, out.Status)
			assert.Equal(t, c.why.Error(), out.Err())
		}
	})
}

// The host is told before the first side effect, and the observer after each call.
func TestEffectsAreTold(t *testing.T) {
	var told []string
	full := errors.New("the disk is full")
	say := func(what string) { told = append(told, what) }
	does := func(name string, e tool.Effect) fn {
		return fn{name, e, func(context.Context) tool.Result {
			say("run " + name)
			return tool.Result{Content: "done"}
		}}
	}
	tools := tool.Set{
		does("read", tool.Reads),
		does("fetch", tool.Network),
		does("write", tool.Writes),
		does("exec", tool.Executes),
	}
	model := &script{steps: []step{
		says(
			"",
			calling("write"),
		), says("", calling("read"), calling("fetch"), calling("write"), calling("exec"), calling("unknown")),
		says("answer")}}
	out, _ := start(t, t.Context(), Config{Backend: model, Tools: tools, MaxTurns: 4,
		Host: hooks{
			effects: func() (err error) {
				say("effects")
				err, full = full, nil
				return err
			},
			ran: func(s tool.Spec, c tool.Call, r tool.Result) { say("ran " + c.Name + ": " + r.Content) },
		},
	}, nil)
	assert.Equal(t, task.Completed, out.Status)
	assert.Equal(
		t,
		[]string{
			"effects",
			"run read",
			"ran read: done",
			"run fetch",
			"ran fetch: done",
			"effects",
			"run write",
			"ran write: done",
			"run exec",
			"ran exec: done",
		},
		told,
	)
}
