package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTrust: what a checkout claims is asked about once, on a terminal; qq trust shows, lists and forgets it.
func TestTrust(t *testing.T) {
	w := newWorld(t)
	w.file("t.txt", "The moon pulls the sea. The sea rises. Tides come and go.\n")
	w.file(".env", "QQ_RETRIES=9\nQQ_SEARCH=searxng=http://a.example\nQQ_MODEL=ollama:x:cloud\nQQ_AGENT=theirs\n")
	w.file(".qq/agents/coder.md", "---\ndescription: d\n---\nx")
	w.file(".qq/agents/theirs.md", "---\ndescription: d\ntools: []\n---\nx")
	claims := ".qq/agents/coder.md: agent coder with the tools: every tool; model: that of the run; may ask: any " +
		"agent; prompt of 1 bytes: \"x\" (replaces a built-in agent)\n.env: QQ_RETRIES=9 (raises 2)\n" +
		".qq/agents/theirs.md: agent theirs with the tools: none; model: that of the run; may ask: none; " +
		"prompt of 1 bytes: \"x\" (is chosen by QQ_AGENT in .env)\n.env: QQ_SEARCH=searxng=http://a.example\n" +
		".env: QQ_MODEL=ollama:x:cloud (sends text to another machine)\n"
	e := w.run("trust")
	assert.Equal(t, 2, e.code)
	assert.Equal(t, claims, e.out)
	e = w.run("Summarize t.txt")
	assert.Zero(t, e.code, e.errors)
	assert.Contains(t, e.errors, "qq: QQ_RETRIES in .env is ignored: it raises 2, and this folder is not trusted")

	s := w.onTerminal("Summarize t.txt")
	s.until("[n]o: ")
	s.press("n\n")
	assert.Contains(t, s.wait().out, "QQ_SEARCH in .env is ignored: you did not trust it; see qq trust")
	e = w.run("trust", "--list")
	assert.Regexp(t, `(?m)^`+w.dir+` +\.env +not trusted +20`, e.out)

	assert.Equal(t, 2, w.run("trust", "-C", w.dir, w.dir).code)
	assert.Equal(t, 2, w.run("trust", "a", "b").code)
	assert.Equal(t, 2, w.run("trust", "gone").code)
	assert.Equal(t, 2, w.with("QQ_RECURSION_DEPTH=1").run("trust").code)
	e = w.run("trust", w.dir, "--yes")
	assert.Zero(t, e.code)
	assert.Equal(t, claims, e.out)
	assert.Contains(t, e.errors, "qq: trusted until it changes: .env, .qq/agents/theirs.md, .qq/agents/coder.md\n")
	e = w.run("trust")
	assert.Zero(t, e.code)
	assert.Contains(t, e.errors, "qq: trusted already: ")
	assert.Regexp(t, `(?m)^QQ_AGENT +theirs +default +\.env$`, w.run("config").out)
	assert.Empty(t, w.run("config").errors)

	w.file(".env", "QQ_RETRIES=9\nQQ_SEARCH=searxng=http://b.example\n")
	assert.Contains(t, w.run("trust").out, ".env: QQ_RETRIES=9 (raises 2) (changed since you trusted it)\n")
	w.file(".env", "QQ_RETRIES=many\n")
	assert.Equal(t, 2, w.run("trust").code, "a broken .env is an error")
	require.NoError(t, os.Remove(filepath.Join(w.dir, ".env")))
	assert.Zero(t, w.run("trust", "--remove").code)
	e = w.run("trust", "--remove", w.dir)
	assert.Equal(t, 2, e.code)
	assert.Contains(t, e.errors, "nothing was decided about "+w.dir)
	assert.Equal(t, "[]\n", w.run("trust", "--list", "--json").out)
	require.NoError(t, os.RemoveAll(filepath.Join(w.dir, ".qq")))
	assert.Equal(t, "qq: nothing in "+w.dir+" needs trust\n", w.run("trust").errors)
}

// TestTrustAfterFlags: a wrong flag is an error before anybody is asked.
func TestTrustAfterFlags(t *testing.T) {
	w := newWorld(t)
	w.file(".env", "QQ_RETRIES=9\n")
	w.file("tasks.txt", "Say it.\n")
	for _, args := range [][]string{
		{"--output-format", "runes", "Say it."}, {"--max-turns", "0", "Say it."}, {"--allow", "edit_file(", "Say it."},
		{"--schema", "gone.json", "Say it."}, {"batch", "tasks.txt", "--halt", "never,fail=1"},
		{"batch", "tasks.txt", "--output-format", "runes"}, {"batch", "tasks.txt", "--deny", "bash"},
	} {
		s := w.onTerminal(args...)
		e := s.wait()
		assert.Equal(t, 2, e.code, args)
		assert.Contains(t, e.out, "\n  hint: ", args)
		assert.NotContains(t, e.out, "want to configure qq", args)
	}
}

// TestTrustWhole: the middle of a long value is shown before it can be trusted.
func TestTrustWhole(t *testing.T) {
	w := newWorld(t)
	w.file(".env", "QQ_SEARCH=searxng=http://a.example/"+strings.Repeat("a", 300)+"HIDDEN"+strings.Repeat("b", 300)+"\n")
	s := w.onTerminal("trust")
	s.until("show [a]ll first, [n]o: ")
	assert.NotContains(t, s.shown(), "HIDDEN")
	s.press("y\n")
	s.until("type a or n")
	require.Eventually(t, func() bool { return strings.Count(s.shown(), "show [a]ll first, [n]o: ") == 2 },
		30*time.Second, 5*time.Millisecond, "what is typed before the question is dropped")
	s.press("a\n")
	s.until("[y]es, [n]o: ")
	assert.Contains(t, strings.ReplaceAll(s.shown(), "\n  ┆ ", ""), "HIDDEN")
	s.press("y\n")
	assert.Zero(t, s.wait().code)
}

// TestTrustCommandWhole: all of a slash command of a checkout is shown before it can be trusted.
func TestTrustCommandWhole(t *testing.T) {
	w := newWorld(t)
	w.file(".qq/commands/fix.md", strings.Repeat("Be kind. ", 50)+"\nHIDDEN\n"+strings.Repeat("Be brief. ", 50))
	s := w.onTerminal("trust")
	s.until("show [a]ll first, [n]o: ")
	assert.NotContains(t, s.shown(), "HIDDEN")
	s.press("a\n")
	s.until("[y]es, [n]o: ")
	assert.Contains(t, s.shown(), "HIDDEN")
	s.press("n\n")
	assert.Equal(t, 1, s.wait().code)
	assert.Contains(t, w.run("trust").out, "HIDDEN", "without a terminal the lines are all that a person sees")
}

// TestTrustUnstored: an answer counts in its run also if it cannot be stored.
func TestTrustUnstored(t *testing.T) {
	w := newWorld(t)
	w.file("t.txt", "The moon pulls the sea. The sea rises. Tides come and go.\n")
	w.file(".env", "QQ_RETRIES=9\n")
	require.NoError(t, os.MkdirAll(filepath.Join(w.home, "qq"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(w.home, "qq", "trust"), nil, 0o600))
	s := w.onTerminal("Summarize t.txt")
	s.until("[n]o: ")
	s.press("y\n")
	e := s.wait()
	assert.Zero(t, e.code)
	assert.Contains(t, e.out, "qq: the answer counts for this run only: ")
	assert.NotContains(t, e.out, "ignored")
	assert.Equal(t, 1, w.run("trust", "--yes").code)
}
