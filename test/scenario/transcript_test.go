package scenario

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTranscriptOfKilled: after SIGKILL of the root, or of the child alone, the transcript of a task has all that was
// said, with the call that was at work.
func TestTranscriptOfKilled(t *testing.T) {
	step, err := json.Marshal(map[string]any{
		"tool": "run_pty_cmd", "times": 1, "arguments": map[string]string{"command": "echo > ready; sleep 600"},
	})
	require.NoError(t, err)
	task, err := json.Marshal(map[string]string{"task": string(step), "agent": "worker"})
	require.NoError(t, err)
	for who, want := range map[string]string{"root": "status: interrupted\n", "child": "status: unknown_outcome: child was killed by signal 9 (killed)"} {
		t.Run(who, func(t *testing.T) {
			b := newNight(t, 0, "script")
			b.file("tasks.jsonl", string(task))
			q := b.start("", "batch", "--no-bar", "--retries", "0", "--auto-approve", "tasks.jsonl")
			b.until(runTimeout, "the command runs", func() bool {
				_, err := os.Stat(filepath.Join(b.work, "ready"))
				return err == nil
			})
			victim := q.cmd.Process.Pid
			if who == "child" {
				victim = b.child(victim)
			}
			require.NoError(t, syscall.Kill(victim, syscall.SIGKILL))
			q.wait()
			var runs []struct {
				ID string `json:"id"`
			}
			require.NoError(t, json.Unmarshal([]byte(b.qq("runs", "list", "--agent", "worker", "--json").stdout), &runs))
			require.Len(t, runs, 1)
			log := b.qq("runs", "show", runs[0].ID, "--log").stdout
			assert.Contains(t, log, "── user, ")
			assert.Contains(t, log, "→ run_pty_cmd echo > ready; sleep 600\n")
			assert.Contains(t, log, want)
		})
	}
}

// child returns the process id of the only child process of a root that has the control pipes of a child.
func (w *world) child(root int) int {
	w.t.Helper()
	for _, pid := range w.processes() {
		args, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if err == nil && pid != root && len(args) > 0 && bytes.Contains(args, []byte("--new-session")) {
			return pid
		}
	}
	w.t.Fatal("no child process")
	return 0
}

// TestTranscriptOfRetried: the transcript of a task whose first child was killed says so.
func TestTranscriptOfRetried(t *testing.T) {
	b := newNight(t, 0, "slow2000")
	b.file("tasks.txt", "say something\n")
	q := b.start("", "batch", "--no-bar", "tasks.txt")
	b.asked(1)
	require.NoError(t, syscall.Kill(b.child(q.cmd.Process.Pid), syscall.SIGKILL))
	e := q.wait()
	require.Equal(t, 0, e.code)
	runs := b.runs("list", "--agent", "default")
	require.Len(t, runs, 1)
	log := b.qq("runs", "show", runs[0].ID, "--log").stdout
	assert.Contains(t, log, "\n── attempt 1 ended: killed: child was killed by signal 9 (killed), attempt 2 begins\n")
	assert.Contains(t, log, "\nstatus: completed\n")
}

// TestTranscriptOfKilledPrompt: the log of a prompt that was killed has nothing of a later run that continues its
// session.
func TestTranscriptOfKilledPrompt(t *testing.T) {
	b := newNight(t, 0, "hang")
	q := b.start("", "the first question")
	b.asked(1)
	require.NoError(t, q.cmd.Process.Kill())
	q.wait()
	e := b.qq("--model", "ollama:fast", "--continue", "the second question")
	require.Equal(t, 0, e.code)
	runs := b.runs("list")
	require.Len(t, runs, 2)
	first, second := b.qq("runs", "show", runs[1].ID, "--log").stdout, b.qq("runs", "show", runs[0].ID, "--log").stdout
	assert.Contains(t, first, "the first question")
	assert.NotContains(t, first, "the second question")
	assert.Contains(t, second, "the second question")
	assert.NotContains(t, second, "the first question")
}
