package store

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// plant makes a root with files in it.
func plant(t testing.TB, files map[string]string) (string, *os.Root) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "work")
	require.NoError(t, os.Mkdir(dir, 0o700))
	for name, text := range files {
		p := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o700))
		require.NoError(t, os.WriteFile(p, []byte(text), 0o600))
	}
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	return dir, root
}

// to is a change to a content.
func to(text string) func([]byte) ([]byte, error) {
	return func([]byte) ([]byte, error) { return []byte(text), nil }
}

// names lists a folder.
func names(t testing.TB, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func content(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

func TestReplace(t *testing.T) {
	dir, root := plant(t, map[string]string{"a/x": "old"})
	ctx := t.Context()
	x := filepath.Join(dir, "a/x")
	for _, perm := range []fs.FileMode{0o640, 0o755, 0o666, 0o600} {
		require.NoError(t, os.Chmod(x, perm))
		require.NoError(t, os.WriteFile(x, []byte("old"), 0))
		require.NoError(t, Replace(ctx, root, "a/x", func(old []byte) ([]byte,
			error) {
			return append(bytes.Clone(old), '!'), nil
		}))
		assert.Equal(t, "old!", content(t, x))
		info, err := os.Stat(x)
		require.NoError(t, err)
		assert.Equal(t, perm, info.Mode())
	}
	before, err := os.Stat(x)
	require.NoError(t, err)
	require.NoError(t, Replace(ctx, root, "a/x", to("old!")))
	after, err := os.Stat(x)
	require.NoError(t, err)
	assert.True(t, os.SameFile(before, after), "what changes nothing writes nothing")

	enough := errors.New("enough")
	assert.ErrorIs(t, Replace(ctx, root, "a/x", func([]byte) ([]byte, error) { return []byte("new"), enough }), enough)
	assert.Equal(t, "old!", content(t, x))
	assert.Equal(t, []string{"x"}, names(t, filepath.Dir(x)))
}

func TestReplaceDropsSetuid(t *testing.T) {
	dir, root := plant(t, map[string]string{"x": "old"})
	require.NoError(t, os.Chmod(filepath.Join(dir, "x"), 0o755|fs.ModeSetuid))
	require.NoError(t, Replace(t.Context(), root, "x", to("new")))
	info, err := os.Stat(filepath.Join(dir, "x"))
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o755), info.Mode())
}

// What is no regular file that may be written is left alone, by each of the ways
// to change it.
func TestRefusals(t *testing.T) {
	dir, root := plant(t, map[string]string{"x": "x", "a/y": "y", "ro": "ro", "big": ""})
	require.NoError(t, os.Chmod(filepath.Join(dir, "ro"), 0o444))
	require.NoError(t, os.Truncate(filepath.Join(dir, "big"), MaxSize+1))
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(dir), "canary"), []byte("canary"), 0o600))
	for link, target := range map[string]string{"link": "x", "in": "a", "out": "..", "gone": "none",
		"away": "../canary"} {
		require.NoError(t, os.Symlink(target, filepath.Join(dir, link)))
	}
	all := names(t, dir)
	for rel, want := range map[string]string{
		"link": "link is not a regular file", "gone": "gone is not a regular file",
		"away": "away is not a regular file",
		"pipe": "pipe is not a regular file", "a": "a is not a regular file",
		"ro":   "ro is read-only: its permissions do not allow to change it",
		"none": "open none: no such file or directory",
		"in/y": "open in: in: not a directory", "out/canary": "open out: out: not a directory",
		"x/y": "open x: x: not a directory", "../canary": ".. is outside the working directory",
		"..": ". is not a regular file",
	} {
		err := Replace(t.Context(), root, rel, to("new"))
		if rel != ".." {
			assert.EqualError(t, err, want)
			assert.EqualError(t, Remove(t.Context(), root, rel, nil), want)
		}
		assert.Error(t, err, rel)
		assert.Error(t, Remove(t.Context(), root, rel, nil), rel)
		if rel != "none" {
			assert.Error(t, Create(t.Context(), root, rel, []byte("new"), 0o600), rel)
		}
	}
	assert.ErrorIs(t, Replace(t.Context(), root, "none", to("new")), fs.ErrNotExist)
	assert.EqualError(t, Replace(t.Context(), root, "big", to("new")),
		"big is too large: 67108865 bytes, at most 67108864 can be changed")
	huge := make([]byte, MaxSize+1)
	assert.EqualError(t, Replace(t.Context(), root, "x", func([]byte) ([]byte, error) { return huge, nil }),
		"x is too large: 67108865 bytes, at most 67108864 can be changed")
	assert.Error(t, Create(t.Context(), root, "new", huge, 0o600))
	assert.Equal(t, all, names(t, dir))
	assert.Equal(t, "canary", content(t, filepath.Join(dir, "away")))
	assert.Equal(t, "x", content(t, filepath.Join(dir, "x")))
}

func TestCreate(t *testing.T) {
	dir, root := plant(t, map[string]string{"x": "x"})
	ctx := t.Context()
	require.NoError(t, Create(ctx, root, "a/b/c", []byte("new"), 0o600))
	assert.Equal(t, "new", content(t, filepath.Join(dir, "a/b/c")))
	assert.Equal(t, []string{"c"}, names(t, filepath.Join(dir, "a/b")))
	assert.ErrorIs(t, Create(ctx, root, "x", []byte("new"), 0o600), fs.ErrExist)
	assert.ErrorIs(t, Create(ctx, root, "a", []byte("new"), 0o600), fs.ErrExist)
	require.NoError(t, os.Symlink("none", filepath.Join(dir, "gone")))
	assert.ErrorIs(t, Create(ctx, root, "gone", []byte("new"), 0o600), fs.ErrExist)
	assert.Equal(t, []string{"a", "gone", "x"}, names(t, dir))

	require.NoError(t, Remove(ctx, root, "a/b/c", nil))
	assert.Empty(t, names(t, filepath.Join(dir, "a/b")))
	assert.ErrorIs(t, Remove(ctx, root, "a/b/c", nil), fs.ErrNotExist)
}

func TestOneOfManyCreates(t *testing.T) {
	dir, root := plant(t, nil)
	const n = 16
	errs := make(chan error, n)
	for range n {
		go func() { errs <- Create(t.Context(), root, "a/b/x", []byte("new"), 0o600) }()
	}
	made := 0
	for range n {
		err := <-errs
		if err == nil {
			made++
			continue
		}
		assert.ErrorIs(t, err, fs.ErrExist)
	}
	assert.Equal(t, 1, made)
	assert.Equal(t, []string{"x"}, names(t, filepath.Join(dir, "a/b")))
}

// A change that waits for the lock goes on when it is free, and ends with its
// context.
func TestWaitForTheLock(t *testing.T) {
	dir, root := plant(t, map[string]string{"x": "old"})
	f, err := os.OpenFile(filepath.Join(dir, "x"), os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- Replace(ctx, root, "x", to("first")) }()
		go func() { second <- Replace(t.Context(), root, "x", to("second")) }()
		synctest.Wait()
		enough := errors.New("enough")
		cancel(enough)
		assert.ErrorIs(t, <-first, enough)
		assert.Empty(t, second)
		assert.Equal(t, "old", content(t, filepath.Join(dir, "x")))
		require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_UN))
		require.NoError(t, <-second)
	})
	assert.Equal(t, "second", content(t, filepath.Join(dir, "x")))
	assert.Equal(t, []string{"x"}, names(t, dir))
}

func TestEndedContextChangesNothing(t *testing.T) {
	dir, root := plant(t, map[string]string{"x": "old"})
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	assert.ErrorIs(t, Replace(ctx, root, "x", func([]byte) ([]byte, error) {
		cancel(enough) // after the lock
		return []byte("new"), nil
	}), enough)
	assert.ErrorIs(t, Replace(ctx, root, "x", to("new")), enough)
	assert.ErrorIs(t, Remove(ctx, root, "x", nil), enough)
	assert.ErrorIs(t, Create(ctx, root, "y", nil, 0o600), enough)
	assert.Equal(t, "old", content(t, filepath.Join(dir, "x")))
	assert.Equal(t, []string{"x"}, names(t, dir))
}

// Programs that take no lock are noticed: the change begins anew with what they
// wrote.
func TestChangeWithoutTheLockIsNoticed(t *testing.T) {
	dir, root := plant(t, map[string]string{"x": "old"})
	x := filepath.Join(dir, "x")
	other := []func(){
		func() { require.NoError(t, os.WriteFile(x, []byte("longer"), 0o600)) },
		func() {
			require.NoError(t, os.WriteFile(x+"2", []byte("moved"), 0o600))
			require.NoError(t, os.Rename(x+"2", x))
		},
		func() {},
	}
	var seen []string
	require.NoError(t, Replace(t.Context(), root, "x", func(old []byte) ([]byte, error) {
		seen = append(seen, string(old))
		other[len(seen)-1]()
		return []byte(string(old) + "!"), nil
	}))
	assert.Equal(t, []string{"old", "longer", "moved"}, seen)
	assert.Equal(t, "moved!", content(t, x))
	assert.Equal(t, []string{"x"}, names(t, dir))
}

// A file that never stays the same does not hold a change for ever.
func TestEndlessReplacementEnds(t *testing.T) {
	dir, root := plant(t, map[string]string{"x": "old"})
	x := filepath.Join(dir, "x")
	err := Replace(t.Context(), root, "x", func(old []byte) ([]byte, error) {
		require.NoError(t, os.WriteFile(x, append(old, '.'), 0o600))
		return []byte("new"), nil
	})
	assert.EqualError(t, err, "x is replaced again and again: try later")
	assert.True(t, strings.HasPrefix(content(t, x), "old..."))
}

// A folder that is replaced by a link out of the root takes no file with it.
func TestFolderBecomesALink(t *testing.T) {
	dir, root := plant(t, map[string]string{"a/x": "old"})
	out := filepath.Join(filepath.Dir(dir), "out")
	require.NoError(t, os.Mkdir(out, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(out, "x"), []byte("canary"), 0o600))
	err := Replace(t.Context(), root, "a/x", func([]byte) ([]byte, error) {
		if err := os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "b")); err != nil {
			return nil, err
		}
		return []byte("new"), os.Symlink(out, filepath.Join(dir, "a"))
	})
	assert.EqualError(t, err, "open a: a: not a directory")
	assert.Equal(t, "old", content(t, filepath.Join(dir, "b/x")))
	assert.Equal(t, "canary", content(t, filepath.Join(out, "x")))
	assert.Equal(t, []string{"x"}, names(t, out))
	assert.Equal(t, []string{"x"}, names(t, filepath.Join(dir, "b")))
}
