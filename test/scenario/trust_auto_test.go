package scenario

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// nowhere is an address at which nobody listens.
const nowhere = "127.0.0.1:1"

// noModels is a server that has no model.
func noModels(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"version": "0.17.4", "models": []any{}})
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// TestAutoBatch: a batch whose model is chosen by itself does not fall back on the built-in one: it
// ends with exit 3 before anything starts. The built-in model is used where a person names it.
func TestAutoBatch(t *testing.T) {
	const tasks = "Summarize: The sea is wide and deep. Ships cross the sea.\n"
	for name, host := range map[string]string{"no server": nowhere, "no model": noModels(t)} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, host, "none", "QQ_MODEL=auto", "QQ_RETRIES=0")
			kept := w.file("answers.txt", "of yesterday\n")
			e := w.start(tasks, "batch", "--no-bar", "-o", "answers.txt").wait()
			assert.Equal(t, 3, e.code, "exit code")
			assert.Empty(t, e.stdout)
			assert.Contains(t, e.stderr, "--model extract")
			assert.Empty(t, w.spawned())
			text, err := os.ReadFile(kept)
			require.NoError(t, err)
			assert.Equal(t, "of yesterday\n", string(text))
			assert.NoDirExists(t, filepath.Join(w.dir, "qq", "ledger"), "nothing is recorded")

			r := w.start(tasks, "batch", "--no-bar", "--json").wait().json()
			assert.Equal(t, "unavailable", r.Status)
			w.start(tasks, "batch", "--no-bar", "--model", "extract").wait().answered(
				"The sea is wide and deep. Ships cross the sea.")
			w.env = append(w.env, "QQ_MODEL=extract")
			w.start(tasks, "batch", "--no-bar").wait().answered("The sea is wide and deep. Ships cross the sea.")
		})
	}
}

// TestAutoPrompt: a single prompt may fall back, and says so, with -q too, and in its warnings.
func TestAutoPrompt(t *testing.T) {
	const said = "using the built-in extractive model"
	w := newWorld(t, nowhere, "none", "QQ_MODEL=auto", "QQ_RETRIES=0")
	for _, flags := range [][]string{nil, {"-q"}} {
		e := w.qq(append([]string{"Summarize: The sea is wide and deep."}, flags...)...)
		e.answered("The sea is wide and deep.")
		assert.Contains(t, e.stderr, said, flags)

		e = w.qq(append([]string{"Summarize: The sea is wide and deep.", "--json"}, flags...)...)
		assert.Contains(t, e.stderr, said, flags)
		r := endureParse(t, e.stdout)
		require.Len(t, r.Warnings, 1)
		assert.Contains(t, r.Warnings[0], said)
	}
	e := w.qq("Summarize: The sea is wide and deep.", "--model", "extract", "--json")
	assert.Empty(t, e.stderr, "a person chose it")
	assert.Empty(t, endureParse(t, e.stdout).Warnings)
}

// TestExtractRefuses: the built-in model refuses what it cannot do, and does not leave it out. It
// names that part, and how to get a model that can.
func TestExtractRefuses(t *testing.T) {
	w := newWorld(t, nowhere, "none", "QQ_MODEL=extract")
	for _, name := range []string{"notes.md", "table.md", "french.md", "json/a.md", "style/a.md"} {
		w.file(name, "The sea is wide and deep. Ships cross the sea in all seasons. Whales live in the sea.\n")
	}
	for prompt, named := range map[string]string{
		"Summarize notes.md as JSON":                      `"as JSON"`,
		"Summarize notes.md as a table":                   `"as a table"`,
		"Summarize notes.md in French":                    `"in French"`,
		"Summarize notes.md. Answer in French.":           `"in French"`,
		"Summarize notes.md in the style of a pirate":     `"in the style"`,
		"Summarize notes.md 'in the style of Hemingway'":  `"in the style of Hemingway"`,
		"Translate notes.md":                              `"Translate"`,
		"Summarize notes.md with emoji":                   `"emoji"`,
		"Write a long and detailed summary of notes.md":   `"long"`,
		"Summarize only what notes.md says about whales":  `"says"`,
		"Summarize notes.md and make it sound optimistic": `"sound"`,
	} {
		r := w.qq(prompt, "--json").failed(1, "failed")
		assert.Contains(t, *r.Error, named, prompt)
		assert.Empty(t, *r.Output, prompt)
		assert.Contains(t, w.qq(prompt).stderr, "ollama pull", prompt)
	}
	piped := w.start("The sea is wide and deep.\n", "Summarize: in French", "--json").wait().failed(1, "failed")
	assert.Contains(t, *piped.Error, "another one on stdin")
	w.qq("Summarize notes.md in 2 bullet points").answered(
		"- The sea is wide and deep.\n- Ships cross the sea in all seasons.")
	w.qq("Summarize notes.md in 1 sentence").answered("The sea is wide and deep.")
}

// TestQuietHidesNoWarning: -q hides notes and progress, and no warning.
func TestQuietHidesNoWarning(t *testing.T) {
	m := endurePlay(t, endureEcho)
	w := newWorld(t, m.addr, played)
	w.file(".env", "QQ_APPROVE=auto\n")
	w.file(".qq/agents/odd.md", "---\nname: odd\ndescription: d\nnonsense: 1\n---\nx\n")
	e := w.qq("-q", "Hello.", "--agent", "odd")
	e.answered("Answer to Hello.")
	assert.Contains(t, e.stderr, "QQ_APPROVE", "a setting that does not count")
	assert.Contains(t, e.stderr, "nonsense", "a definition with an unknown key")

	e = w.start("One.\nTwo.\n", "batch", "-q", "--bar", "--max-tokens", "1", "-j", "1", "--halt", "soon").wait()
	assert.Equal(t, 5, e.code)
	assert.Contains(t, e.stderr, "QQ_APPROVE")
	assert.Contains(t, e.stderr, "Token budget exhausted")
	assert.NotContains(t, e.stderr, " in 0.", "the totals are a note")
	assert.NotContains(t, e.stderr, "to continue", "a note")
	assert.NotContains(t, e.stderr, "\r", "progress")
}
