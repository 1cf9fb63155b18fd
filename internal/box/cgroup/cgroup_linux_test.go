package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// inGroup runs text with sh in g.
func inGroup(t *testing.T, g *Group, text string) (out string, err error) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", `for fd in "$@"; do eval "echo 0 >&$fd"; done; `+text, "sh")
	for i, f := range g.Tasks {
		cmd.ExtraFiles, cmd.Args = append(cmd.ExtraFiles, f), append(cmd.Args, fmt.Sprint(3+i))
	}
	if g.Folder != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(g.Folder.Fd())}
	}
	said, err := cmd.CombinedOutput()
	return string(said), err
}

func found(t *testing.T) Parents {
	t.Helper()
	p := Find()
	t.Logf("%+v", p)
	if p.Memory == "" || p.Processes == "" {
		t.Skip("this system has no cgroups in which this user can limit memory and processes")
	}
	return p
}

func TestLimits(t *testing.T) {
	p := found(t)
	g, err := p.Make(Limits{Memory: 64 << 20, Processes: 30})
	require.NoError(t, err)
	out, err := inGroup(t, g, "head -c 300000000 /dev/zero | tail -n 1 | wc -c; echo $?")
	require.NoError(t, err, out)
	killed, refused := g.Exceeded()
	assert.Equal(t, []int{1, 0}, []int{killed, refused}, out)
	out, _ = inGroup(t, g, "for i in $(seq 60); do sleep 0.2 & done; echo all; wait")
	assert.NotContains(t, out, "all\n")
	_, refused = g.Exceeded()
	assert.Positive(t, refused)
	g.Remove()
	assertNone(t, p, os.Getpid())
}

// A process that left its command is ended with the group.
func TestRemoveKills(t *testing.T) {
	p := found(t)
	g, err := p.Make(Limits{Processes: 30})
	require.NoError(t, err)
	out, err := inGroup(t, g, "setsid sleep 60 > /dev/null 2>&1 & echo $!")
	require.NoError(t, err, out)
	g.Remove()
	stat, err := os.ReadFile("/proc/" + strings.TrimSpace(out) + "/stat")
	assert.True(t, errors.Is(err, fs.ErrNotExist) || strings.Contains(string(stat), ") Z "), "%s", stat)
	assertNone(t, p, os.Getpid())
}

// What a process that was killed left behind is removed, and nothing else.
func TestLeftBehind(t *testing.T) {
	p := found(t)
	ended := exec.Command("/bin/true")
	require.NoError(t, ended.Run())
	names := map[string]bool{fmt.Sprintf("%s%d-1", prefix, ended.Process.Pid): false,
		fmt.Sprintf("%s%d-77", prefix, os.Getpid()): true, prefix + "x": true}
	for name := range names {
		require.NoError(t, os.Mkdir(filepath.Join(p.Processes, name), 0o755))
		defer os.Remove(filepath.Join(p.Processes, name))
	}
	Find()
	for name, stays := range names {
		_, err := os.Lstat(filepath.Join(p.Processes, name))
		assert.Equal(t, stays, err == nil, name)
	}
}

func TestNothingToLimit(t *testing.T) {
	g, err := Parents{}.Make(Limits{Memory: 1, Processes: 1})
	assert.True(t, g == nil && err == nil)
	g, err = Parents{Memory: "/x", Processes: "/x"}.Make(Limits{})
	assert.True(t, g == nil && err == nil)
	_, err = Parents{Memory: filepath.Join(t.TempDir(), "gone")}.Make(Limits{Memory: 1})
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

// TestParents: groups of version 2 are made where limits are handed down.
func TestParents(t *testing.T) {
	top := t.TempDir()
	own := filepath.Join(top, "slice", "scope")
	require.NoError(t, os.MkdirAll(own, 0o755))
	write := func(dir, file, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
	}
	h := hierarchy{own: own, top: top}
	assert.Equal(t, Parents{}, h.parents())
	for _, dir := range []string{top, filepath.Dir(own), own} {
		write(dir, "cgroup.subtree_control", "cpu\n")
		write(dir, "cgroup.procs", "")
	}
	assert.Equal(t, Parents{}, h.parents())
	write(filepath.Dir(own), "cgroup.subtree_control", "cpu memory pids\n")
	assert.Equal(t, Parents{Memory: filepath.Dir(own), Processes: filepath.Dir(own), V2: true}, h.parents())
	write(own, "cgroup.subtree_control", "pids")
	assert.Equal(t, Parents{Processes: own, V2: true}, h.parents())
}

func assertNone(t *testing.T, p Parents, pid int) {
	for _, dir := range p.folders() {
		left, err := filepath.Glob(filepath.Join(dir, fmt.Sprintf("%s%d-*", prefix, pid)))
		require.NoError(t, err)
		assert.Empty(t, left)
	}
}
