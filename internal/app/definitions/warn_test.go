package definitions

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/agents"
)

// The memory of what was said is bounded, forgets the oldest, and may fail.
func TestRemembered(t *testing.T) {
	home := filepath.Join(t.TempDir(), "qq")
	a := agents.Agent{Source: "/x/a.md", Sum: "1"}
	assert.False(t, remembered(home, a))
	assert.True(t, remembered(home, a))
	other := agents.Agent{Source: "/y/a.md", Sum: "1"}
	assert.False(t, remembered(home, other), "another file")
	a.Sum = "2"
	assert.False(t, remembered(home, a), "another content")

	path := filepath.Join(home, warnedFile)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	full := string(data) + strings.Repeat(strings.Repeat("0", 32)+"\n", maxWarned/33-len(data)/33)
	require.NoError(t, os.WriteFile(path, []byte(full), 0o600))
	assert.True(t, remembered(home, a))
	last := agents.Agent{Source: "/z/a.md", Sum: "1"}
	assert.False(t, remembered(home, last))
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Less(t, info.Size(), int64(maxWarned))
	assert.True(t, remembered(home, last))
	assert.False(t, remembered(home, a), "the oldest is forgotten")

	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Mkdir(path, 0o700))
	assert.False(t, remembered(home, a))
	assert.False(t, remembered(home, a), "it cannot be remembered")
	assert.False(t, remembered(home, agents.Agent{Source: agents.BuiltIn}))
}
