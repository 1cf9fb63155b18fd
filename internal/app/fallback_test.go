package app

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
	"qq/pkg/task"
)

// TestFallback: another model answers if the server of the first is away when the run starts, is busy, or goes away
// meanwhile. The result, the ledger and stderr say which one answered.
func TestFallback(t *testing.T) {
	w, spare := newServedWorld(t)
	w.set("QQ_SERVER_spare=ollama "+spare.URL, "QQ_SERVER_away=ollama 127.0.0.1:1", "QQ_FALLBACK=away:x,spare:stand-in")
	busy := standin.Start(t)
	busy.Strike(standin.Rule{Fault: standin.Fault{Status: 503}})
	for name, host := range map[string]string{"away": "127.0.0.1:1", "busy": busy.URL} {
		t.Run(name, func(t *testing.T) {
			w := w.with("OLLAMA_HOST=" + host)
			e := w.run("--output-format", "json", "hello")
			require.Equal(t, 0, e.code, e.errors)
			var res task.Result
			require.NoError(t, json.Unmarshal([]byte(e.out), &res))
			assert.Equal(t, "spare:stand-in", res.Model)
			assert.Contains(t, e.errors, "going on with spare:stand-in")
			e = w.run("batch", "--output-format", "jsonl", "-m", "say {}", ":::", "a", "b", "c")
			require.Equal(t, 0, e.code, e.errors)
			for _, l := range jsonLines(t, e.out) {
				assert.Equal(t, "spare:stand-in", l["model"])
			}
			assert.Contains(t, e.errors, "spare:stand-in")
			assert.LessOrEqual(t, strings.Count(e.errors, "\n"), 6, "not for each task: %s", e.errors)
			assert.Contains(t, w.run("runs", "list", "--json").out, `"spare:stand-in"`)
		})
	}
}
