package placeholder

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func listing(t *testing.T, dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestHold(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".env"), []byte("x"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, ".vs"), 0o755))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, ".qq")))
	names := []string{".env", ".vs", ".qq", ".a", ".b", ".git"}
	first := Hold(dir, names, ".git")
	a, git := filepath.Join(dir, ".a"), filepath.Join(dir, ".git")
	assert.Equal(t, []string{a, filepath.Join(dir, ".b"), git}, first.Paths)
	for path, kind := range map[string]fs.FileMode{a: fs.ModeDir, git: fs.ModeSocket} {
		info, err := os.Lstat(path)
		require.NoError(t, err)
		assert.Equal(t, kind|fs.ModeSticky, info.Mode()&(fs.ModeType|fs.ModeSticky))
		assert.True(t, Is(path, info))
	}
	_, err := os.Open(git)
	assert.ErrorIs(t, err, syscall.ENXIO)

	second := Hold(dir, names, ".git")
	assert.Equal(t, first.Paths, second.Paths)
	first.Release()
	assert.Equal(t, []string{".a", ".b", ".env", ".git", ".qq", ".vs"}, listing(t, dir), "the second one uses them")
	require.NoError(t, os.WriteFile(filepath.Join(a, "f"), nil, 0o600))
	second.Release()
	assert.Equal(t, []string{".a", ".env", ".qq", ".vs"}, listing(t, dir), "what has a file stays")
	info, err := os.Lstat(a)
	require.NoError(t, err)
	assert.Zero(t, info.Mode()&fs.ModeSticky, "as a folder like others")
	Held{}.Release()
}

// A process that was killed leaves its placeholders; the next one removes them, and none that is in use.
func TestLeftBehind(t *testing.T) {
	dir := t.TempDir()
	names := []string{".a", ".s", ".plain", ".gone"}
	for _, name := range []string{".a", ".mine"} {
		require.NoError(t, syscall.Mkdir(filepath.Join(dir, name), 0o755|syscall.S_ISVTX))
	}
	require.NoError(t, syscall.Mknod(filepath.Join(dir, ".s"), syscall.S_IFSOCK|syscall.S_ISVTX|0o644, 0))
	require.NoError(t, os.Mkdir(filepath.Join(dir, ".plain"), 0o755))
	held := Hold(dir, []string{".a"}, "")
	assert.Len(t, held.Paths, 1)
	assert.False(t, Sweep(dir, names))
	assert.Equal(t, []string{".a", ".mine", ".plain", ".s"}, listing(t, dir))
	held.Release()
	assert.Equal(t, []string{".mine", ".plain", ".s"}, listing(t, dir))
	assert.True(t, Sweep(dir, names))
	assert.Equal(t, []string{".mine", ".plain"}, listing(t, dir))
}

// A program that keeps the folder locked does not keep placeholders from being made.
func TestLocked(t *testing.T) {
	dir := t.TempDir()
	other, err := os.Open(dir)
	require.NoError(t, err)
	defer other.Close()
	require.NoError(t, syscall.Flock(int(other.Fd()), syscall.LOCK_EX))
	held := Hold(dir, []string{".a"}, "")
	assert.Len(t, held.Paths, 1)
	held.Release()
	assert.Equal(t, []string{".a"}, listing(t, dir))
	require.NoError(t, syscall.Flock(int(other.Fd()), syscall.LOCK_UN))
	Hold(dir, []string{".a"}, "").Release()
	assert.Empty(t, listing(t, dir))

	require.NoError(t, syscall.Flock(int(other.Fd()), syscall.LOCK_EX))
	began := time.Now()
	held = Hold(dir, []string{".a", ".git"}, ".git")
	assert.Less(t, time.Since(began), 700*time.Millisecond, "each command waits that long")
	assert.Len(t, held.Paths, 2)
	require.NoError(t, syscall.Flock(int(other.Fd()), syscall.LOCK_UN))
	held.Release()
	assert.Empty(t, listing(t, dir), "by then it is free")
}

// A folder that is moved meanwhile keeps no placeholders, and what has its old name keeps its own.
func TestMoved(t *testing.T) {
	top := t.TempDir()
	dir, moved := filepath.Join(top, "sub"), filepath.Join(top, "old")
	require.NoError(t, os.Mkdir(dir, 0o755))
	held := Hold(dir, []string{".a", ".b", ".git"}, ".git")
	assert.Len(t, held.Paths, 3)
	require.NoError(t, os.Rename(dir, moved))
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, syscall.Mkdir(filepath.Join(dir, ".a"), 0o755|syscall.S_ISVTX))
	require.NoError(t, os.WriteFile(filepath.Join(moved, ".b", "f"), nil, 0o600))
	held.Release()
	assert.Equal(t, []string{".b"}, listing(t, moved))
	info, err := os.Lstat(filepath.Join(moved, ".b"))
	require.NoError(t, err)
	assert.Zero(t, info.Mode()&fs.ModeSticky)
	assert.Equal(t, []string{".a"}, listing(t, dir))
}

func TestNoPlace(t *testing.T) {
	assert.Empty(t, Hold(filepath.Join(t.TempDir(), "gone"), []string{".a"}, ""))
	assert.True(t, Sweep(filepath.Join(t.TempDir(), "gone"), []string{".a"}))
}

// Users that come and go at the same time always have what they hold, and leave nothing.
func TestManyAtOnce(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				held := Hold(dir, []string{".a", ".b", ".git"}, ".git")
				assert.Len(t, held.Paths, 3)
				for _, p := range held.Paths {
					_, err := os.Lstat(p)
					assert.NoError(t, err)
				}
				held.Release()
			}
		})
	}
	wg.Wait()
	assert.Empty(t, listing(t, dir))
}
