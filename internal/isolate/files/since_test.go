package files

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMark: what was written just before a mark is known to be older, and what was written just after it is not.
func TestMark(t *testing.T) {
	dir := t.TempDir()
	file, folder := filepath.Join(dir, "file"), filepath.Join(dir, "folder")
	require.NoError(t, os.Mkdir(folder, 0o700))
	changed := func() time.Time {
		require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
		var st unix.Stat_t
		require.NoError(t, unix.Stat(file, &st))
		return time.Unix(st.Ctim.Unix())
	}
	for range 100 {
		before := changed()
		mark, err := Mark(folder, 0o700)
		require.NoError(t, err)
		after := changed()
		assert.True(t, Before(before, mark), "%v %v", before, mark)
		assert.False(t, Before(after, mark), "%v %v", after, mark)
	}
	whole := time.Unix(1000, 0) // of a file system that tells seconds
	assert.False(t, Before(whole, whole.Add(time.Second)))
	assert.True(t, Before(whole, whole.Add(3*time.Second)))
	_, err := Mark(filepath.Join(dir, "none"), 0o700)
	assert.Error(t, err)
}
