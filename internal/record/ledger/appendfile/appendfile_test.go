package appendfile

import (
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// create makes a file with one line in it.
func create(t *testing.T) (f *File, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file")
	f, err := Create(path)
	require.NoError(t, err)
	_, err = f.Append([]byte("one\n"))
	require.NoError(t, err)
	return f, path
}

// swap replaces the open file, and returns a function that puts it back.
func (a *File) swap(t *testing.T, by string) (back func()) {
	t.Helper()
	file := a.file
	other, err := os.Open(by)
	require.NoError(t, err)
	a.file = other
	return func() {
		require.NoError(t, other.Close())
		a.file = file
	}
}

func text(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

// TestNotSynced: a line is not said to be durable when the disk does not say so, not even
// when a later one is.
func TestNotSynced(t *testing.T) {
	f, path := create(t)
	back := f.swap(t, os.DevNull) // which cannot be synced
	require.Error(t, f.Sync(4))
	back()
	end, err := f.Append([]byte("two\n"))
	require.NoError(t, err, "it need not be durable")
	require.Error(t, f.Sync(end))
	require.Error(t, f.Sync(4))
	assert.Equal(t, "one\ntwo\n", text(t, path))
	require.NoError(t, f.Close())
}

// TestTornLine: what a full disk cut off is not joined with what comes next.
func TestTornLine(t *testing.T) {
	f, path := create(t)
	_, err := f.file.WriteString("two, but cut o")
	require.NoError(t, err)
	f.torn = true
	end, err := f.Append([]byte("three\n"))
	require.NoError(t, err)
	assert.Equal(t, int64(len("one\nthree\n")), end)
	assert.Equal(t, "one\nthree\n", text(t, path))
	require.NoError(t, f.Close())
}

// TestGone: what is written while the file has lost its name is not said to be kept.
func TestGone(t *testing.T) {
	f, path := create(t)
	away := path + ".away"
	require.NoError(t, os.Rename(path, away))
	_, err := f.Append([]byte("two\n"))
	require.EqualError(t, err, path+" is gone")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err = f.Append([]byte("two\n"))
	require.EqualError(t, err, path+" is gone", "it is another file")
	require.NoError(t, os.Rename(away, path))
	_, err = f.Append([]byte("two\n"))
	require.NoError(t, err)
	assert.Equal(t, "one\ntwo\n", text(t, path))
	require.NoError(t, f.Close())
}

// TestSyncsAreShared: those that wait for the disk do not each sync it.
func TestSyncsAreShared(t *testing.T) {
	f, path := create(t)
	f.syncing.Lock() // somebody syncs
	var hands sync.WaitGroup
	for range 8 {
		hands.Go(func() {
			end, err := f.Append([]byte("more\n"))
			assert.NoError(t, err)
			assert.NoError(t, f.Sync(end))
		})
	}
	for f.size.Load() < int64(len("one\n")+8*len("more\n")) {
		runtime.Gosched()
	}
	back := f.swap(t, os.DevNull) // which cannot be synced: nobody may try
	f.synced = f.size.Load()
	f.syncing.Unlock()
	hands.Wait()
	back()
	assert.Len(t, text(t, path), len("one\n")+8*len("more\n"))
	require.NoError(t, f.Close())
}
