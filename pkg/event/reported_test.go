package event

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/task"
	"qq/pkg/tool"
)

// full is an event in which every field is set.
func full(typ Type) Event {
	code := 1
	return Event{
		V: 9, Seq: 9, Type: typ, TraceID: "t", ExecutionID: "e", ParentExecutionID: "p", BatchID: "b",
		CallID: "c", Agent: "liar", Depth: 9, Task: "task", Phase: PhaseTools, Done: 1, Total: 2, Text: "text",
		Model: "m", Attempt: 3, Cached: true, Tool: "tool", Arguments: "{}", Failed: true, Status: task.Completed,
		ExitCode: &code,
		Error:    "err", Usage: &task.Usage{InputTokens: 1}, DurationMS: 4, Count: 5, Tasks: []string{"a"},
		Summary: "sum", Result: &task.Result{}, FailedTasks: 6, QuestionID: "q", Chain: []string{"x"},
		Operation: "op", Risk: tool.High,
		Intent: &tool.Intent{}, Decision: "once",
	}
}

// An agent reports its calls, its text and its progress, and about each of them no more than
// belongs to it.
func TestReported(t *testing.T) {
	want := map[Type]Event{
		ToolStart: {CallID: "c", Tool: "tool", Arguments: "{}", Text: "text"},
		ToolEnd:   {CallID: "c", Tool: "tool", Failed: true, Error: "err", DurationMS: 4},
		Token:     {Text: "text"},
		SubAgentProgress: {Phase: PhaseTools, Done: 1, Total: 2, Text: "text", Model: "m", Attempt: 3, DurationMS: 4,
			Tasks: []string{"a"}},
	}
	for _, typ := range append(types(), "other") {
		e, ok := Reported(full(typ))
		w, known := want[typ]
		assert.Equal(t, known, ok, typ)
		if w.Type = typ; known {
			assert.Equal(t, w, e)
		}
	}
	e, _ := Reported(Event{Type: SubAgentProgress, Phase: "dancing", Total: 5, Tasks: []string{"x"}})
	assert.Equal(t, Event{Type: SubAgentProgress}, e, "an unknown phase is none")
	e, _ = Reported(Event{Type: ToolStart, CallID: "no id"})
	assert.Empty(t, e.CallID)
}

func FuzzReported(f *testing.F) {
	for _, typ := range types() {
		line, _ := json.Marshal(full(typ))
		f.Add(line)
	}
	f.Add([]byte(`{"type":"sub_agent_progress","phase":"delegating","total":-1,"done":99999999999,"tasks":["\n","` +
		strings.Repeat("ü", 5000) + `"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var given Event
		if json.Unmarshal(data, &given) != nil {
			return
		}
		e, ok := Reported(given)
		if !ok {
			return
		}
		line, err := json.Marshal(e)
		require.NoError(t, err)
		require.Less(t, len(line), 6*(maxText+maxTasks*500), "it is bounded, even when all of it is escaped")
		require.True(t, e.Done >= 0 && e.Total >= 0 && e.Done <= maxCount && e.Total <= maxCount)
		require.Empty(t, e.ExecutionID+e.BatchID+e.Agent+e.Decision+e.Summary)
		for _, text := range e.Tasks {
			require.NotContains(t, text, "\n")
			require.LessOrEqual(t, utf8.RuneCountInString(text), 120)
		}
	})
}

// The end of a job has the beginning of its output, on one line.
func TestSummary(t *testing.T) {
	assert.Equal(t, "one two", Summary("one\n\ttwo\n"))
	assert.Len(t, []rune(Summary(strings.Repeat("wörd ", 100_000))), 500)
	assert.True(t, strings.HasSuffix(Summary(strings.Repeat("x", 501)), "..."))
	assert.Empty(t, Summary(" \n"))
}

// OfRoot is true for the root's own agent alone.
func TestOfRoot(t *testing.T) {
	assert.True(t, Start(task.Job{ExecutionID: "r"}).OfRoot())
	assert.False(t, Start(task.Job{ExecutionID: "e", Parent: "r"}).OfRoot())
	assert.False(t, Start(task.Job{ExecutionID: "e", BatchID: "b"}).OfRoot(), "a task of a batch has no parent")
	assert.False(t, Start(task.Job{ExecutionID: "e", Parent: "r", Group: "g"}).OfRoot())
	assert.Equal(t, "g", Start(task.Job{Group: "g"}).BatchID)
}
