package scenario

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestTwoChildren: a lead hands out two tasks in one answer and joins what the
// children say. Each child is a process.
func TestTwoChildren(t *testing.T) {
	speakers(t, func(t *testing.T, s speaker) {
		twoChildren := []string{"summarizer depth=1", "summarizer depth=1"}
		t.Run("text", func(t *testing.T) {
			w := s.world(t, scripted)
			w.qq("Do both. [[fan]]").answered(bothDone)
			assert.Equal(t, twoChildren, w.spawned())
		})
		t.Run("json", func(t *testing.T) {
			w := s.world(t, scripted)
			e := w.qq("Do both. [[fan]]", "--json")
			r := e.json()
			assert.Equal(t, 0, e.code, "exit code")
			assert.Equal(t, "Do both. [[fan]]", r.Task)
			assert.Equal(t, "default", r.Agent)
			assert.Equal(t, bothDone, *r.Output)
			assert.Positive(t, r.Usage.InputTokens)
			assert.Positive(t, r.Usage.OutputTokens)
			assert.Equal(t, twoChildren, w.spawned())
		})
	})
}

// TestThreeLevels: a root, a child that delegates, a grandchild. A child that
// waits for its own lends its slot, so one slot is enough.
func TestThreeLevels(t *testing.T) {
	speakers(t, func(t *testing.T, s speaker) {
		for _, slots := range []string{"QQ_MAX_PARALLEL=5", "QQ_MAX_PARALLEL=1"} {
			t.Run(slots, func(t *testing.T) {
				w := s.world(t, scripted, "QQ_MAX_DEPTH=3", slots)
				w.file(".qq/agents/middle.md", `---
name: middle
description: passes a task on
tools: [delegate_task]
role: information-gathering
can_delegate: true
---
You pass your task on to another agent.
`)
				w.qq("Go down. [[top]]").answered(allDone)
				assert.Equal(t, []string{"middle depth=1", "summarizer depth=2"}, w.spawned())
			})
		}
	})
}
