package app

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBarredFolder: no model sends an agent to a folder where its commands could write what programs obey, nor to one
// of secrets or of qq itself, also not by a link. An ordinary folder works.
func TestBarredFolder(t *testing.T) {
	const made = "made-by-a-child"
	w, _ := newServedWorld(t, obedient)
	write := called("run_pty_cmd", map[string]any{"command": "touch " + made})
	git := exec.Command("git", "init", "-q", w.dir)
	git.Env = w.env
	require.NoError(t, git.Run())
	settings := open(t, filepath.Join(w.dir, ".git", "config"))
	_, err := settings.Seek(0, 2)
	require.NoError(t, err)
	_, err = settings.WriteString("[core]\n\thooksPath = tools/hooks\n")
	require.NoError(t, err)
	for _, dir := range []string{
		".git/hooks", ".github/workflows", ".vscode", ".claude/agents", ".qq/agents", "sub/.git/hooks", ".ssh/keys",
		"state/qq/trust", "tools/hooks", "src/api", "proj.git/hooks", "proj.git/objects", "proj.git/refs",
		".config/autostart",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(w.dir, dir), 0o700))
	}
	w.file("proj.git/HEAD", "ref: refs/heads/main\n")
	require.NoError(t, os.Symlink(".git/hooks", filepath.Join(w.dir, "link")))
	require.NoError(t, os.Symlink("src", filepath.Join(w.dir, "plain")))
	w.set("QQ_HOME=" + filepath.Join(w.dir, "state", "qq"))
	send := func(call, dir string) string {
		args := map[string]any{"task": write, "agent": "worker", "working_dir": dir}
		switch call {
		case "run_parallel_tasks":
			args = map[string]any{"tasks": []any{args}}
		case "spawn_agent":
			args = map[string]any{"instructions": write, "working_dir": dir}
		}
		w.run("-a", "worker", "--auto-approve", called(call, args))
		return strings.Join(w.toolResults(), "\n")
	}
	for _, call := range []string{"delegate_task", "run_parallel_tasks", "spawn_agent"} {
		for dir, want := range map[string]string{
			".git": "belongs to git", ".git/hooks": "belongs to git", "sub/.git/hooks": "belongs to git",
			"link": "belongs to git", ".github/workflows": "is obeyed by other programs",
			".vscode": "is obeyed by other programs", ".claude/agents": "is an agent definition",
			".qq": "is obeyed by other programs", ".ssh/keys": "is a folder of secrets",
			".ssh": "is a folder of secrets", "state/qq/trust": "is one of qq's own files",
			"tools": "would expose tools/hooks", "tools/hooks": "would expose tools/hooks",
			"proj.git/hooks": "would expose proj.git", ".config/autostart": "is started at login",
		} {
			assert.Contains(t, send(call, dir), want, "%s %s", call, dir)
			assert.NoFileExists(t, filepath.Join(w.dir, dir, made), "%s %s", call, dir)
		}
		for _, dir := range []string{"src/api", "plain"} {
			assert.NotContains(t, send(call, dir), "no agent is sent there")
			assert.FileExists(t, filepath.Join(w.dir, dir, made), "%s %s", call, dir)
			require.NoError(t, os.Remove(filepath.Join(w.dir, dir, made)))
		}
	}

	line, err := json.Marshal(map[string]any{"task": write, "agent": "worker", "working_dir": ".vscode"})
	require.NoError(t, err)
	w.file("tasks.jsonl", string(line)+"\n")
	e := w.run("batch", "-q", "--auto-approve", "tasks.jsonl")
	require.Zero(t, e.code, e.errors)
	assert.FileExists(t, filepath.Join(w.dir, ".vscode", made), "a person wrote that")
}
