package app

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
)

// TestPlannerRepairsTwice: a planner that wants to repair a third time may not, and reads why. Its tests, and whom it
// asks to look, do not count.
func TestPlannerRepairsTwice(t *testing.T) {
	handOut := func(round int) string {
		name := fmt.Sprint("made", round)
		text, err := json.Marshal(map[string]any{"tasks": []map[string]any{
			{"id": "a", "agent": "coder", "task": `write_file {"path":"` + name + `","content":"x"}`, "targets": name},
			{"agent": "executor", "task": commandTask("exit 1"), "needs": "a"},
		}})
		require.NoError(t, err)
		return "run_parallel_tasks " + string(text) + "\n"
	}
	look := `delegate_task {"task":"list_files {}","agent":"explorer"}` + "\n"
	w, _ := newServedWorld(t, standin.Reply(callTools))
	e := w.run("-a", "planner", "--auto-approve", "-m", look+handOut(0)+look+handOut(1)+handOut(2)+look+handOut(3))
	assert.Zero(t, e.code, e.errors)
	for round, want := range []bool{true, true, true, false} {
		assert.Equal(t, want, w.content(fmt.Sprint("made", round)) == "x", "%d: %s", round, e.out)
	}
	assert.Contains(t, e.out, "it has repaired as often as it may (max_repairs of planner)")
	assert.Contains(t, e.out, "say in the answer what is left")
}
