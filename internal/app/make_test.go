package app

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// makes runs make with the Makefile of the project in the folder of w, where bin/qq is this program.
func (w *world) makes(args ...string) string {
	w.t.Helper()
	path, err := exec.LookPath("make")
	if err != nil {
		w.t.Skip("no make")
	}
	file, err := filepath.Abs(filepath.Join("..", "..", "Makefile"))
	require.NoError(w.t, err)
	self, err := os.Executable()
	require.NoError(w.t, err)
	require.NoError(w.t, os.MkdirAll(filepath.Join(w.dir, "bin"), 0o700))
	_ = os.Symlink(self, filepath.Join(w.dir, "bin", "qq")) // it may be there from the call before
	cmd := exec.CommandContext(w.t.Context(), path, append([]string{"-f", file, "-o", "build"}, args...)...)
	cmd.Dir, cmd.Env = w.dir, w.env
	out, err := cmd.CombinedOutput()
	require.NoError(w.t, err, string(out))
	return string(out)
}

// TestMakeRun: make run uses no model, as README.md says, also where Ollama has one.
func TestMakeRun(t *testing.T) {
	assert.Contains(t, newWorld(t).makes("-n", "run"), "qq --model extract ")
}

// TestMakeInstall: make install prints what has to be added for zsh to find the completion, until it is added.
func TestMakeInstall(t *testing.T) {
	w := newWorld(t)
	w.set("SHELL=/usr/bin/zsh", "PATH="+w.home+"/.local/bin:"+os.Getenv("PATH"))
	line := "  echo 'fpath=(\"" + w.home + "/.local/share/zsh/site-functions\" $fpath); " +
		"autoload -Uz compinit && compinit' >> ~/.zshrc\n"
	out := w.makes("install")
	assert.Contains(t, out, "/site-functions is not in fpath of zsh. ")
	assert.Contains(t, out, line)
	assert.NotContains(t, out, "is not in PATH")
	assert.FileExists(t, filepath.Join(w.home, ".local/share/zsh/site-functions/_qq"))
	assert.NotContains(t, w.with("SHELL=/bin/bash").makes("install"), "fpath")
	sh := exec.CommandContext(t.Context(), "sh", "-c", line)
	sh.Env = w.env
	require.NoError(t, sh.Run())
	assert.NotContains(t, w.makes("install"), "fpath")
}
