package plans

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func described(id string) []byte { return []byte(id) }

func TestKeep(t *testing.T) {
	home := t.TempDir()
	_, ok := Of(home, "b1")
	assert.False(t, ok)
	require.NoError(t, Keep(home, "b1", described("one")))
	require.NoError(t, Keep(home, "b1", described("again")))
	d, ok := Of(home, "b1")
	require.True(t, ok)
	assert.Equal(t, "again", string(d))
	info, err := os.Stat(path(home, "b1"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	for _, id := range []string{"", "../b1", "a/b", ".x"} {
		require.NoError(t, Keep(home, id, described("x")))
		_, ok = Of(home, id)
		assert.False(t, ok, id)
	}
	Remove(home, "b1")
	assert.Empty(t, IDs(home))
}

func TestOnlyTheNewestAreKept(t *testing.T) {
	home := t.TempDir()
	for i := range maxKept + 3 {
		require.NoError(t, Keep(home, fmt.Sprintf("b%04d", i), described("x")))
	}
	all := IDs(home)
	assert.Len(t, all, maxKept)
	assert.Equal(t, "b0003", all[0])
}

// What is no plan, or would make a reader wait, is none.
func TestOfStrangers(t *testing.T) {
	home := t.TempDir()
	require.NoError(t, os.Mkdir(folder(home), 0o700))
	require.NoError(t, syscall.Mkfifo(path(home, "fifo"), 0o600))
	require.NoError(t, os.Mkdir(path(home, "folder"), 0o700))
	require.NoError(t, os.WriteFile(path(home, "large"), make([]byte, maxSize+1), 0o600))
	for _, id := range []string{"fifo", "folder", "large"} {
		_, ok := Of(home, id)
		assert.False(t, ok, id)
	}
}
