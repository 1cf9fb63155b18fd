package astgrep

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/tools/tree"
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

// What a definition takes from the agent is left out too.
func TestFilesLeavesOutWhatIsTaken(t *testing.T) {
	c := folder(t, "", "a.json", "{}", "docs/b.json", "{}", "docs/c/d.json", "{}")
	home, err := filepath.EvalSymlinks(c.Dir)
	require.NoError(t, err)
	c.Taken = tree.Taken{home + "/docs/**"}
	list, err := c.files(t.Context(), query{lang: "json"})
	require.NoError(t, err)
	assert.Equal(t, []string{"a.json"}, list)
	_, err = c.files(t.Context(), query{lang: "json", start: "docs/b.json"})
	assert.EqualError(t, err, "docs/b.json is taken from this agent by a definition and is not read")
}
