package output

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOpenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	require.NoError(t, os.WriteFile(path, []byte("before"), 0o600))
	f, err := OpenFile(t.Context(), path)
	require.NoError(t, err)
	_, err = OpenFile(t.Context(), path)
	require.ErrorIs(t, err, ErrInUse)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "before", string(text))
	require.NoError(t, f.Close())
	f, err = OpenFile(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, f.Close())

	f, err = OpenFile(t.Context(), os.DevNull)
	require.NoError(t, err)
	defer f.Close()
	again, err := OpenFile(t.Context(), os.DevNull)
	require.NoError(t, err, "what has no content of its own")
	require.NoError(t, again.Close())
	_, err = OpenFile(t.Context(), filepath.Join(path, "x"))
	assert.Error(t, err)
}

// TestOpenFolder: what a killed qq had not finished goes, and nothing else.
func TestOpenFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "results")
	f, err := OpenFolder(path)
	require.NoError(t, err)
	_, err = OpenFolder(path)
	require.ErrorIs(t, err, ErrInUse)
	require.NoError(t, f.Close())
	stay := []string{"00001.json", "00001.txt", ".00002.txt", ".hidden123", ".00001.md17", "00001.txt5"}
	for _, name := range append([]string{".00001.txt123", ".123456.json9"}, stay...) {
		require.NoError(t, os.WriteFile(filepath.Join(path, name), nil, 0o600))
	}
	f, err = OpenFolder(path)
	require.NoError(t, err)
	defer f.Close()
	entries, err := os.ReadDir(path)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	assert.ElementsMatch(t, stay, names)
	_, err = OpenFolder(filepath.Join(path, "00001.txt"))
	assert.Error(t, err)
}
