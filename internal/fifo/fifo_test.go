package fifo

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOpenFile(t *testing.T) {
	dir := t.TempDir()
	file, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	f, err := OpenFile(t.Context(), file, os.O_WRONLY|os.O_CREATE, 0o600)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	assert.False(t, Is(file))
	assert.True(t, Is(pipe))
	_, err = OpenFile(t.Context(), filepath.Join(dir, "none"), os.O_RDONLY, 0)
	require.ErrorIs(t, err, os.ErrNotExist)

	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	_, err = OpenFile(ctx, pipe, os.O_WRONLY, 0)
	require.ErrorIs(t, err, enough)

	read := make(chan string)
	go func() {
		f, err := os.Open(pipe) // which lets the one go that was given up, too
		assert.NoError(t, err)
		b := make([]byte, 4)
		_, err = io.ReadFull(f, b)
		assert.NoError(t, err)
		assert.NoError(t, f.Close())
		read <- string(b)
	}()
	f, err = OpenFile(t.Context(), pipe, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("text")
	require.NoError(t, err)
	assert.Equal(t, "text", <-read)
	require.NoError(t, f.Close())
}
