package board

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"qq/pkg/event"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/task"
)

func running(id string) jobs.Job { return jobs.Job{ExecutionID: id, State: task.Running, Slot: true} }

// TestCalls: the last call that runs is shown, and when none runs the last one.
func TestCalls(t *testing.T) {
	b := New()
	tell := func(typ event.Type, call, tool string, set ...func(*event.Event)) {
		e := event.Event{Type: typ, ExecutionID: "a", CallID: call, Tool: tool, Text: tool + "!", TS: time.Unix(1, 0)}
		for _, do := range set {
			do(&e)
		}
		b.Handle(e)
	}
	show := func() (string, string, bool) {
		j := b.Jobs([]jobs.Job{running("a")}, nil)[0]
		if j.Call == nil {
			return string(j.Doing), "", false
		}
		return string(j.Doing), j.Call.Text, j.Call.Failed
	}
	want := func(doing, text string, failed bool) {
		t.Helper()
		d, s, f := show()
		assert.Equal(t, []any{doing, text, failed}, []any{d, s, f})
	}
	tell(event.ToolStart, "0", "early")
	want("", "", false) // it has not started: nobody knows it
	tell(event.SubAgentStart, "", "")
	want("", "", false)
	tell(event.ToolStart, "1", "grep_file")
	tell(event.ToolStart, "2", "read_file")
	want("tool", "read_file!", false)
	tell(event.ToolEnd, "2", "read_file")
	want("tool", "grep_file!", false)
	tell(event.ToolEnd, "1", "grep_file", func(e *event.Event) { e.Failed = true })
	want("", "grep_file!", true)
	for n := range 10 * maxCalls {
		tell(event.ToolStart, fmt.Sprint("many ", n), "x")
	}
	assert.Len(t, b.jobs["a"].calls, maxCalls)
}

// TestDoing: what the list of jobs does not know, events tell.
func TestDoing(t *testing.T) {
	b := New()
	b.Handle(event.Event{Type: event.SubAgentStart, ExecutionID: "a"})
	doing := func(j jobs.Job, asks bool) jobs.Doing {
		return b.Jobs([]jobs.Job{j}, map[string]bool{"a": asks})[0].Doing
	}
	waits := jobs.Job{ExecutionID: "a", ParentExecutionID: "p", State: task.Waiting}
	assert.Equal(t, Approval, doing(waits, true))
	assert.Empty(t, doing(waits, false))
	b.Handle(event.Event{Type: event.SubAgentProgress, ExecutionID: "a", Phase: event.PhaseWaiting,
		Text: event.AwaitsServer})
	assert.Equal(t, Server, doing(waits, false))
	waits.Doing = jobs.Awaits
	assert.Equal(t, jobs.Awaits, doing(waits, false))
	assert.Empty(t, doing(jobs.Job{ExecutionID: "a", State: task.Queued}, false))
}

// TestBatch: the counts of a batch are those of its own tasks.
func TestBatch(t *testing.T) {
	b := New()
	assert.Nil(t, b.Batch())
	b.Handle(event.Event{Type: event.BatchStart, BatchID: "b", Count: 9, TS: time.Unix(5, 0)})
	b.Handle(event.Event{Type: event.BatchStart, BatchID: "call", Agent: "default", ExecutionID: "a", Count: 2})
	end := func(typ event.Type, batch, parent string, s task.Status, cached bool) {
		b.Handle(event.Event{Type: typ, BatchID: batch, ParentExecutionID: parent, ExecutionID: "x", Status: s,
			Cached: cached, Usage: &task.Usage{InputTokens: 3}})
	}
	end(event.SubAgentComplete, "b", "", task.Completed, false)
	end(event.SubAgentComplete, "b", "", task.Completed, true)
	end(event.SubAgentComplete, "call", "a", task.Completed, false)
	end(event.SubAgentError, "b", "", task.Timeout, false)
	end(event.SubAgentError, "b", "", task.Cancelled, false)
	want := &Batch{ID: "b", Started: time.Unix(5, 0), Total: 9, Done: 4, Failed: 1, Cancelled: 1, Cached: 1}
	assert.Equal(t, want, b.Batch())
	for range 2 * maxEnded {
		end(event.SubAgentComplete, "b", "", task.Completed, false)
	}
	assert.Len(t, b.Ended(), maxEnded)
	assert.Equal(t, 3, b.Ended()[0].Usage.InputTokens)
}

// TestText: of the turn that a model writes, the end is kept.
func TestText(t *testing.T) {
	b := New()
	token := func(text string) { b.Handle(event.Event{Type: event.Token, ExecutionID: "a", Text: text}) }
	token("nobody has started")
	b.Handle(event.Event{Type: event.SubAgentStart, ExecutionID: "a"})
	token("one ")
	token("two")
	assert.Equal(t, "one two", b.Text("a"))
	token(strings.Repeat("é", maxText))
	assert.Len(t, b.Text("a"), maxText)
	assert.True(t, strings.HasPrefix(b.Text("a"), "é"), "it begins with a whole character")
	b.Handle(event.Event{Type: event.SubAgentProgress, ExecutionID: "a", Phase: event.PhaseModel})
	assert.Empty(t, b.Text("a"))
	b.Handle(event.Event{Type: event.SubAgentError, ExecutionID: "a"})
	assert.Empty(t, b.jobs)
	assert.Empty(t, b.Text("a"))
}

// TestAnyEvents: whatever events come in whatever order, jobs that have ended are forgotten.
func TestAnyEvents(t *testing.T) {
	types := []event.Type{event.SubAgentStart, event.SubAgentProgress, event.SubAgentComplete, event.SubAgentError,
		event.ToolStart, event.ToolEnd, event.Token, event.BatchStart, event.BatchComplete, event.ValidationRequired}
	rapid.Check(t, func(t *rapid.T) {
		b, live := New(), map[string]bool{}
		for range rapid.IntRange(0, 200).Draw(t, "events") {
			e := event.Event{Type: rapid.SampledFrom(types).Draw(t, "type"),
				ExecutionID: rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "id"),
				CallID:      rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "call"), Tool: "x", Text: "y"}
			b.Handle(e)
			switch e.Type {
			case event.SubAgentStart:
				live[e.ExecutionID] = e.ExecutionID != ""
			case event.SubAgentComplete, event.SubAgentError:
				live[e.ExecutionID] = false
			}
		}
		for id, is := range live {
			assert.Equal(t, is, b.jobs[id] != nil, id)
		}
		list := b.Jobs([]jobs.Job{running("a"), running("b"), running("unknown")}, nil)
		assert.Len(t, list, 3)
	})
}
