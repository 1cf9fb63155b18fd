package locate

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/picture"
)

// The content says what is an image, and nothing is waited for.
func TestImages(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"image": "\x89PNG\r\n\x1a\n", "text.png": "text", "empty.png": ""} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe.png"), 0o600))
	image := filepath.Join(dir, "image")
	assert.Equal(t, []picture.Image{{Name: image}}, Images(image))
	for _, name := range []string{"text.png", "empty.png", "pipe.png", "none.png", "."} {
		assert.Empty(t, Images(filepath.Join(dir, name)), name)
	}
}
