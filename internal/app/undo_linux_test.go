package app

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/command"
	"qq/internal/approval"
	"qq/internal/standin"
	"qq/internal/undo"
	"qq/pkg/task"
)

// callTask is a line for callTools.
func callTask(tool string, args map[string]string) string {
	text, _ := json.Marshal(args)
	return tool + " " + string(text)
}

// TestUndoAnswer: what the agent of a conversation and its children changed with file tools is undone, each in a
// process and a sandbox of its own; what commands changed is listed. With copies it is the same.
func TestUndoAnswer(t *testing.T) {
	for _, mode := range []string{"off", "overlay", "worktree"} {
		t.Run(mode, func(t *testing.T) { undoAnswer(t, mode) })
	}
}

// withBook is a wiring whose tasks are those of callTools, and which keeps what they change.
func withBook(t *testing.T, mode string) (*wiring, *undo.Book) {
	var book *undo.Book
	w, _ := served(t, func(c *wiringConfig) {
		var err error
		book, err = undo.For(c.Settings.Home, "conversation")
		require.NoError(t, err)
		c.Undo, c.Policy = book, approval.Policy{Mode: approval.Auto}
		c.Environ = command.Environment{"PATH=" + os.Getenv("PATH"), "HOME=" + c.Settings.Home}
		c.Settings.MaxChildren, c.Settings.MaxOutput, c.Settings.Isolate = 10, 50_000, mode
	}, standin.Reply(callTools))
	return w, book
}

func undoAnswer(t *testing.T, mode string) {
	w, book := withBook(t, mode)
	write := func(name, content string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(w.cfg.Dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(w.cfg.Dir, name), []byte(content), 0o640))
	}
	files := map[string]string{"a.txt": "one\n", "sub/b.txt": "two\n", "both.txt": "1\n", "gone.txt": "gone\n",
		"theirs.txt": "x\n", "cmd.txt": "c\n"}
	for name, content := range files {
		write(name, content)
	}
	edit := func(path, from, to string) string {
		return callTask("edit_file", map[string]string{"path": path, "old_text": from, "new_text": to})
	}
	child := strings.Join([]string{edit("sub/b.txt", "two", "2"), edit("both.txt", "2", "3"),
		callTask("create_file", map[string]string{"path": "made/by/child.txt", "content": "new\n"}),
		edit("theirs.txt", "x", "y")}, "\n")
	text := strings.Join([]string{edit("a.txt", "one", "1"), edit("a.txt", "1", "I"), edit("both.txt", "1", "2"),
		callTask("delete_file", map[string]string{"path": "gone.txt"}),
		delegateTask(child),
		commandTask("echo d > cmd.txt; echo made > cmd2.txt")}, "\n")

	if mode == "worktree" {
		out, err := exec.Command("git", "-C", w.cfg.Dir, "init", "-q").CombinedOutput()
		require.NoError(t, err, string(out))
		out, err = exec.Command("git", "-C", w.cfg.Dir, "-c", "user.name=n", "-c", "user.email=n@localhost",
			"commit", "-q", "--allow-empty", "-m", "first").CombinedOutput()
		require.NoError(t, err, string(out))
	}
	require.NoError(t, book.Begin(t.Context(), w.cfg.Dir))
	def, m, err := w.Staff(t.Context(), task.Task{Agent: "coder"})
	require.NoError(t, err)
	seen := &messages{}
	one := zeroRun{Agent: def, Model: m, Transcript: seen}
	r, err := w.Run(t.Context(), one, task.Task{Text: text})
	require.NoError(t, err)
	require.Equal(t, task.Completed, r.Status, r.Err()+r.Output)
	require.NoError(t, book.End(t.Context(), r))
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(w.cfg.Dir, name))
		if err != nil {
			return "none"
		}
		return string(content)
	}
	for name, want := range map[string]string{"a.txt": "I\n", "sub/b.txt": "2\n", "both.txt": "3\n",
		"gone.txt": "none", "made/by/child.txt": "new\n", "cmd.txt": "d\n", "theirs.txt": "y\n"} {
		require.Equal(t, want, read(name), "%s: %+v", name, *seen)
	}

	write("theirs.txt", "of a person\n")
	report, err := book.Undo(t.Context())
	require.NoError(t, err)
	assert.Equal(t, undo.Report{
		Undone: []string{"a.txt", "both.txt", "gone.txt", "made/by/child.txt", "sub/b.txt"},
		Left: []undo.Left{{Path: "theirs.txt", Why: undo.Since}, {Path: "cmd.txt", Why: undo.Other},
			{Path: "cmd2.txt", Why: undo.Other}},
		Notes: []string{"a command was run: what it did outside of the folder is not known"},
	}, report)
	files["theirs.txt"], files["cmd.txt"] = "of a person\n", "d\n"
	for name, want := range files {
		assert.Equal(t, want, read(name), name)
		info, err := os.Stat(filepath.Join(w.cfg.Dir, name))
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o640), info.Mode(), name)
	}
	assert.NoDirExists(t, filepath.Join(w.cfg.Dir, "made"))

	r, err = w.Run(t.Context(), one, task.Task{Text: edit("a.txt", "one", "1")})
	require.NoError(t, err)
	require.Equal(t, task.Completed, r.Status)
	left, err := filepath.Glob(filepath.Join(w.cfg.Settings.Home, "undo/conversation/*.kept"))
	require.NoError(t, err)
	assert.Len(t, left, 2, "between answers nothing is kept")
}

// TestUndoCancelled: what a child had changed when the answer was cancelled is undone too.
func TestUndoCancelled(t *testing.T) {
	w, book := withBook(t, "off")
	file := filepath.Join(w.cfg.Dir, "a.txt")
	require.NoError(t, os.WriteFile(file, []byte("one\n"), 0o600))
	require.NoError(t, book.Begin(t.Context(), w.cfg.Dir))
	def, m, err := w.Staff(t.Context(), task.Task{Agent: "coder"})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			if content, _ := os.ReadFile(file); string(content) == "two\n" {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	child := callTask("edit_file", map[string]string{"path": "a.txt", "old_text": "one", "new_text": "two"}) + "\n" +
		commandTask("sleep 60")
	r, err := w.Run(ctx, zeroRun{Agent: def, Model: m, Transcript: &messages{}}, task.Task{Text: delegateTask(child)})
	require.NoError(t, err)
	require.Equal(t, task.Interrupted, r.Status)
	require.NoError(t, book.End(t.Context(), r))
	report, err := book.Undo(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"a.txt"}, report.Undone)
	assert.Empty(t, report.Left)
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "one\n", string(content))
}
