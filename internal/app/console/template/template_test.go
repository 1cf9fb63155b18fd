package template

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/config/trust"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// Commands of a checkout count when their file is trusted as it is; those of the user always do.
func TestUsable(t *testing.T) {
	dir, home, config := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, filepath.Join(dir, ".qq/commands/review.md"), "mine")
	write(t, filepath.Join(dir, ".claude/commands/review.md"), "hidden")
	write(t, filepath.Join(dir, ".claude/commands/fix.md"), "---\ndescription: \"Fix it\"\n---\nFix $ARGUMENTS.\n")
	write(t, filepath.Join(config, "qq/commands/own.md"), "own")
	write(t, filepath.Join(config, "qq/commands/fix.md"), "other")
	decided := trust.In(home).Folder(dir)
	usable, left := Usable(dir, config, decided)
	require.Len(t, left, 2)
	require.Len(t, usable, 2)
	assert.Equal(t, "other", usable[0].Task(""))
	fix := left[1]
	assert.Equal(t, Command{Name: "fix", Description: "Fix it", File: ".claude/commands/fix.md", Sum: fix.Sum,
		Text: "Fix $ARGUMENTS."}, fix)
	require.NoError(t, decided.Decide(map[string]string{fix.File: fix.Sum}, true))
	usable, left = Usable(dir, config, trust.In(home).Folder(dir))
	assert.Len(t, left, 1)
	assert.Equal(t, "Fix a b.", usable[0].Task("a b"))
	write(t, filepath.Join(dir, ".claude/commands/fix.md"), "Do harm")
	usable, left = Usable(dir, config, trust.In(home).Folder(dir))
	assert.Len(t, left, 2, "it has changed")
	assert.Equal(t, "other\n\nwith this", usable[0].Task("with this"))
}

// What is no small text in a regular file of the checkout is no command.
func TestStrangers(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	folder := filepath.Join(dir, ".qq", "commands")
	write(t, filepath.Join(folder, "big.md"), strings.Repeat("x", maxBytes+1))
	write(t, filepath.Join(folder, "bytes.md"), "\xff\xfe")
	write(t, filepath.Join(folder, "empty.md"), " \n")
	write(t, filepath.Join(folder, "a b.md"), "a space")
	write(t, filepath.Join(folder, "text.txt"), "no Markdown")
	write(t, filepath.Join(folder, "dir.md", "x"), "a folder")
	write(t, filepath.Join(elsewhere, "out.md"), "outside")
	require.NoError(t, os.Symlink(filepath.Join(elsewhere, "out.md"), filepath.Join(folder, "out.md")))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, ".claude")))
	write(t, filepath.Join(elsewhere, "commands", "linked.md"), "outside")
	assert.Empty(t, Of(dir))
	assert.Empty(t, Of(filepath.Join(dir, "none")))
	write(t, filepath.Join(folder, "good.md"), "good")
	assert.Len(t, Of(dir), 1)
}

func FuzzParse(f *testing.F) {
	f.Add("---\ndescription: x\n---\nbody")
	f.Fuzz(func(t *testing.T, text string) {
		description, _ := parse(text)
		assert.NotContains(t, description, "\n")
	})
}
