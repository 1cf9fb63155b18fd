package ceiling

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/task"
)

// barred bars one folder.
type barred string

func (b barred) Bars(_, dir string) string {
	if dir == string(b) {
		return "is barred"
	}
	return ""
}

// TestSettle: the real path of the folder counts, also if the folder is inherited and a link was changed meanwhile.
func TestSettle(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	t.Chdir(top)
	for _, dir := range []string{"src", "hooks"} {
		require.NoError(t, os.Mkdir(dir, 0o700))
	}
	require.NoError(t, os.Symlink("hooks", "link"))
	bars := barred(filepath.Join(top, "hooks"))
	root := Ceiling{Folders: bars}
	for dir, want := range map[string]string{
		"src": "", "": "", "hooks": "is barred", "link": "is barred", "no": "is gone",
	} {
		_, why := root.Settle(t.Context(), task.Task{Text: "x", WorkingDir: dir})
		assert.Contains(t, why, want, dir)
		assert.Equal(t, want == "", why == "", dir)
	}
	moved := Ceiling{Folders: bars, Task: task.Task{WorkingDir: "link", Dir: filepath.Join(top, "src")}}
	_, why := moved.Settle(t.Context(), task.Task{Text: "x"})
	assert.Contains(t, why, `working_dir "link" is barred`)
	person := Ceiling{Folders: bars, Task: task.Task{WorkingDir: "hooks", Dir: filepath.Join(top, "hooks")}}
	_, why = person.Settle(t.Context(), task.Task{Text: "x"})
	assert.Empty(t, why, "a person sent the agent there")
}
