package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// told is a Keeper that writes down what it is told.
type told []string

func (k *told) Keep(c Change) {
	*k = append(*k, fmt.Sprintf("%s %q>%q %o %s %t", c.Path, c.Old, c.New, c.Mode, c.Made, c.Large))
}
func (k *told) Failed(path string) { *k = append(*k, "not "+path) }

// TestKeeper: a keeper is told of each change right before it, and of each that was not made.
func TestKeeper(t *testing.T) {
	dir, root := plant(t, map[string]string{"x": "x", "y": "y", "a/z": "", "big": ""})
	require.NoError(t, os.Truncate(filepath.Join(dir, "big"), MaxSize+1))
	for _, name := range []string{"x", "y", "a/z", "big"} {
		require.NoError(t, os.Chmod(filepath.Join(dir, name), 0o640))
	}
	k := &told{}
	ctx, cancel := context.WithCancel(WithKeeper(t.Context(), k))
	require.NoError(t, Replace(ctx, root, "x", to("new")))
	require.NoError(t, Replace(ctx, root, "x", to("new")), "no change")
	require.Error(t, Replace(ctx, root, "x", func([]byte) ([]byte, error) { return nil, errors.New("no") }))
	require.NoError(t, Replace(ctx, root, "a/z", to("")))
	require.NoError(t, Remove(ctx, root, "y", nil))
	require.NoError(t, Remove(ctx, root, "big", nil))
	require.NoError(t, Create(ctx, root, "a/b/c/d", []byte("d"), 0o666))
	require.Error(t, Create(ctx, root, "x", nil, 0o666))
	require.Error(t, Replace(ctx, root, "x", func([]byte) ([]byte, error) { cancel(); return []byte("late"), nil }))
	assert.Equal(t, told{`x "x">"new" 640  false`, `y "y">"" 640  false`, `big "">"" 640  true`,
		`a/b/c/d "">"d" 0 a/b false`, `x "new">"late" 640  false`, "not x"}, *k)
}

// TestRestore: a file becomes what it was only if it is what it should be.
func TestRestore(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	dir, root := plant(t, map[string]string{"x": "x", "y": "y", "z": "z"})
	was := func(text string, mode fs.FileMode) State { return State{Sum([]byte(text)), []byte(text), mode} }
	ctx, x := t.Context(), Sum([]byte("x"))
	for _, to := range []State{{}, was("old", 0)} {
		assert.ErrorIs(t, Restore(ctx, root, "y", x, to), ErrChanged)
		assert.ErrorIs(t, Restore(ctx, root, "none", x, to), ErrChanged)
	}
	assert.ErrorIs(t, Restore(ctx, root, "y", "", was("old", 0o644)), ErrChanged, "it is there again")
	assert.Equal(t, "y", content(t, filepath.Join(dir, "y")))
	require.NoError(t, os.Chmod(filepath.Join(dir, "x"), 0o751))
	require.NoError(t, Restore(ctx, root, "x", x, was("old", 0)))
	require.NoError(t, Restore(ctx, root, "y", Sum([]byte("y")), was("older", 0o755)))
	require.NoError(t, Restore(ctx, root, "new/deep", "", was("oldest", 0o664)))
	require.NoError(t, Restore(ctx, root, "z", Sum([]byte("z")), State{}))
	require.NoError(t, Restore(ctx, root, "z", "", State{}))
	for name, want := range map[string]struct {
		text string
		mode fs.FileMode
	}{"x": {"old", 0o751}, "y": {"older", 0o755}, "new/deep": {"oldest", 0o664}} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.Equal(t, want.mode, info.Mode(), name)
		assert.Equal(t, want.text, content(t, filepath.Join(dir, name)))
	}
	assert.Equal(t, []string{"new", "x", "y"}, names(t, dir))
	require.NoError(t, Create(ctx, root, "usual", nil, 0o666))
	info, err := os.Stat(filepath.Join(dir, "usual"))
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), info.Mode(), "the umask counts for tools")
}

// TestRemoveEmpty: folders are removed up to the topmost that was made, and never one with something in it, nor a link.
func TestRemoveEmpty(t *testing.T) {
	dir, root := plant(t, map[string]string{"a/b/c/x": "x", "full/b/x": "x", "real/x": "x"})
	require.NoError(t, os.Remove(filepath.Join(dir, "a/b/c/x")))
	RemoveEmpty(root, "a/b/c", "a/b")
	assert.Empty(t, names(t, filepath.Join(dir, "a")))
	RemoveEmpty(root, "full/b", "full")
	require.NoError(t, os.Symlink("real", filepath.Join(dir, "link")))
	RemoveEmpty(root, "link", "link")
	RemoveEmpty(root, "a", "none")
	assert.Equal(t, []string{"a", "full", "link", "real"}, names(t, dir))
}
