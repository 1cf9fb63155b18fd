package command

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/command/pipe"
)

// TestStuckReader: before the run is to end, a write waits for its reader. After that, it gives up on a
// reader who takes nothing, and so do all later writes.
func TestStuckReader(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer w.Close()
	ends := make(chan struct{})
	s := NewScreen()
	s.Ends = ends
	o := s.Output(w)
	much := strings.Repeat("x", 1<<20)
	written := make(chan error)
	go func() {
		_, err := o.WriteString(much)
		written <- err
	}()
	got := make([]byte, len(much)/2)
	_, err = io.ReadFull(r, got)
	require.NoError(t, err)
	require.Empty(t, written)
	close(ends)
	require.ErrorIs(t, <-written, pipe.ErrStuck)
	_, err = o.WriteString("x")
	require.ErrorIs(t, err, pipe.ErrStuck)
	require.NoError(t, r.Close()) // which ends the goroutine that writes
}

// TestPipe: into a pipe goes what is written, whole, also when the run is to end.
func TestPipe(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	ends := make(chan struct{})
	close(ends)
	s := NewScreen()
	s.Ends = ends
	o := s.Output(w)
	read := make(chan string)
	go func() {
		all, err := io.ReadAll(r)
		assert.NoError(t, err)
		read <- string(all)
	}()
	much := strings.Repeat("0123456789", 100_000)
	say(t, o, much)
	say(t, o, "end")
	require.NoError(t, w.Close())
	assert.Equal(t, much+"end", <-read)
	_, err = o.WriteString("x")
	require.ErrorIs(t, err, os.ErrClosed)
}
