package app

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newKeyWorld makes a world with a model behind a server that wants the key, which command prints.
func newKeyWorld(t *testing.T, command string) *world {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer the-right-key":
			http.Error(w, "who are you?", http.StatusUnauthorized)
		case r.URL.Path == "/models":
			_, _ = io.WriteString(w, `{"data":[{"id":"m","context_length":9000}]}`)
		default:
			_, _ = io.WriteString(w, `data: {"choices":[{"delta":{"content":"Done."},"finish_reason":"stop"}]}`+"\n\n")
		}
	}))
	t.Cleanup(server.Close)
	w := newWorld(t)
	w.set("QQ_SERVER_lab=openai "+server.URL+" key_cmd="+command, "QQ_MODEL=lab:m", "QQ_RETRIES=0", "MY_PIN=1234")
	return w
}

// TestKeyCommandAsks: a key command can ask the person at the terminal, without an echo, once, and gets the
// environment of the user. What the run writes does not come between.
func TestKeyCommandAsks(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	w := newKeyWorld(t, "echo x >> "+count+"; stty -echo < /dev/tty; printf 'PIN: ' > /dev/tty; read pin < /dev/tty; "+
		"stty echo < /dev/tty; [ \"$pin\" = $MY_PIN ] && echo the-right-key")
	w.file("tasks.txt", "one\ntwo\nthree\n")
	s := w.onTerminal("batch", "tasks.txt", "-j", "3")
	s.until("PIN: ")
	s.press("1234\n")
	e := s.wait()
	assert.Zero(t, e.code, e.out)
	assert.Contains(t, e.out, "3 completed")
	assert.NotContains(t, e.out, "1234")
	asked, err := os.ReadFile(count)
	require.NoError(t, err)
	assert.Equal(t, "x\n", string(asked))

	s = w.onTerminal("hello")
	s.until("PIN: ")
	s.press("4321\n")
	e = s.wait()
	assert.Equal(t, 2, e.code, e.out)
	assert.Contains(t, e.out, "key_cmd of QQ_SERVER_lab: it exited with 1")

	s = w.onTerminal("hello")
	s.until("PIN: ")
	s.press("\x03")
	e = s.wait()
	assert.Equal(t, 130, e.code, e.out)
}

// TestKeyCommandAlone: without a terminal a key command works too, and does not read what is meant for the run. What
// it cannot ask is an error, before anything is started.
func TestKeyCommandAlone(t *testing.T) {
	w := newKeyWorld(t, "cat > /dev/null; echo the-right-key")
	e := w.pipe("one\ntwo\n", "batch", "--no-bar")
	assert.Zero(t, e.code, e.errors)
	assert.Equal(t, "Done.\nDone.\n", e.out)

	w = newKeyWorld(t, "read pin < /dev/tty && echo the-right-key")
	w.file("tasks.txt", "one\ntwo\n")
	cmd := w.command("batch", "--no-bar", "tasks.txt")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // as under cron
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	assert.Equal(t, 2, cmd.ProcessState.ExitCode(), string(out))
	assert.Contains(t, string(out), "key_cmd of QQ_SERVER_lab: it exited with ")
	assert.Contains(t, string(out), "  hint: run the command by itself: the first line that it prints must be the key")

	for command, want := range map[string]string{
		"true": "it prints nothing", "echo two words": "has characters that no key", "exit 4": "it exited with 4",
	} {
		e := newKeyWorld(t, command).run("hello")
		assert.Equal(t, 2, e.code, command)
		assert.Contains(t, e.errors, want)
	}
	e = newKeyWorld(t, "echo another-key").run("hello")
	assert.NotZero(t, e.code)
	assert.Contains(t, e.errors, "answered 401: who are you?")
	assert.Contains(t, e.errors, "  hint: check the key that key= or key_cmd= of QQ_SERVER_lab names")
}
