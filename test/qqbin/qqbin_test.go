package qqbin

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	endLimit  = 10 * time.Second
	pollEvery = time.Millisecond
)

func TestInstallGiven(t *testing.T) {
	t.Setenv("QQ_BIN", "/bin/true")
	path, err := Install(t.Context(), t.TempDir())
	require.NoError(t, err)
	assert.NoError(t, exec.Command(path).Run())

	t.Setenv("QQ_BIN", filepath.Join(t.TempDir(), "nothing"))
	_, err = Install(t.Context(), t.TempDir())
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.ErrorContains(t, err, "QQ_BIN")
}

func TestBuildError(t *testing.T) {
	err := Build(t.Context(), filepath.Join(t.TempDir(), "x"), ".", "./nothing")
	assert.ErrorContains(t, err, "build ./nothing")
}

// TestProcesses finds a process by its program for as long as it lives; as a
// zombie it lives no longer.
func TestProcesses(t *testing.T) {
	t.Setenv("QQ_BIN", "/bin/cat")
	path, err := Install(t.Context(), t.TempDir())
	require.NoError(t, err)
	pids, err := Processes(path)
	require.NoError(t, err)
	assert.Empty(t, pids)

	cmd := exec.Command(path)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = stdin.Write([]byte("x"))
	require.NoError(t, err)
	_, err = io.ReadFull(stdout, make([]byte, 1)) // so it runs the program
	require.NoError(t, err)
	pids, err = Processes(path)
	require.NoError(t, err)
	assert.Equal(t, []int{cmd.Process.Pid}, pids)

	require.NoError(t, stdin.Close())
	_, err = stdout.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.Eventually(t, func() bool {
		pids, err := Processes(path)
		return err == nil && len(pids) == 0
	}, endLimit, pollEvery, "ended, though nobody has waited for it")
	require.NoError(t, cmd.Wait())
}
