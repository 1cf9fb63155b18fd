package scenario

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// startWith starts qq with stdin, and closes it in this process.
func (w *world) startWith(stdin *os.File, args ...string) *running {
	w.t.Helper()
	r := w.prepared("", args...)
	r.cmd.Stdin = stdin
	require.NoError(w.t, r.cmd.Start())
	require.NoError(w.t, stdin.Close())
	return r
}

// emptyStdins are the empty inputs that jobs get: of GNU parallel and cron a pipe at its end, of
// others an empty file, or /dev/null.
func (w *world) emptyStdins() map[string]func() *os.File {
	open := func(path string) *os.File {
		f, err := os.Open(path)
		require.NoError(w.t, err)
		return f
	}
	return map[string]func() *os.File{
		"a pipe": func() *os.File {
			r, end, err := os.Pipe()
			require.NoError(w.t, err)
			require.NoError(w.t, end.Close())
			return r
		},
		"a file":      func() *os.File { return open(w.file("empty", "")) },
		"blank lines": func() *os.File { return open(w.file("blank", "\n \n")) },
		"/dev/null":   func() *os.File { return open(os.DevNull) },
	}
}

// TestEmptyStdin: an empty stdin beside a prompt is a note and no error; without a prompt it is one.
func TestEmptyStdin(t *testing.T) {
	const note = "stdin is empty"
	m := endurePlay(t, endureEcho)
	w := newWorld(t, m.addr, played)
	for name, stdin := range w.emptyStdins() {
		t.Run(name, func(t *testing.T) {
			read := name != "/dev/null"
			e := w.startWith(stdin(), "Hello.").wait()
			e.answered("Answer to Hello.")
			assert.Equal(t, read, strings.Contains(e.stderr, note), e.stderr)
			e = w.startWith(stdin(), "-q", "-m", "Hello.").wait()
			e.answered("Answer to Hello.")
			assert.Empty(t, e.stderr, "a note")
			e = w.startWith(stdin(), "--no-stdin", "--json", "-f", w.file("prompt", "Hello.\n")).wait()
			assert.Equal(t, "Answer to Hello.", *e.json().Output)
			assert.Empty(t, e.stderr, "it was not read")

			e = w.startWith(stdin()).wait()
			assert.Equal(t, 2, e.code, "nothing to do")
			e = w.startWith(stdin(), "-m", "-").wait()
			assert.Equal(t, 2, e.code, "nothing to do")
		})
	}
}

// TestSilentStdin: an open pipe that says nothing is waited for, with a word after three seconds that
// says how to go without; --no-stdin does not wait.
func TestSilentStdin(t *testing.T) {
	m := endurePlay(t, endureEcho)
	w := newWorld(t, m.addr, played)
	stdin, writer, err := os.Pipe()
	require.NoError(t, err)
	log := filepath.Join(w.dir, "said")
	said, err := os.Create(log)
	require.NoError(t, err)
	defer said.Close()
	r := w.prepared("", "Hello.")
	r.cmd.Stdin, r.cmd.Stderr = stdin, said
	start := time.Now()
	require.NoError(t, r.cmd.Start())
	require.NoError(t, stdin.Close())
	word := func() string {
		text, err := os.ReadFile(log)
		require.NoError(t, err)
		return string(text)
	}
	w.until(20*time.Second, "it says that it waits", func() bool { return word() != "" })
	assert.GreaterOrEqual(t, time.Since(start), 2500*time.Millisecond)
	assert.Contains(t, word(), "</dev/null")
	assert.Contains(t, word(), "--no-stdin")
	assert.Zero(t, m.requests(), "it waits")
	_, err = io.WriteString(writer, "The context.\n")
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	r.wait().answered("Answer to Hello.")
	assert.Contains(t, m.asked[0].body, "The context.")

	stdin, writer, err = os.Pipe()
	require.NoError(t, err)
	defer writer.Close()
	w.startWith(stdin, "Hello.", "--no-stdin").wait().answered("Answer to Hello.")
}

// TestJobsOfAList: in a loop over a list, --no-stdin leaves the list alone.
func TestJobsOfAList(t *testing.T) {
	m := endurePlay(t, endureEcho)
	w := newWorld(t, m.addr, played)
	list, err := os.Open(w.file("list", "one\ntwo\nthree\n"))
	require.NoError(t, err)
	r := w.prepared("")
	r.cmd.Path, r.cmd.Args = "/bin/sh", []string{"sh", "-c",
		`while read -r word; do "$0" --no-stdin "Say $word"; done`, w.bin}
	r.cmd.Stdin = list
	require.NoError(t, r.cmd.Start())
	require.NoError(t, list.Close())
	r.wait().answered("Answer to Say one\nAnswer to Say two\nAnswer to Say three")
}
