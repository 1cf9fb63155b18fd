package undo

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qq/internal/tools/store"
	"qq/pkg/task"
)

// world is a folder with files, and a book.
type world struct {
	*testing.T
	home, dir string
	book      *Book
	root      *os.Root
	keeper    *Keeper
	ctx       context.Context // of the file tools
}

// begin makes a folder with files and begins an answer in it, with one agent.
func begin(t *testing.T, files map[string]string) *world {
	t.Helper()
	w := &world{T: t, home: t.TempDir(), dir: t.TempDir()}
	for name, content := range files {
		w.write(name, content)
	}
	var err error
	w.root, err = os.OpenRoot(w.dir)
	require.NoError(t, err)
	t.Cleanup(func() { w.root.Close() })
	w.book, err = For(w.home, "conversation")
	require.NoError(t, err)
	require.NoError(t, w.book.Begin(t.Context(), w.dir))
	w.ctx, w.keeper = w.agent()
	return w
}

// agent returns the context of the tools of one more agent.
func (w *world) agent() (context.Context, *Keeper) {
	w.Helper()
	path := w.book.Journal(w.dir)
	require.NotEmpty(w, path)
	k, err := Open(path)
	require.NoError(w, err)
	w.Cleanup(k.Close)
	return store.WithKeeper(w.Context(), k), k
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) write(name, content string) {
	w.Helper()
	require.NoError(w, os.MkdirAll(filepath.Dir(w.path(name)), 0o755))
	require.NoError(w, os.WriteFile(w.path(name), []byte(content), 0o644))
}

func (w *world) read(name string) string {
	content, err := os.ReadFile(w.path(name))
	if err != nil {
		return "none"
	}
	return string(content)
}

// edit, create and remove change a file as tools do.
func (w *world) edit(name, content string) {
	w.Helper()
	require.NoError(w, store.Replace(w.ctx, w.root, name, func([]byte) ([]byte, error) { return []byte(content), nil }))
}

func (w *world) create(name, content string) {
	w.Helper()
	require.NoError(w, store.Create(w.ctx, w.root, name, []byte(content), 0o644))
}

func (w *world) remove(name string) {
	w.Helper()
	require.NoError(w, store.Remove(w.ctx, w.root, name, nil))
}

// end ends the answer.
func (w *world) end(r task.Result) {
	w.Helper()
	require.NoError(w, w.book.End(w.Context(), r))
}

// undo looks, undoes, and checks that both say the same.
func (w *world) undo() Report {
	w.Helper()
	looked, err := w.book.Look(w.Context())
	require.NoError(w, err)
	r, err := w.book.Undo(w.Context())
	require.NoError(w, err)
	assert.Equal(w, looked, r, "Look says what Undo does")
	again, err := w.book.Undo(w.Context())
	require.NoError(w, err)
	assert.Equal(w, r, again, "Undo can be called again")
	return r
}

func TestUndo(t *testing.T) {
	w := begin(t, map[string]string{"a": "a1", "b": "b1", "c": "c1", "d/e": "e1", "same": "s1"})
	require.NoError(t, os.Chmod(w.path("b"), 0o755))
	w.edit("a", "a2")
	w.edit("a", "a3")
	w.remove("b")
	w.create("b", "b2")
	w.remove("c")
	w.edit("d/e", "e2")
	w.remove("d/e")
	w.create("new/deep/f", "f1")
	w.create("new/g", "g1")
	w.edit("new/g", "g2")
	w.create("gone", "x")
	w.remove("gone")
	w.edit("same", "s2")
	w.edit("same", "s1")
	w.end(task.Result{ChangedFiles: []string{"a", "b", "c", "d/e", "new/deep/f", "new/g"}})
	r := w.undo()
	assert.Equal(t, Report{Undone: []string{"a", "b", "c", "d/e", "gone", "new/deep/f", "new/g", "same"}}, r)
	for name, want := range map[string]string{
		"a": "a1", "b": "b1", "c": "c1", "d/e": "e1", "same": "s1", "gone": "none",
	} {
		assert.Equal(t, want, w.read(name), name)
	}
	info, err := os.Stat(w.path("b"))
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o755), info.Mode())
	assert.NoDirExists(t, w.path("new"))
	assert.Contains(t, strings.Join(r.Lines(), "\n"), "undone: a\n")
}

// TestSeveralAgents: changes of several agents to one file are one story.
func TestSeveralAgents(t *testing.T) {
	w := begin(t, map[string]string{"a": "1"})
	first := w.ctx
	w.edit("a", "2")
	w.ctx, _ = w.agent()
	w.edit("a", "3")
	w.ctx = first
	w.edit("a", "4")
	w.end(task.Result{})
	assert.Equal(t, []string{"a"}, w.undo().Undone)
	assert.Equal(t, "1", w.read("a"))
}

// TestNotUndone: what is not as a tool left it stays, and is listed.
func TestNotUndone(t *testing.T) {
	w := begin(t, map[string]string{"since": "1", "between": "1", "gone": "1", "link": "1", "folder": "1",
		"command": "1", "touched": "1", "moved/a": "1", "reverted": "1", "large": strings.Repeat("x", maxFile+1),
		"unkept": "1", "ro": "1"})
	for _, name := range []string{"since", "between", "gone", "link", "folder", "moved/a", "reverted", "large", "ro"} {
		w.edit(name, "2")
	}
	w.create("made", "1")
	w.create("dir/full", "1")
	w.write("between", "of a command")
	w.edit("between", "3")
	w.write("command", "2")
	w.write("unkept", "2")
	w.end(task.Result{ChangedFiles: []string{"since", "unkept"}, Did: &task.Did{Commands: []task.Command{{}, {}}}})
	w.write("since", "of a person")
	require.NoError(t, os.Remove(w.path("gone")))
	require.NoError(t, os.Remove(w.path("link")))
	require.NoError(t, os.Symlink("since", w.path("link")))
	require.NoError(t, os.Remove(w.path("folder")))
	require.NoError(t, os.MkdirAll(w.path("folder/x"), 0o700))
	require.NoError(t, os.RemoveAll(w.path("moved")))
	out := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(out, "a"), []byte("2"), 0o600))
	require.NoError(t, os.Symlink(out, w.path("moved")))
	w.write("made", "of a person")
	w.write("dir/other", "of a person")
	w.write("reverted", "1")
	require.NoError(t, os.Chmod(w.path("ro"), 0o444))
	r := w.undo()
	assert.Equal(t, []string{"dir/full", "reverted"}, r.Undone)
	whys := map[string]string{}
	for _, l := range r.Left {
		whys[l.Path] = l.Why
	}
	assert.Equal(t, map[string]string{"since": Since, "between": Between, "gone": Since, "large": TooBig,
		"link":    Since + ": link is not a regular file",
		"folder":  Since + ": folder is not a regular file",
		"moved/a": Since + ": open moved: moved: not a directory",
		"ro":      Since + ": ro is read-only: its permissions do not allow to change it",
		"made":    Since, "unkept": Unkept, "command": Other}, whys)
	assert.Equal(t, []string{"2 commands were run: what they did outside of the folder is not known"}, r.Notes)
	for name, want := range map[string]string{
		"since": "of a person", "between": "3", "command": "2", "made": "of a person",
		"dir/other": "of a person", "dir/full": "none",
	} {
		assert.Equal(t, want, w.read(name), name)
	}
	content, err := os.ReadFile(filepath.Join(out, "a"))
	require.NoError(t, err)
	assert.Equal(t, "2", string(content), "no link leads out")
}

// TestKilled: a process that was killed between a record and its change, or in a record, does no harm; nor does a root
// that was killed before the end of the answer.
func TestKilled(t *testing.T) {
	w := begin(t, map[string]string{"a": "1", "b": "1", "c": "1", "d": "1"})
	w.edit("a", "2")
	w.keeper.Keep(store.Change{Path: "a", Old: []byte("2"), New: []byte("3")}) // not made
	w.keeper.Keep(store.Change{Path: "b", Old: []byte("1"), New: []byte("2")}) // not made
	w.keeper.Keep(store.Change{Path: "c", Old: []byte("1"), New: []byte("2")}) // not made
	w.edit("c", "3")
	w.edit("d", "2")
	path := w.keeper.file.Name()
	info, err := os.Stat(path)
	require.NoError(t, err)
	w.edit("d", "3")
	require.NoError(t, os.Truncate(path, info.Size()+20)) // in the middle of the last record
	w.book, err = For(w.home, "of the next process")
	require.NoError(t, err)
	_, err = w.book.Undo(t.Context())
	require.ErrorIs(t, err, ErrNothing)
	require.NoError(t, w.book.Open("conversation"))
	r := w.undo()
	assert.Equal(t, []string{"a", "b", "c"}, r.Undone)
	assert.Equal(t, []Left{{"d", Since}}, r.Left)
	assert.Equal(t, []string{"the answer was broken off: what commands changed is not known"}, r.Notes)
	for _, name := range []string{"a", "b", "c"} {
		assert.Equal(t, "1", w.read(name), name)
	}
}

// TestFailedChange: a change that was not made is no part of the story.
func TestFailedChange(t *testing.T) {
	w := begin(t, map[string]string{"a": "1"})
	ctx, cancel := context.WithCancel(w.ctx)
	err := store.Replace(ctx, w.root, "a", func([]byte) ([]byte, error) { cancel(); return []byte("2"), nil })
	require.Error(t, err)
	w.edit("a", "3")
	require.NoError(t, os.Chmod(w.dir, 0o500))
	_ = store.Remove(w.ctx, w.root, "a", nil) // fails, but for the superuser
	require.NoError(t, os.Chmod(w.dir, 0o700))
	w.end(task.Result{})
	assert.Equal(t, []string{"a"}, w.undo().Undone)
	assert.Equal(t, "1", w.read("a"))
}

// TestFullDisk: what cannot be kept is changed all the same, and listed.
func TestFullDisk(t *testing.T) {
	w := begin(t, map[string]string{"a": "1", "b": "1", "c": "1"})
	w.edit("a", "2")
	old := w.keeper.file
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	w.keeper.file = full
	w.edit("b", "2")
	full.Close()
	w.keeper.file, w.keeper.broken = old, false
	w.edit("c", "2")
	w.end(task.Result{ChangedFiles: []string{"a", "b", "c"}})
	r := w.undo()
	assert.Equal(t, []string{"a", "c"}, r.Undone)
	assert.Equal(t, []Left{{"b", Unkept}}, r.Left)
	assert.Equal(t, "2", w.read("b"))
}

// TestFullDiskAtEnd: without room for what is known at the end, the answer counts as broken off.
func TestFullDiskAtEnd(t *testing.T) {
	w := begin(t, map[string]string{"a": "1"})
	w.edit("a", "2")
	beside := filepath.Join(w.book.folder, endFile+".new")
	require.NoError(t, os.Symlink("/dev/full", beside))
	require.ErrorIs(t, w.book.End(t.Context(), task.Result{ChangedFiles: []string{"a"}}), unix.ENOSPC)
	require.NoFileExists(t, beside)
	r := w.undo()
	assert.Equal(t, []string{"a"}, r.Undone)
	assert.Equal(t, []string{"the answer was broken off: what commands changed is not known"}, r.Notes)
}

// TestBounded: an answer that changes very much keeps no more than maxAnswer.
func TestBounded(t *testing.T) {
	w := begin(t, map[string]string{"a": "1", "b": "1"})
	require.NoError(t, os.WriteFile(filepath.Join(w.book.folder, "9"+suffix), nil, 0o600))
	require.NoError(t, os.Truncate(filepath.Join(w.book.folder, "9"+suffix), maxAnswer))
	w.edit("a", "2")
	require.NoError(t, os.Truncate(filepath.Join(w.book.folder, "9"+suffix), 2*maxAnswer))
	before, err := w.keeper.file.Stat()
	require.NoError(t, err)
	w.edit("b", "2")
	after, err := w.keeper.file.Stat()
	require.NoError(t, err)
	assert.Equal(t, before.Size(), after.Size(), "not even that it was changed")
	w.end(task.Result{ChangedFiles: []string{"a", "b"}})
	r := w.undo()
	assert.Empty(t, r.Undone)
	assert.Equal(t, []Left{{"a", Unkept}, {"b", Unkept}}, r.Left)
}

// TestHostileJournal: a journal that a child has forged leads nowhere but to files in its folder.
func TestHostileJournal(t *testing.T) {
	w := begin(t, map[string]string{"a": "1"})
	out := filepath.Join(t.TempDir(), "canary")
	require.NoError(t, os.WriteFile(out, []byte("2"), 0o600))
	rel, err := filepath.Rel(w.dir, out)
	require.NoError(t, err)
	path := w.keeper.file.Name()
	for _, forged := range []string{rel, out, "../x", ".", "a/../a", "/etc/passwd"} {
		k, err := Open(path)
		require.NoError(t, err)
		k.Keep(store.Change{Path: forged, Old: []byte("1"), New: []byte("2")})
		k.Close()
		assert.Equal(t, Report{Notes: w.undo().Notes}, w.undo(), "%q", forged)
		require.NoError(t, os.Truncate(path, 0))
	}
	for _, text := range []string{"", "\x00", "{}\n", `{"path":"YQ==","kept":true,"size":-1}` + "\n",
		`{"path":"YQ==","kept":true,"size":99999999999}` + "\n", `{"path":"YQ==","mode":4294967295}` + "\n",
		strings.Repeat("x", 1<<20)} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		assert.Empty(t, w.undo().Undone, "%.40q", text)
	}
	require.NoError(t, os.Remove(path))
	require.NoError(t, unix.Mkfifo(path, 0o600))
	assert.Empty(t, w.undo().Undone)
	content, err := os.ReadFile(out)
	require.NoError(t, err)
	assert.Equal(t, "2", string(content))
	for _, id := range []string{"", ".", "..", "../x", "a/b", "/x"} {
		assert.Error(t, w.book.Open(id), id)
		_, err := For(w.home, id)
		assert.Error(t, err, id)
	}
}

func FuzzJournal(f *testing.F) {
	f.Add([]byte(`{"path":"YQ==","old":"x","new":"y","kept":true,"size":1}` + "\n1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "journal")
		require.NoError(t, os.WriteFile(path, text, 0o600))
		for _, r := range records(path, "/") {
			assert.True(t, filepath.IsLocal(string(r.Path)))
			_, _ = r.content()
		}
	})
}

// TestNextAnswer: only the last answer is kept, and books that nobody uses go.
func TestNextAnswer(t *testing.T) {
	w := begin(t, map[string]string{"a": "1"})
	w.edit("a", "2")
	w.end(task.Result{})
	assert.Empty(t, w.book.Journal(w.dir), "no answer has begun")
	old := filepath.Join(w.home, "undo", "old")
	require.NoError(t, os.MkdirAll(old, 0o700))
	long := time.Now().Add(-stale - time.Hour)
	require.NoError(t, os.Chtimes(old, long, long))
	require.NoError(t, w.book.Begin(t.Context(), w.dir))
	w.ctx, _ = w.agent()
	w.create("b", "1")
	w.end(task.Result{})
	assert.Equal(t, []string{"b"}, w.undo().Undone)
	assert.Equal(t, "2", w.read("a"))
	assert.NoDirExists(t, old)
	err := filepath.WalkDir(filepath.Join(w.home, "undo"), func(_ string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := e.Info()
		require.NoError(t, err)
		assert.Zero(t, info.Mode().Perm()&0o077, e.Name())
		return nil
	})
	require.NoError(t, err)
	var none *Book
	assert.Empty(t, none.Journal(w.dir))
	none.Join(w.dir, []string{"a"}).Done()
	_, err = none.Undo(t.Context())
	assert.ErrorIs(t, err, ErrNothing)
	require.NoError(t, w.book.Open("other"))
	_, err = w.book.Undo(t.Context())
	assert.ErrorIs(t, err, ErrNothing)
	require.NoError(t, w.book.Open("conversation"))
	require.NoError(t, w.book.Remove())
	assert.NoDirExists(t, filepath.Join(w.home, "undo/conversation"))
}

// TestJoin: what a join changed is undone.
func TestJoin(t *testing.T) {
	w := begin(t, map[string]string{"a": "1", "b": "1", "same": "1"})
	j := w.book.Join(w.dir, []string{"a", "b", "same", "new/c"})
	w.write("a", "2")
	require.NoError(t, os.Remove(w.path("b")))
	w.write("new/c", "1")
	j.Done()
	w.edit("a", "3")
	w.end(task.Result{ChangedFiles: []string{"a", "b", "new/c"}})
	assert.Equal(t, Report{Undone: []string{"a", "b", "new/c"}}, w.undo())
	assert.Equal(t, "1", w.read("a"))
	assert.Equal(t, "1", w.read("b"))
	assert.NoDirExists(t, w.path("new"))
}
