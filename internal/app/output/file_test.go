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
