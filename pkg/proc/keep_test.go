package proc

import (
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Only a Host makes keepers: the environment of a command comes from others.
func TestNoKeeperByEnvironment(t *testing.T) {
	h := NewHost()
	defer h.Close()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	p, err := h.Start(Command{Path: "env", Env: []string{"A=1", keepVar + "=1", "B=2"}, Stdout: w})
	require.NoError(t, err)
	w.Close()
	out, err := io.ReadAll(r)
	require.NoError(t, err)
	assert.Zero(t, p.Wait().Code)
	assert.Equal(t, "A=1\nB=2\n", string(out))
}
