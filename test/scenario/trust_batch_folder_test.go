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
