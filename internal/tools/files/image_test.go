package files

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
	"qq/pkg/picture"
	"qq/pkg/tool"
)

const png = "\x89PNG\r\n\x1a\n\x00"

// gallery returns a folder with images and what is none, its workspace and read_file for a model that sees or not.
func gallery(t *testing.T, sees bool) (string, *Workspace, func(path string) tool.Result) {
	dir, _ := plant(t, map[string]string{
		"a.png": png + "one", "a.txt": "text", "b.txt": "\xff\xd8\xff\xe0jpeg", "gif.txt": "GIF89a is a text",
		"big.png": png + strings.Repeat("x", picture.MaxBytes), ".env": png, "sub/c.png": png + "three",
	})
	outside := filepath.Join(filepath.Dir(dir), "outside.png")
	require.NoError(t, os.WriteFile(outside, []byte(png), 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "link.png")))
	require.NoError(t, os.Symlink("sub/c.png", filepath.Join(dir, "inner.png")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe.png"), 0o600))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	w := Open(root)
	if sees {
		w.Show()
	}
	return dir, w, func(path string) tool.Result {
		return standin.CallTool(t, w.Reading(), "read_file", standin.Args("path", path))
	}
}

func TestReadFileShowsImages(t *testing.T) {
	dir, w, read := gallery(t, true)
	r := read("a.png")
	assert.Equal(t, "a.png: image/png, 12 bytes", r.Content)
	require.Len(t, r.Images, 1)
	assert.Equal(t, png+"one", string(r.Images[0].Data))
	assert.Equal(t, filepath.Join(dir, "a.png"), r.Images[0].Name)
	assert.Equal(t, "b.txt: image/jpeg, 8 bytes", read("b.txt").Content, "the content says what it is, not the name")
	assert.Equal(t, filepath.Join(dir, "sub/c.png"), read("inner.png").Images[0].Name)
	for path, want := range map[string]string{
		"a.txt":    "text",
		"gif.txt":  "GIF89a is a text",
		"big.png":  "Error: big.png has more than 8 MiB",
		"link.png": "Error: link.png is a link that leads out of the working directory",
		"pipe.png": "Error: pipe.png is not a regular file",
		".env":     "Error: .env looks like a file of secrets and is not read without an approval",
	} {
		r := read(path)
		assert.Equal(t, want, r.Content)
		assert.Empty(t, r.Images)
	}
	again, err := w.Image(context.Background(), "a.png")
	require.NoError(t, err)
	assert.Equal(t, r, again)
	for _, path := range []string{"a.txt", "link.png", "pipe.png", ".env", "big.png", "none.png", "."} {
		_, err := w.Image(context.Background(), path)
		assert.Error(t, err, path)
	}
}

func TestReadFileForABlindModel(t *testing.T) {
	_, w, read := gallery(t, false)
	for _, path := range []string{"a.png", "big.png"} {
		r := read(path)
		assert.Equal(t, "Error: "+path+" is an image (image/png), and your model is not known to see images", r.Content)
		assert.Empty(t, r.Images)
	}
	r, err := w.Image(context.Background(), "a.png") // a person gives it
	require.NoError(t, err)
	assert.Len(t, r.Images, 1)
}
