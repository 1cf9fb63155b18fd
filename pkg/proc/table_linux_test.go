package proc

import (
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParentIn(t *testing.T) {
	for stat, want := range map[string]string{
		"12 (sh) S 7 12 12 0":              "7",
		"12 (a) S 99 (b) Z 7 12 12 0":      "7",
		"12 (new\nline and blank) R 1 2 3": "1",
	} {
		got, ok := parentIn([]byte(stat))
		assert.True(t, ok, stat)
		assert.Equal(t, want, got, stat)
	}
	for _, stat := range []string{"", ")", "12 (sh) S"} {
		_, ok := parentIn([]byte(stat))
		assert.False(t, ok, stat)
	}
}

func TestExitingIn(t *testing.T) {
	for stat, want := range map[string]bool{
		"12 (a) Z) Z 7 12 12 0 -1 4227084 0": true, "12 (sh) S 7 12 12 0 -1 4194304 386": false,
		"12 (sh) R 7 12 12 0 -1 4": true, "12 (sh) S 7 12 12 0 -1": false, "12 (sh) S 7 12 12 0 -1 x": false, "": false,
	} {
		assert.Equal(t, want, exitingIn([]byte(stat)), stat)
	}
}

func TestIDsIn(t *testing.T) {
	ids, err := idsIn("Name:\tNSpid: 3\nPid:\t7\nNSpid:\t700\t7\t1\nNSpgid:\t1\n")
	require.NoError(t, err)
	assert.Equal(t, []string{"700", "7", "1"}, ids)
	for _, status := range []string{"", "Pid:\t7\n", "\nNSpid:", "\nNSpid:\t\nPid:\t1\n"} {
		_, err := idsIn(status)
		require.Error(t, err, status)
	}
}

func TestHasEntry(t *testing.T) {
	environ := []byte("A=1\x00B=22\x00LAST=x\x00")
	for entry, want := range map[string]bool{
		"A=1": true, "B=22": true, "LAST=x": true, "B=2": false, "=22": false, "": true, "C=1": false,
	} {
		assert.Equal(t, want, hasEntry(environ, []byte(entry)), entry)
	}
	assert.False(t, hasEntry(nil, []byte("A=1")))
}

// The list of the kernel and the scan agree.
func TestScan(t *testing.T) {
	h := hostBehind(t, group)
	s := enter(t, h, helper("hang"))
	s.hear(t)
	assert.Contains(t, h.table.scan(), strconv.Itoa(s.PID()))
	assert.True(t, slices.ContainsFunc(h.table.children(true), func(c child) bool { return c.pid == s.PID() }))
	assert.NotContains(t, h.table.scan(), strconv.Itoa(os.Getpid()))
}

// FuzzStatus: a program chooses its own name, which is in both files.
func FuzzStatus(f *testing.F) {
	f.Add("12 (sh) S 7 12 12 0", "sh")
	f.Add("12 (a) S", "\nNSpid:\t1")
	f.Fuzz(func(t *testing.T, stat, name string) {
		parentIn([]byte(stat))
		exitingIn([]byte(stat))
		_, _ = idsIn(stat)
		parent, ok := parentIn([]byte("12 (" + name + ") S 7 12 12 0"))
		assert.True(t, ok)
		assert.Equal(t, "7", parent)
	})
}
