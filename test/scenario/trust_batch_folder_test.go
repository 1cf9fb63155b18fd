package scenario

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBatchFolderMoved: a batch with folders of its own is continued after all of it was moved. No task runs again.
func TestBatchFolderMoved(t *testing.T) {
	b := newNight(t, 0, "echo1")
	tasks, log := "", filepath.Join(b.dir, "log")
	for i := range 6 {
		dir := fmt.Sprintf("sub%d", i%2)
		require.NoError(t, os.MkdirAll(filepath.Join(b.work, dir), 0o777))
		tasks += fmt.Sprintf(`{"task":"Say %d.","working_dir":%q}`+"\n", i, dir)
	}
	b.file("tasks.jsonl", tasks)
	e := b.qq("batch", "--no-bar", "--joblog", log, "tasks.jsonl")
	require.Zero(t, e.code, e.stderr)
	asked := b.s.Count("/api/chat")
	moved := b.work + "-moved"
	require.NoError(t, os.Rename(b.work, moved))
	b.work = moved
	e = b.qq("batch", "--no-bar", "--joblog", log, "tasks.jsonl", "--resume")
	assert.Zero(t, e.code, e.stderr)
	assert.Equal(t, asked, b.s.Count("/api/chat"), "nothing runs again")
}

// TestBatchFolderSwapped: an agent of a batch cannot lead a later task out of its folder, by a link in its place.
func TestBatchFolderSwapped(t *testing.T) {
	outside := t.TempDir()
	task := func(command, dir string) string {
		step, err := json.Marshal(map[string]any{
			"tool": "run_pty_cmd", "times": 1, "arguments": map[string]string{"command": command},
		})
		require.NoError(t, err)
		return fmt.Sprintf(`{"task":%q,"agent":"worker","working_dir":%q}`+"\n", step, dir)
	}
	b := newNight(t, 0, "script")
	for _, dir := range []string{"sub", "real"} {
		require.NoError(t, os.Mkdir(filepath.Join(b.work, dir), 0o777))
	}
	require.NoError(t, os.Symlink("real", filepath.Join(b.work, "link")))
	b.file("tasks.jsonl", task("rmdir sub; ln -s "+outside+" sub", ".")+task("echo x > written", "sub")+
		task("echo x > written", "link"))
	e := b.qq("batch", "--no-bar", "--auto-approve", "-j", "1", "tasks.jsonl")
	assert.NotZero(t, e.code, e.stderr)
	assert.NoFileExists(t, filepath.Join(outside, "written"))
	assert.FileExists(t, filepath.Join(b.work, "real", "written"), "a link that was there is followed")
}
