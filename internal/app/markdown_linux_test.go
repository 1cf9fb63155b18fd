package app

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
)

// TestAnswerIsFormatted: on a terminal with colours an answer in Markdown is formatted while it comes, whatever else
// the terminal does; without colours, with QQ_MARKDOWN=off and in a pipe it is as the model wrote it.
func TestAnswerIsFormatted(t *testing.T) {
	const text = "# Found\n\n- **one** `two`\n\n| a | b |\n|---|---|\n| c | \x1b[2Jd |\n\n```go\nreturn nil\n```"
	w, _ := newServedWorld(t, standin.Scripts(standin.Script{Start: "[[format]]", Text: text}))
	w.set("TERM=xterm")
	got := w.onTerminal("[[format]]").wait()
	require.Equal(t, 0, got.code, got.out)
	const want = "\x1b[1;35mFound\x1b[0m\n\n• \x1b[1mone\x1b[0m \x1b[36mtwo\x1b[0m\n\n" +
		"\x1b[1ma\x1b[0m\x1b[2m │ \x1b[0m\x1b[1mb\x1b[0m\n\x1b[2m──┼──────\x1b[0m\nc\x1b[2m │ \x1b[0m␛[2Jd\n\n" +
		"    \x1b[35mreturn\x1b[0m \x1b[35mnil\x1b[0m\n"
	assert.Equal(t, want, got.out)

	plain := strings.ReplaceAll(text, "\x1b", "")
	for name, env := range map[string]string{
		"colours": "NO_COLOR=1", "setting": "QQ_MARKDOWN=off", "terminal": "TERM=dumb",
	} {
		assert.Contains(t, w.with(env).onTerminal("[[format]]").wait().out, plain, name)
	}
	var out bytes.Buffer
	piped := w.command("[[format]]")
	piped.Stdout = &out
	w.onTerminalOf(80, piped).wait()
	assert.Equal(t, text+"\n", out.String())
}

// TestAnswerIsResized: while an answer comes, the terminal gets narrow: the lines after that fit.
func TestAnswerIsResized(t *testing.T) {
	words := strings.Repeat("word ", 29) + "end"
	w, _ := newServedWorld(t, standin.Scripts(standin.Script{Start: "[[format]]", Text: words + "\n\n" + words,
		Fault: &standin.Fault{Between: 20 * time.Millisecond}}))
	w.set("TERM=xterm")
	s := w.onTerminal("-q", "[[format]]")
	s.until("word word")
	require.NoError(t, pty.Setsize(s.keys.(*os.File), &pty.Winsize{Rows: 24, Cols: 40}))
	got := s.wait()
	first, second, ok := strings.Cut(got.out, "end\n\n")
	require.True(t, ok, "%q", got.out)
	widest := func(text string) (wide int) {
		for line := range strings.Lines(text) {
			wide = max(wide, len(strings.TrimSuffix(line, "\n")))
		}
		return wide
	}
	assert.Equal(t, 79, widest(first), "%q", first)
	assert.Equal(t, 39, widest(second), "%q", second)
}
