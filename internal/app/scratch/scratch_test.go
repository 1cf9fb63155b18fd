package scratch

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/task"
)

// TestScratch: the folder is private, made once and late, and removed; what a
// process that was killed left behind goes with the next one, and nobody else's.
func TestScratch(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	s := &Folder{Dir: dir}
	assert.NoDirExists(t, dir)
	left := filepath.Join(dir, "1-left")
	unlocked, dead := filepath.Join(dir, fmt.Sprintf(".new-%d-1", os.Getpid())), filepath.Join(dir, ".new-1-3")
	killed := filepath.Join(dir, ".new-99999999-2") // no process has such an id
	for _, d := range []string{left, unlocked, dead, killed} {
		require.NoError(t, os.MkdirAll(d, 0o700))
	}
	require.NoError(t, os.Chtimes(dead, time.Time{}, time.Now().Add(-time.Hour)))
	stopper, err := os.Open(dir) // a program that can only read locks what it can
	require.NoError(t, err)
	defer stopper.Close()
	require.NoError(t, syscall.Flock(int(stopper.Fd()), syscall.LOCK_EX))
	other := &Folder{Dir: dir}
	theirs, err := other.Path()
	require.NoError(t, err)
	assert.NoDirExists(t, left)
	assert.NoDirExists(t, dead)
	assert.NoDirExists(t, killed)
	require.DirExists(t, unlocked)
	require.NoError(t, os.Remove(unlocked))

	own, err := s.Path()
	require.NoError(t, err)
	again, err := s.Path()
	require.NoError(t, err)
	assert.Equal(t, own, again)
	assert.DirExists(t, theirs)
	info, err := os.Stat(own)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	require.NoError(t, s.Remove())
	require.NoError(t, s.Remove())
	require.NoError(t, other.Remove())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, entries)
}

// TestClosedToOwner: folders that a command closed to their owner go with the others, and links in them lead nowhere.
func TestClosedToOwner(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may remove anything")
	}
	outside := t.TempDir()
	require.NoError(t, os.Chmod(outside, 0o500))
	f := &Folder{Dir: filepath.Join(t.TempDir(), "run")}
	close := func() string {
		temp, err := f.MakeTemp("abc")
		require.NoError(t, err)
		deep := filepath.Join(temp, "a", "b")
		require.NoError(t, os.MkdirAll(deep, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(deep, "f"), nil, 0o600))
		require.NoError(t, os.Symlink(outside, filepath.Join(temp, "a", "link")))
		for _, dir := range []string{deep, filepath.Dir(deep), temp} {
			require.NoError(t, os.Chmod(dir, 0))
		}
		return temp
	}
	temp := close()
	f.RemoveTemp("abc")
	assert.NoDirExists(t, temp)
	close()
	own := f.Made()
	require.NoError(t, f.Remove())
	assert.NoDirExists(t, own)
	info, err := os.Stat(outside)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o500), info.Mode().Perm())

	_, err = f.MakeTemp("abc")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(f.Dir, 0o500))
	defer func() { _ = os.Chmod(f.Dir, 0o700) }()
	assert.ErrorIs(t, f.Remove(), os.ErrPermission, "what stays is said")
}

// TestPlaceholders: what commands left in working directories goes with the folder, or with that of a later root if
// another program keeps a working directory locked until then.
func TestPlaceholders(t *testing.T) {
	runs, free, busy := t.TempDir(), t.TempDir(), t.TempDir()
	f := &Folder{Dir: runs}
	own, err := f.Path()
	require.NoError(t, err)
	for _, dir := range []string{free, busy} {
		require.NoError(t, syscall.Mkdir(filepath.Join(dir, ".vscode"), 0o755|syscall.S_ISVTX))
	}
	require.NoError(t, os.WriteFile(Placeholders(own), []byte(busy+"\x00"+free+"\x00"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(own, "a.tmp"), 0o700))
	stopper, err := os.Open(busy)
	require.NoError(t, err)
	defer stopper.Close()
	require.NoError(t, syscall.Flock(int(stopper.Fd()), syscall.LOCK_EX))
	require.NoError(t, f.Remove())
	assert.NoDirExists(t, filepath.Join(free, ".vscode"))
	assert.DirExists(t, filepath.Join(busy, ".vscode"))
	assert.FileExists(t, Placeholders(own))
	assert.NoDirExists(t, filepath.Join(own, "a.tmp"))

	require.NoError(t, syscall.Flock(int(stopper.Fd()), syscall.LOCK_UN))
	next := &Folder{Dir: runs}
	_, err = next.Path()
	require.NoError(t, err)
	require.NoError(t, next.Remove())
	assert.NoDirExists(t, filepath.Join(busy, ".vscode"))
	assert.NoDirExists(t, own)
}

func TestScratchHasNoPlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := (&Folder{Dir: filepath.Join(file, "run")}).Path()
	require.ErrorIs(t, err, syscall.ENOTDIR)
	assert.Contains(t, err.Error(), "\nhint: QQ_HOME names a folder that you may write to")
}

// TestSpill: results come back as they were, in any order, and a batch that puts
// none needs no file.
func TestSpill(t *testing.T) {
	folder := &Folder{Dir: t.TempDir()}
	defer folder.Remove()
	s := &Spill{In: folder}
	assert.Empty(t, folder.Made())
	var keys []int64
	var put []task.Result
	for _, text := range []string{"one", "two\nlines", "", "no text: \xff\x00"} {
		r := task.Task{Text: text}.Ended(task.Failed, text)
		r.Task, r.Error = "a task", nil // they are text
		r.Output = text
		r.Unrecorded, r.Effects = text == "one", text == "one"
		key, err := s.Put(r)
		require.NoError(t, err)
		put, keys = append(put, r), append(keys, key)
	}
	for _, i := range []int{2, 0, 3, 1} {
		r, err := s.Take(keys[i])
		require.NoError(t, err)
		assert.Equal(t, put[i], r)
	}
	files, err := filepath.Glob(filepath.Join(folder.Made(), "spill-*"))
	require.NoError(t, err)
	assert.Len(t, files, 1)
	s.Close()
	(&Spill{}).Close()
}

// TestPrune: what is old goes, and nothing else.
func TestPrune(t *testing.T) {
	home := t.TempDir()
	gone, err := KeptIn(home).Prune(0)
	require.NoError(t, err, "nothing was kept yet")
	assert.Empty(t, gone)
	require.NoError(t, os.MkdirAll(filepath.Join(string(KeptIn(home)), "folder"), 0o700))
	old, fresh := filepath.Join(string(KeptIn(home)), "old.txt"), filepath.Join(string(KeptIn(home)), "fresh.txt")
	for _, f := range []string{old, fresh} {
		require.NoError(t, os.WriteFile(f, nil, 0o600))
	}
	then := time.Now().Add(-48 * time.Hour)
	require.NoError(t, os.Chtimes(old, then, then))
	gone, err = KeptIn(home).Prune(24 * time.Hour)
	require.NoError(t, err)
	assert.Equal(t, []string{old}, gone)
	assert.FileExists(t, fresh)
	assert.NoFileExists(t, old)
}
