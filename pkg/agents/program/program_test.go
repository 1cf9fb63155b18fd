package program

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Program{
		"claude": {Name: Claude}, " codex\t": {Name: Codex}, "gemini": {Name: Gemini}, "opencode": {Name: OpenCode},
		"qwen":                     {Name: Qwen},
		"acp my-agent --acp":       {Name: ACP, Words: []string{"my-agent", "--acp"}},
		`acp "/opt/my agent" ''`:   {Name: ACP, Words: []string{"/opt/my agent", ""}},
		`acp a\ b 'c "d' "e 'f\""`: {Name: ACP, Words: []string{"a b", `c "d`, `e 'f"`}},
		"acp a $HOME `b` | c":      {Name: ACP, Words: []string{"a", "$HOME", "`b`", "|", "c"}},
	} {
		p, err := Parse(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, p, text)
		again, err := Parse(p.String())
		require.NoError(t, err, text)
		assert.True(t, p.Equal(again), p.String())
	}
	for text, problem := range map[string]string{
		"": "is empty", "  ": "is empty", "Claude": "no program that is known",
		"claude --model x": "takes no arguments",
		"acp":              "needs the command line", "acp --x": "is an option", `acp "x`: "a quote that is not closed",
		`acp x\`: "a quote that is not closed", "acp x\x1b[2J": "cannot be printed", "acp x\u202e": "cannot be printed",
		"acp ./agent": "whole path", "acp bin/agent": "whole path", "acp " + strings.Repeat("x ", 100): "64 words",
		"acp " + strings.Repeat("x", 5000): "4096 bytes", "acp \xff": "cannot be printed",
	} {
		_, err := Parse(text)
		assert.ErrorContains(t, err, problem, text)
	}
	_, err := Parse("cursor")
	assert.EqualError(t, err,
		`"cursor" is no program that is known: claude, codex, gemini, opencode, qwen, or acp with a command line`)
}

func TestFind(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	t.Chdir(dir)
	p := Program{Name: Claude}
	_, err := p.Find(dir)
	assert.EqualError(t, err, "the program claude is not found\nhint: npm install -g @anthropic-ai/claude-code")
	file := filepath.Join(dir, "claude")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = p.Find(dir)
	assert.Error(t, err, "it cannot be run")
	require.NoError(t, os.Chmod(file, 0o700))
	_, err = p.Find(".:")
	assert.Error(t, err, "a folder that depends on the working directory does not count")
	found, err := p.Find(".:/nonexistent:" + other + ":" + dir)
	require.NoError(t, err)
	assert.Equal(t, file, found)
	found, err = Program{Name: ACP, Words: []string{file}}.Find("")
	require.NoError(t, err)
	assert.Equal(t, file, found)
	_, err = Program{Name: ACP, Words: []string{"nonesuch"}}.Find(dir)
	assert.ErrorContains(t, err, "nonesuch is not found\nhint: install it")
}

func FuzzParse(f *testing.F) {
	f.Add("claude")
	f.Add(`acp "a b" 'c' d\ e`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err != nil {
			return
		}
		if len(p.String()) > maxText {
			return // quotes have made it longer
		}
		again, err := Parse(p.String())
		require.NoError(t, err, p.String())
		assert.True(t, p.Equal(again), p.String())
	})
}
