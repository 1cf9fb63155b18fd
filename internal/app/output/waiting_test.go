package output

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/task"
)

// TestWaitingText: what the line says.
func TestWaitingText(t *testing.T) {
	zero := jobs.Job{ExecutionID: "root", State: task.Waiting}
	child := func(id, parent string, state task.Status) jobs.Job {
		return jobs.Job{ExecutionID: id, ParentExecutionID: parent, State: state}
	}
	start := func(id, agent, text string) event.Event {
		name, _, _ := strings.Cut(text, " ")
		return event.Event{Type: event.ToolStart, ExecutionID: id, Agent: agent, Tool: name, Text: text}
	}
	children := []jobs.Job{zero, child("a", "root", task.Running), child("b", "root", task.Waiting),
		child("c", "b", task.Running), child("d", "root", task.Queued), child("e", "root", task.Queued)}
	calls := []event.Event{start("c", "explorer", "grep_file \"foo\""), start("root", "default", "delegate_task d"),
		start("b", "coder", "delegate_task c")}
	for _, c := range []struct {
		jobs   []jobs.Job
		events []event.Event
		wait   time.Duration
		want   string
	}{
		{nil, nil, 0, "waiting for qwen3:4b · 14 s · 3.1k tokens"},
		{[]jobs.Job{zero}, nil, 20 * time.Second, "waiting 20 s for the model server · 14 s · 3.1k tokens"},
		{[]jobs.Job{zero}, []event.Event{start("root", "coder", "run_pty_cmd go test")}, 0,
			"coder: run_pty_cmd go test · 14 s · 3.1k tokens"},
		{children, calls, 0, "3 at work, 2 queued · explorer: grep_file \"foo\" · 14 s · 3.1k tokens"},
		{children, append(calls, event.Event{Type: event.ToolEnd, ExecutionID: "c", Tool: "grep_file"}), 0,
			"3 at work, 2 queued · 14 s · 3.1k tokens"},
		{children, append(calls, event.Event{Type: event.SubAgentError, ExecutionID: "c"}), 0,
			"3 at work, 2 queued · 14 s · 3.1k tokens"},
		{children, calls, 20 * time.Second,
			"3 at work, 2 queued · waiting 20 s for the model server · 14 s · 3.1k tokens"},
		{children[4:], nil, 0, "2 queued · 14 s · 3.1k tokens"},
		{children[1:2], []event.Event{start("a", "x\n\x1b[2J", "say \u009b2J a\n\u202eb")}, 0,
			"1 at work · x [2J: say 2J a b · 14 s · 3.1k tokens"},
	} {
		out, _ := newOutput(t)
		l := &Waiting{w: out, work: &work{jobs: c.jobs, used: task.Usage{InputTokens: 3000, OutputTokens: 141}}}
		l.For("qwen3:4b")
		l.work.(*work).wait.Store(int64(c.wait))
		for _, e := range c.events {
			l.Handle(e)
		}
		assert.Equal(t, c.want, l.text(l.start.Add(14*time.Second)))
	}
}

// TestWaitingBounds: a child that begins calls and ends none costs little memory.
func TestWaitingBounds(t *testing.T) {
	l := &Waiting{}
	for range 3 * maxCalls {
		l.Handle(event.Event{Type: event.ToolStart, ExecutionID: "a", Text: strings.Repeat("x", 1000)})
	}
	assert.Len(t, l.calls, maxCalls)
	assert.LessOrEqual(t, len(l.calls[0].Text), 210)
	l.Handle(event.Event{Type: event.SubAgentComplete, ExecutionID: "a"})
	assert.Empty(t, l.calls)
}

// TestWaitingLive: the line makes room for the text of the model, and comes back a second after it.
func TestWaitingLive(t *testing.T) {
	const wipe = "\r\x1b[K"
	synctest.Test(t, func(t *testing.T) {
		out, shown := newOutput(t)
		ends := make(chan struct{})
		l := StartWaiting(out, &work{}, ends)
		screen := l.Before(NewLive(out))
		time.Sleep(quiet - time.Millisecond)
		synctest.Wait()
		want := ""
		assert.Equal(t, want, shown())
		time.Sleep(RedrawEvery)
		synctest.Wait()
		want += wipe + "waiting for the model server · 1 s"
		assert.Equal(t, want, shown())
		screen.Chunk(llm.Chunk{Thinking: "hm"})
		time.Sleep(RedrawEvery)
		assert.Equal(t, want, shown(), "a thought is no text, and an unchanged line is not drawn")
		fmt.Fprintln(out, "a note")
		want += wipe + "a note\n" + wipe + "waiting for the model server · 1 s"
		assert.Equal(t, want, shown())
		screen.Chunk(llm.Chunk{Text: "one "})
		time.Sleep(time.Minute)
		screen.Chunk(llm.Chunk{Text: "two"})
		want += wipe + "one two"
		assert.Equal(t, want, shown(), "nothing wipes it")
		screen.TurnEnd(false)
		time.Sleep(quiet - RedrawEvery)
		synctest.Wait()
		want += "\n"
		assert.Equal(t, want, shown())
		time.Sleep(2 * RedrawEvery)
		synctest.Wait()
		want += wipe + "waiting for the model server · 1m 02s"
		assert.Equal(t, want, shown())
		close(ends)
		synctest.Wait()
		want += wipe + stopping
		assert.Equal(t, want, shown())
		time.Sleep(time.Minute)
		screen.Chunk(llm.Chunk{Text: "three"})
		want += wipe + "three"
		time.Sleep(time.Minute)
		assert.Equal(t, want, shown())
		screen.TurnEnd(true)
		time.Sleep(RedrawEvery)
		synctest.Wait()
		want += "\n" + wipe + stopping
		assert.Equal(t, want, shown())
		l.Stop()
		assert.Equal(t, want+wipe, shown())
		l.Stop()
	})
	var none *Waiting
	none.For("m")
	none.Stop()
}
