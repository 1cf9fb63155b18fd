package narrator

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"qq/pkg/event"
	"qq/pkg/task"
)

func TestNarrator(t *testing.T) {
	var b strings.Builder
	n := New(&b, false)
	n.Event(event.Event{Type: event.Token, Text: "never"})
	n.Event(event.Event{Type: event.ToolEnd, Tool: "grep"})
	n.Event(event.Event{Type: event.ToolStart, Agent: "default", Tool: "run_pty_cmd", Arguments: `{}`,
		Text: "run_pty_cmd ls && \x1b"})
	n.Event(event.Event{Type: event.SubAgentComplete, Agent: "reader", ExecutionID: "0123456789", Depth: 1,
		ParentExecutionID: "p", DurationMS: 1250})
	New(&b, true).Event(event.Event{Type: event.SubAgentError, Agent: "reader", Status: task.Timeout,
		BatchID: "b", Error: "slow"})
	for _, typ := range []event.Type{event.SubAgentStart, event.SubAgentComplete, event.SubAgentError} {
		n.Event(event.Event{Type: typ, Agent: "default", ExecutionID: "p", Error: "it is reported anyway"})
	}
	n.Event(event.Event{Type: event.SubAgentProgress, Phase: event.PhaseModel, Total: 25})
	b.WriteString("…\n")
	n.Event(event.Event{Type: event.SubAgentProgress, BatchID: "b", Agent: "reader", ExecutionID: "0123456789",
		Depth: 1, Attempt: 2, Text: "child 23456789 was killed by signal 9: attempt 2 in 0.5 s"})
	const again = "…\n  [reader 23456789] child 23456789 was killed by signal 9: attempt 2 in 0.5 s\n"
	assert.Equal(t, "[default] run_pty_cmd ls && \n  [reader 23456789] done in 1.2s\n\x1b[2m[reader] timeout: "+
		"slow\x1b[0m\n"+again, b.String())
}
