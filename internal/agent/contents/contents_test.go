package contents

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestContentsAreBounded: what was not read counts as changed when its time is new.
func TestContentsAreBounded(t *testing.T) {
	dir := t.TempDir()
	files := map[string]Stamp{}
	for file, size := range map[string]int{"small": 1, "large": maxHashedFile + 1, "gone": 1} {
		files[file] = Stamp{Size: int64(size)}
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), make([]byte, size), 0o600))
	}
	require.NoError(t, os.Remove(filepath.Join(dir, "gone")))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	c := Of(root, files)
	assert.Len(t, c.sums, 1)
	later := func(file string) Stamp { return Stamp{Size: files[file].Size, Modified: time.Now()} }
	assert.True(t, c.Same(root, "small", files["small"], later("small")))
	assert.False(t, c.Same(root, "large", files["large"], later("large")))
	assert.False(t, c.Same(root, "small", files["small"], Stamp{Size: 2}))
	assert.False(t, c.Same(root, "small", files["small"], Stamp{Size: 1, Mode: 0o100}))
}
