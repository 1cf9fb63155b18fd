package scenario

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ollama/ollama/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFolderReplaced: a folder that was allowed, and that is a link to elsewhere
// when its turn has come, is no working directory any more.
func TestFolderReplaced(t *testing.T) {
	w, m := newWorkShellWorld(t)
	w.env = append(w.env, "QQ_MAX_PARALLEL=1")
	elsewhere := filepath.Join(w.dir, "elsewhere")
	require.NoError(t, os.Mkdir(elsewhere, 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(w.work, "d"), 0o700))
	var answer string
	m.agents["lead"] = workSteps(
		workDo(workCall("run_parallel_tasks", "tasks", []map[string]any{
			{"agent": "executor", "task": "Replace it. [[replace]]"},
			// The process of the next task is started ahead of its turn, and this is it.
			{"agent": "executor", "task": "Wait. [[between]]"},
			{"agent": "executor", "task": "Use it. [[use]]", "working_dir": "d"},
		})),
		func(_ context.Context, k workTalk) api.Message {
			answer = k.last().Content
			return api.Message{Role: "assistant", Content: "Done."}
		})
	m.agents["replace"] = workSteps(workDo(workCall("run_pty_cmd", "command",
		fmt.Sprintf("rmdir d && ln -s %q d && echo replaced", elsewhere))), workText("Replaced."))
	m.agents["between"] = workText("Waited.")
	m.agents["use"] = workSteps(workDo(workCall("run_pty_cmd", "command", "echo x > out")), workText("Used."))
	w.qq("Go. [[lead]]", "--auto-approve").answered("Done.")
	assert.Contains(t, answer, "Replaced.")
	assert.Contains(t, answer, "when the task was allowed, and is "+elsewhere+" now")
	assert.NoFileExists(t, filepath.Join(elsewhere, "out"))
}

// TestFolderOfATask: a command of a task works in the folder of the task, and when that became a link to elsewhere
// between two commands, the second does not run.
func TestFolderOfATask(t *testing.T) {
	w, m := newWorkShellWorld(t)
	elsewhere, d := filepath.Join(w.dir, "elsewhere"), filepath.Join(w.work, "d")
	require.NoError(t, os.Mkdir(elsewhere, 0o700))
	require.NoError(t, os.Mkdir(d, 0o700))
	var answers []string
	m.agents["lead"] = workSteps(
		workDo(workCall("delegate_task", "agent", "executor", "task", "Use it. [[use]]", "working_dir", "d")),
		workText("Done."))
	m.agents["use"] = workSteps(
		workDo(workCall("run_pty_cmd", "command", "pwd; echo x > one")),
		func(_ context.Context, k workTalk) api.Message {
			assert.NoError(t, os.Rename(d, d+".old")) // as a command of the lead could
			assert.NoError(t, os.Symlink(elsewhere, d))
			return workAsk(workCall("run_pty_cmd", "command", "echo x > two"))
		},
		func(_ context.Context, k workTalk) api.Message {
			answers = k.results()
			return api.Message{Role: "assistant", Content: "Used."}
		})
	w.qq("Go. [[lead]]", "--auto-approve").answered("Done.")
	require.Len(t, answers, 2)
	assert.Equal(t, d+"\n[exit code 0]", answers[0])
	assert.NotContains(t, answers[1], "exit code 0")
	assert.FileExists(t, filepath.Join(d+".old", "one"))
	assert.NoFileExists(t, filepath.Join(elsewhere, "two"))
}

// TestSecretFolder: nobody is sent to work in a folder of secrets.
func TestSecretFolder(t *testing.T) {
	m := workPlay(t, map[string]workAgent{})
	w := newWorld(t, m.addr, played)
	w.file(".ssh/keys/deploy", "PRIVATE\n")
	var answers []string
	m.agents["lead"] = workSteps(
		workDo(workCall("delegate_task", "agent", "explorer", "task", "Look. [[look]]", "working_dir", ".ssh/keys")),
		workText("Done."))
	m.agents["look"] = workSteps(
		workDo(workCall("read_file", "path", "deploy"), workCall("grep_file", "pattern", "PRIV")),
		func(_ context.Context, k workTalk) api.Message {
			answers = k.results()
			return api.Message{Role: "assistant", Content: "Looked."}
		})
	e := w.qq("Go. [[lead]]")
	assert.Empty(t, answers)
	assert.Contains(t, e.stderr, `working_dir ".ssh/keys" is a folder of secrets`)
}

// TestRootKilledAtACommand: what the root's own agent started ends with the root,
// even by SIGKILL, in a session of its own and deaf to signals.
func TestRootKilledAtACommand(t *testing.T) {
	w, m := newWorkShellWorld(t)
	sleeper := newWorkSleeper(t)
	m.agents["run"] = workSteps(workDo(workCall("run_pty_cmd", "command",
		fmt.Sprintf("trap '' HUP TERM; S=%s; setsid $S 300 & $S 300; echo late > late", sleeper.path))),
		workText("Done."))
	r := w.start("", "Run. [[run]]", "--auto-approve", "--agent", "executor")
	sleeper.awaitRunning(2)
	require.NoError(t, r.cmd.Process.Signal(syscall.SIGKILL))
	r.wait()
	sleeper.awaitRunning(0)
	assert.NoFileExists(t, filepath.Join(w.work, "late"))
}
