package scenario

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// unplain is text that would clear a screen, change its colours and turn the direction of what follows.
const unplain = "x\x1b[2J\u009b31m\u0085\u202ey\u2066\x7f"

// assertPlain: a terminal finds nothing to obey in text.
func assertPlain(t *testing.T, text string) {
	t.Helper()
	i := strings.IndexFunc(text, func(r rune) bool {
		return unicode.IsControl(r) && !strings.ContainsRune("\n\r\t", r) || unicode.Is(unicode.Bidi_Control, r)
	})
	assert.Negative(t, i, "%q", text[max(i, 0):])
}

// TestLooksArePlain: what the commands that only look print is plain, whatever a server and files say.
func TestLooksArePlain(t *testing.T) {
	mux := http.NewServeMux()
	reply := func(path string, v any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(v) })
	}
	reply("/api/version", map[string]any{"version": unplain})
	reply("/api/tags", map[string]any{"models": []any{map[string]any{"name": unplain, "model": unplain}}})
	reply("/api/show", map[string]any{"capabilities": []string{"completion"}})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	w := newWorld(t, s.Listener.Addr().String(), "none", "QQ_MODEL=auto",
		"XDG_CONFIG_HOME="+filepath.Join(t.TempDir(), "set"+unplain))
	config := filepath.Join(strings.TrimPrefix(w.env[len(w.env)-1], "XDG_CONFIG_HOME="), "qq")
	require.NoError(t, os.MkdirAll(filepath.Join(config, "agents"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(config, ".env"), []byte("QQ_MAX_OUTPUT=7\n"), 0o600))
	w.file(".qq/agents/nice.md", "---\nname: nice\ndescription: \""+strings.ReplaceAll(unplain, "\x1b", `\e`)+
		"\"\n---\n"+unplain+"\n")
	w.file(".qq/agents/bad"+unplain+".md", "---\nnonsense: [\n---\n")
	sessions := filepath.Join(w.dir, "qq", "sessions")
	require.NoError(t, os.MkdirAll(sessions, 0o700))
	said, err := json.Marshal(unplain)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(sessions, "20260101-000000-abcd.jsonl"), fmt.Appendf(nil,
		`{"v":1,"id":"20260101-000000-abcd","created":"2026-01-01T00:00:00Z","agent":%s,"model":%s,"dir":%s}`+"\n"+
			`{"role":"user","content":%s,"time":"2026-01-01T00:00:00Z"}`+"\n", said, said, said, said), 0o600))
	for _, args := range [][]string{
		{"doctor"}, {"doctor", "--json"}, {"agents"}, {"agents", "show", "nice"}, {"agents", "check"}, {"config"},
		{"sessions"}, {"sessions", "show", "20260101"}, {"sessions", "show", "20260101", "--json"},
		{"agents", "--json"}, {"config", "--json"}, {"runs"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			e := w.qq(args...)
			assertPlain(t, e.stdout)
			assertPlain(t, e.stderr)
		})
	}
	assert.Contains(t, w.qq("doctor").stdout, "<U+202E>", "spelled out")
}

// TestJSONOnATerminal: JSON on a terminal is plain, and has the values that it has in a file.
func TestJSONOnATerminal(t *testing.T) {
	said, err := json.Marshal(unplain)
	require.NoError(t, err)
	addr := rawModel(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"message":{"content":%s},"done":true,"done_reason":"stop"}`+"\n", said)
	})
	for _, format := range []string{"json", "stream-json"} {
		t.Run(format, func(t *testing.T) {
			shown, _, code := newWorld(t, addr, played).toTerminal("-m", "Say it.", "--output-format", format)
			assert.Equal(t, 0, code)
			assertPlain(t, shown)
			lines := strings.Split(strings.TrimSpace(shown), "\n")
			assert.Equal(t, unplain, *parse(t, lines[len(lines)-1]).Output)
		})
	}
	for _, format := range []string{"json", "jsonl", "stream-json"} {
		t.Run("of a batch, "+format, func(t *testing.T) {
			w := newWorld(t, addr, played)
			w.file("tasks", "Say it.\n")
			shown, _, code := w.toTerminal("batch", "--no-bar", "tasks", "--output-format", format)
			assert.Equal(t, 0, code)
			assertPlain(t, shown)
			assert.Contains(t, shown, `\u202ey`)
		})
	}
}
