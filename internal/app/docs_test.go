package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/commandline"
	"qq/internal/config"
)

// TestEnvExample keeps .env.example equal to the settings; -update rewrites it.
func TestEnvExample(t *testing.T) {
	path := filepath.Join("..", "..", ".env.example")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(config.EnvExample()), 0o666))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, config.EnvExample(), string(text), "go test ./internal/app -update")
}

// TestReadme keeps what README.md repeats of the code equal to it; -update
// rewrites it.
func TestReadme(t *testing.T) {
	path := filepath.Join("..", "..", "README.md")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	readme := string(data)
	root := newRoot(Streams{}, nil)
	commands := commandline.Commands(root.cli())
	root.close()
	for _, part := range []struct{ name, want string }{
		{"commands", "```text\n" + commands + "```\n"},
		{"settings", config.MarkdownTable()},
		{"exit codes", exitCodeTable()},
	} {
		begin, end := "<!-- begin "+part.name+" -->\n", "<!-- end "+part.name+" -->\n"
		before, rest, found := strings.Cut(readme, begin)
		require.True(t, found, "README.md has no %q", begin)
		got, after, found := strings.Cut(rest, end)
		require.True(t, found, "README.md has no %q", end)
		if *update {
			readme, got = before+begin+part.want+end+after, part.want
		}
		assert.Equal(t, part.want, got, "%s: go test ./internal/app -update", part.name)
	}
	if *update && readme != string(data) {
		require.NoError(t, os.WriteFile(path, []byte(readme), 0o666))
	}
}

func exitCodeTable() string {
	var b strings.Builder
	b.WriteString("| code | meaning |\n|---|---|\n")
	for _, e := range commandline.ExitCodes() {
		fmt.Fprintf(&b, "| %d | %s |\n", e.Code, e.Meaning)
	}
	return b.String()
}
