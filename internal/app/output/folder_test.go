package output

import (
	"iter"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// named returns names as a Folder takes them.
func named(names ...string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, n := range names {
			if !yield(n, nil) {
				return
			}
		}
	}
}

// files returns what is in a folder.
func files(t *testing.T, path string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(path)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestFolder: what a killed qq had not finished goes, results are written whole, and only one qq writes them.
func TestFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "results")
	require.NoError(t, os.MkdirAll(filepath.Join(path, unfinished), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(path, unfinished, ".b.md.txt123"), nil, 0o600))
	f, err := OpenFolder(path)
	require.NoError(t, err)
	assert.Empty(t, files(t, filepath.Join(path, unfinished)))
	_, err = OpenFolder(path)
	require.ErrorIs(t, err, ErrInUse)
	for i, name := range []string{"a.md", "00002"} {
		require.NoError(t, f.Save(name, "docs/"+name, results()[i]))
	}
	require.NoError(t, f.Close())
	assert.Equal(t, []string{"00002.json", "a.md.json", "a.md.txt"}, files(t, path), "a failure is no answer")
	text, err := os.ReadFile(filepath.Join(path, "a.md.txt"))
	require.NoError(t, err)
	assert.Equal(t, "a <b>\nc", string(text))
	whole, err := os.ReadFile(filepath.Join(path, "00002.json"))
	require.NoError(t, err)
	assert.Contains(t, string(whole), `"error": "too slow"`)
	assert.Contains(t, string(whole), `"output": "half\n"`, "its text is kept")
	assert.Contains(t, string(whole), `"input": "docs/00002"`)
	assert.ErrorContains(t, f.Save("x", "", results()[1]), "save the result of task 2: ")
	var none *Folder
	assert.NoError(t, none.Close())

	_, err = OpenFolder(filepath.Join(path, "a.md.txt"))
	assert.Error(t, err)
}

// TestFolderOfAnother: earlier results make room, results of other names are reported, and any other file stays.
func TestFolderOfAnother(t *testing.T) {
	path := t.TempDir()
	f, err := OpenFolder(path)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Check(named("a", "b")))
	left, err := f.Clear(named("a", "b"))
	require.NoError(t, err)
	assert.False(t, left)

	for _, name := range []string{"a", "b", "c"} {
		require.NoError(t, f.Save(name, "", results()[0]))
	}
	require.NoError(t, os.Remove(filepath.Join(path, "b.txt")), "as after a kill")
	require.NoError(t, f.Check(named("a", "b")))
	left, err = f.Clear(named("a", "b"))
	require.NoError(t, err)
	assert.True(t, left)
	assert.Equal(t, []string{unfinished, "c.json", "c.txt"}, files(t, path))
	require.NoError(t, f.Save("c", "", results()[1]))
	assert.Equal(t, []string{unfinished, "c.json"}, files(t, path), "its earlier answer counts no more")
	require.NoError(t, f.Check(named("c")))
	left, err = f.Clear(named("c"))
	require.NoError(t, err)
	assert.False(t, left)
	assert.Equal(t, []string{unfinished}, files(t, path))

	for _, foreign := range []string{"a.txt", "a.json"} {
		require.NoError(t, os.WriteFile(filepath.Join(path, foreign), []byte(`{"task":"x"}`), 0o600))
		err = f.Check(named("b", "a"))
		require.ErrorIs(t, err, ErrForeign)
		assert.ErrorContains(t, err, foreign+" is there, and is no result of qq")
		require.NoError(t, f.Check(named("b")))
		assert.True(t, slices.Contains(files(t, path), foreign))
		require.NoError(t, os.Remove(filepath.Join(path, foreign)))
	}
}
