package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEdited: a change of a .env file changes the lines that it is about, and nothing else.
func TestEdited(t *testing.T) {
	model := []Entry{{"QQ_MODEL", "ollama:qwen3:4b"}}
	for name, c := range map[string]struct {
		before, after string
		entries       []Entry
	}{
		"empty": {"", "QQ_MODEL=ollama:qwen3:4b\n", model},
		"kept": {"# mine\nA=1\n\nB='x y' # note\n",
			"# mine\nA=1\n\nB='x y' # note\nQQ_MODEL=ollama:qwen3:4b\n", model},
		"no last end": {"A=1", "A=1\nQQ_MODEL=ollama:qwen3:4b\n", model},
		"replaced":    {"QQ_MODEL=extract\nA=1\n", "QQ_MODEL=ollama:qwen3:4b\nA=1\n", model},
		"exported":    {"export QQ_MODEL = extract\nA=1\n", "QQ_MODEL=ollama:qwen3:4b\nA=1\n", model},
		"twice":       {"QQ_MODEL=a\nQQ_MODEL=b\n", "QQ_MODEL=a\nQQ_MODEL=ollama:qwen3:4b\n", model},
		"comment":     {"# QQ_MODEL=x\n", "# QQ_MODEL=x\nQQ_MODEL=ollama:qwen3:4b\n", model},
		"same":        {"QQ_MODEL=\"ollama:qwen3:4b\"\n", "QQ_MODEL=\"ollama:qwen3:4b\"\n", model},
		"windows":     {"A=1\r\nB=2\r\n", "A=1\r\nB=2\r\nQQ_MODEL=ollama:qwen3:4b\r\n", model},
		"lines": {"A=\"x\nQQ_MODEL=y\nz\"\n", "",
			model}, // the line belongs to a value
		"refers": {"QQ_MODEL=x\nA=$QQ_MODEL\n", "", model},
		"broken": {"what is this\n", "", model},
		"quoted": {"", "K='a#b$c d'\n", []Entry{{"K", "a#b$c d"}}},
		"quote":  {"", "", []Entry{{"K", "a'b"}}},
	} {
		got, err := edited([]byte(c.before), c.entries)
		if c.after == "" {
			assert.Error(t, err, name)
			continue
		}
		require.NoError(t, err, name)
		assert.Equal(t, c.after, string(got), name)
		again, err := edited(got, c.entries)
		require.NoError(t, err, name)
		assert.Equal(t, c.after, string(again), name+", again")
	}
}

// TestWriteUser: the file is made for its owner alone, a link to it stays one, and nothing else is left.
func TestWriteUser(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "config", "qq", ".env")
	changed, err := WriteUser(path, []Entry{{"QQ_MODEL", "lab:x"}})
	require.NoError(t, err)
	assert.True(t, changed)
	changed, err = WriteUser(path, []Entry{{"QQ_MODEL", "lab:x"}})
	require.NoError(t, err)
	assert.False(t, changed)

	own := filepath.Join(dir, "dotfile")
	require.NoError(t, os.WriteFile(own, []byte("A=1\n"), 0o644))
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Symlink(own, path))
	_, err = WriteUser(path, []Entry{{"QQ_MODEL", "lab:y"}})
	require.NoError(t, err)
	text, err := os.ReadFile(own)
	require.NoError(t, err)
	assert.Equal(t, "A=1\nQQ_MODEL=lab:y\n", string(text))
	info, err := os.Stat(own)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
	link, err := os.Lstat(path)
	require.NoError(t, err)
	assert.NotZero(t, link.Mode()&os.ModeSymlink)
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".env-*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}
