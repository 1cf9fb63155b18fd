package astgrep

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What needs an approval of its own is neither searched nor read, whatever it is called.
func TestFilesLeavesOut(t *testing.T) {
	c := folder(t, "", "a.json", "{}", "credentials.json", "{}", "own/sessions/b.json", "{}", "vault/c.json", "{}")
	require.NoError(t, os.Symlink("vault/c.json", filepath.Join(c.Dir, "token.json")))
	c.Private = []string{filepath.Join(c.Dir, "own")}
	list, err := c.files(t.Context(), query{lang: "json"})
	require.NoError(t, err)
	assert.Equal(t, []string{"a.json", "vault/c.json"}, list)
	for name, why := range map[string]string{
		"credentials.json":    "credentials.json looks like a file of secrets and is not read",
		"token.json":          "token.json looks like a file of secrets and is not read",
		"own/sessions/b.json": "own/sessions/b.json is one of qq's own files and is not read",
	} {
		_, err := c.files(t.Context(), query{lang: "json", start: name})
		assert.EqualError(t, err, why)
	}
	assert.Equal(t, "is one of qq's own files", c.concern("own/x"))
}
