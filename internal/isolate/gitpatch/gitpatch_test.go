package gitpatch_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qq/internal/isolate/gitpatch"
)

// put makes the file of a blob below dir, or removes it.
func put(t require.TestingT, dir, path string, b gitpatch.Blob) {
	full := filepath.Join(dir, path)
	require.NoError(t, os.RemoveAll(full))
	switch {
	case b.Mode == 0:
		return
	case b.Mode.Type() == fs.ModeSymlink:
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o700))
		require.NoError(t, os.Symlink(string(b.Data), full))
	default:
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o700))
		require.NoError(t, os.WriteFile(full, b.Data, b.Mode.Perm()))
	}
}

// TestWriteAgainstGit: git applies the patch, and then has the new files.
func TestWriteAgainstGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	top := t.TempDir()
	names := []string{"a", "dir/with space", "dir/tab\tline\n", `quo"te\`, "not\xffutf8", "ünicode", "z/trailing "}
	rapid.Check(t, func(t *rapid.T) {
		blob := rapid.Custom(func(t *rapid.T) gitpatch.Blob {
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				return gitpatch.Blob{}
			case 1:
				target := rapid.StringMatching(`[a-z./]{1,9}`).Draw(t, "target")
				return gitpatch.Blob{Mode: fs.ModeSymlink | 0o777, Data: []byte(target)}
			case 2:
				bytes := rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(t, "bytes")
				return gitpatch.Blob{Mode: 0o644, Data: append(bytes, 0)}
			}
			mode := rapid.SampledFrom([]fs.FileMode{0o644, 0o755}).Draw(t, "mode")
			lines := rapid.SliceOfN(rapid.SampledFrom([]string{"a\n", "b\n", "\xff\n", "cr\r\n", "\n", "end"}), 0, 9)
			return gitpatch.Blob{Mode: mode, Data: []byte(strings.Join(lines.Draw(t, "lines"), ""))}
		})
		dir, err := os.MkdirTemp(top, "")
		require.NoError(t, err)
		want, err := os.MkdirTemp(top, "")
		require.NoError(t, err)
		var changes []gitpatch.Change
		for _, name := range names[:rapid.IntRange(1, len(names)).Draw(t, "names")] {
			c := gitpatch.Change{Path: name, Old: blob.Draw(t, "old"), New: blob.Draw(t, "new")}
			changes = append(changes, c)
			put(t, dir, name, c.Old)
			put(t, want, name, c.New)
		}
		var patch bytes.Buffer
		patch.WriteString("What the task changed.\n\n")
		require.NoError(t, gitpatch.Write(&patch, changes))
		if bytes.Contains(patch.Bytes(), []byte("diff --git")) {
			cmd := exec.Command("git", "apply", "--whitespace=nowarn", "-")
			cmd.Dir, cmd.Stdin = dir, bytes.NewReader(patch.Bytes())
			cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+top)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s\n%s", out, patch.String())
		}
		for _, c := range changes {
			is, err := os.Lstat(filepath.Join(dir, c.Path))
			if c.New.Mode == 0 {
				assert.ErrorIs(t, err, fs.ErrNotExist)
				continue
			}
			require.NoError(t, err)
			assert.Equal(t, c.New.Mode.Type(), is.Mode().Type())
			if is.Mode().IsRegular() {
				data, err := os.ReadFile(filepath.Join(dir, c.Path))
				require.NoError(t, err)
				assert.Equal(t, string(c.New.Data), string(data))
				assert.Equal(t, c.New.Mode.Perm()&0o100, is.Mode().Perm()&0o100)
			} else {
				target, err := os.Readlink(filepath.Join(dir, c.Path))
				require.NoError(t, err)
				assert.Equal(t, string(c.New.Data), target)
			}
		}
	})
}
