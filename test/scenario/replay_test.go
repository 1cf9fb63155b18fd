package scenario

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestReplayOfKilled: a task whose child was killed during a command is given to a model again. The command has no
// recorded result: that ends the replay, and it is not run.
func TestReplayOfKilled(t *testing.T) {
	b := newNight(t, 0, "script")
	step, err := json.Marshal(map[string]any{
		"tool": "run_pty_cmd", "times": 1, "arguments": map[string]string{"command": "echo > ready; sleep 600"},
	})
	require.NoError(t, err)
	text, err := json.Marshal(map[string]string{"task": string(step), "agent": "worker"})
	require.NoError(t, err)
	b.file("tasks.jsonl", string(text))
	q := b.start("", "batch", "--no-bar", "--retries", "0", "--auto-approve", "tasks.jsonl")
	ready := filepath.Join(b.work, "ready")
	b.until(runTimeout, "the command runs", func() bool { _, err := os.Stat(ready); return err == nil })
	require.NoError(t, syscall.Kill(b.child(q.cmd.Process.Pid), syscall.SIGKILL))
	q.wait()
	require.NoError(t, os.Remove(ready))
	runs := b.runs("list", "--agent", "worker")
	require.Len(t, runs, 1)

	before := b.qq("runs", "list", "--json").stdout
	e := b.qq("runs", "replay", runs[0].ID, "--auto-approve", "--json")
	assert.Equal(t, 2, e.code, "it takes no permission: %s", e.stderr)
	e = b.qq("runs", "replay", runs[0].ID, "--json")
	assert.Equal(t, 1, e.code, e.stderr)
	var doc struct {
		Replays []struct {
			A, B struct{ Status, Error, Model string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(e.stdout), &doc), e.stdout)
	require.Len(t, doc.Replays, 1)
	assert.Equal(t, "unknown_outcome", doc.Replays[0].A.Status)
	assert.Equal(t, "not_recorded", doc.Replays[0].B.Status)
	assert.Contains(t, doc.Replays[0].B.Error, "the record does not have this call: run_pty_cmd echo > ready; sleep 600")
	assert.NoFileExists(t, ready)
	assert.Equal(t, before, b.qq("runs", "list", "--json").stdout, "a replay is no run")
	assert.Contains(t, b.qq("runs", "stats").stdout, "1 unknown_outcome")
}
