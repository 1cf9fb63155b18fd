package npm

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fake is a test that notes how it was ended.
type fake struct {
	testing.TB
	how string
}

func (f *fake) Helper()               {}
func (f *fake) Skip(...any)           { f.how = "skipped"; panic(f) }
func (f *fake) Fatalf(string, ...any) { f.how = "failed"; panic(f) }

// ended returns how a test ends that asks for the program name.
func ended(name string) (how, path, env string) {
	f := &fake{how: "runs"}
	defer func() {
		if r := recover(); r != nil && r != any(f) {
			panic(r)
		}
		how = f.how
	}()
	path, env = Program(f, name)
	return
}

func TestMissing(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bin", "there"), nil, 0o700))
	for _, c := range []struct{ reach, folder, required, name, want string }{
		{"", dir, "1", "there", "skipped"},
		{"1", "", "", "there", "skipped"},
		{"1", "", "1", "there", "failed"},
		{"1", dir, "", "there", "runs"},
		{"1", dir, "", "missing", "failed"},
	} {
		t.Setenv(ReachVar, c.reach)
		t.Setenv(FolderVar, c.folder)
		t.Setenv(RequiredVar, c.required)
		how, path, env := ended(c.name)
		assert.Equal(t, c.want, how, "%+v", c)
		if how == "runs" {
			assert.Equal(t, filepath.Join(dir, "bin", "there"), path)
			assert.Contains(t, env, "PATH="+filepath.Join(dir, "bin")+":")
		}
	}
}

// TestPrograms: each program that is installed can be started.
func TestPrograms(t *testing.T) {
	for _, name := range []string{
		"node", "conformance", "conformance-next", "acpx", "claude", "codex", "gemini", "opencode", "qwen",
	} {
		t.Run(name, func(t *testing.T) {
			path, env := Program(t, name)
			cmd := exec.Command(path, "--version")
			cmd.Dir = t.TempDir()
			cmd.Env = []string{env, "HOME=" + cmd.Dir}
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			assert.Regexp(t, `\d+\.\d+\.\d+`, string(out))
		})
	}
}
