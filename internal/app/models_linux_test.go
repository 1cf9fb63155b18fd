package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qq/internal/app/modelcmd/labtest"
	"qq/internal/standin"
)

// userFile returns the text of the .env of the user, which only the user can read; "" if there is none.
func (w *world) userFile() string {
	w.t.Helper()
	path := filepath.Join(w.home, "config", "qq", ".env")
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return ""
	}
	require.NoError(w.t, err)
	info, err := os.Stat(path)
	require.NoError(w.t, err)
	assert.Equal(w.t, os.FileMode(0o600), info.Mode())
	return string(text)
}

// TestSetupAsks: on a terminal qq setup asks before it tests and writes; the second time there is nothing to ask.
func TestSetupAsks(t *testing.T) {
	w, server := newServedWorld(t)
	w.dead()
	w.set("QQ_MODEL=", "TERM=xterm")
	for _, keys := range []string{"n\n", "\n"} {
		s := w.onTerminal("setup")
		s.until("Test ollama:stand-in:latest and write it?\n[y]es, [n]o: ")
		s.press(keys)
		e := s.wait()
		assert.Equal(t, 1, e.code)
		assert.Contains(t, e.out, "qq: nothing is written; for another model: qq setup MODEL")
		assert.Empty(t, w.userFile())
	}
	s := w.onTerminal("setup")
	s.until("[y]es, [n]o: ")
	s.press("\x03")
	e := s.wait()
	assert.Equal(t, 130, e.code)
	assert.Contains(t, e.out, "nothing is written")
	assert.Empty(t, w.userFile())
	assert.Empty(t, server.Chats(), "nothing is sent before the answer")

	s = w.onTerminal("setup")
	s.until("  │ QQ_MODEL=ollama:stand-in:latest\n")
	s.until("[y]es, [n]o: ")
	s.press("y\n")
	e = s.wait()
	assert.Zero(t, e.code, e.out)
	assert.Contains(t, e.out, "ok  answer ")
	assert.Contains(t, e.out, "/.env now says QQ_MODEL=ollama:stand-in:latest\n")
	assert.Equal(t, "QQ_MODEL=ollama:stand-in:latest\n", w.userFile())

	e = w.onTerminal("setup").wait()
	assert.Zero(t, e.code, e.out)
	assert.Contains(t, e.out, "says QQ_MODEL=ollama:stand-in:latest already\n")
	assert.NotContains(t, e.out, "[y]es")
}

// TestSetupPastedKey: with nothing on this machine, a person can name a server and paste its key. The key is not shown
// while it is typed nor later, is written only after a test, and Ctrl-C leaves the terminal as it was.
func TestSetupPastedKey(t *testing.T) {
	const key = "marker-of-the-key"
	lab := labtest.Start(t, labtest.Lab{Key: key})
	w := newWorld(t)
	w.dead()
	w.set("QQ_MODEL=", "TERM=xterm", "QQ_SERVER_openai=openai "+lab.URL+"/v1 key=LAB_KEY")
	s := w.onTerminal("setup", "openai")
	s.until("LAB_KEY: ")
	require.False(t, echoes(t, s))
	s.press("\x03")
	s.until("stopped by a signal")
	assert.True(t, echoes(t, s))
	assert.Equal(t, 130, s.wait().code)

	s = w.onTerminal("setup", "openai")
	s.until("LAB_KEY: ")
	s.press("wrong\n")
	e := s.wait()
	assert.Equal(t, 1, e.code)
	assert.Contains(t, e.out, "answered 401: wrong key\n"+
		"  hint: it is the key that you pasted; to paste another one: qq setup openai\n")

	s = w.onTerminal("setup", "openai")
	s.until("LAB_KEY: ")
	s.press("\n")
	e = s.wait()
	assert.Equal(t, 2, e.code)
	assert.Contains(t, e.out, "nothing is written: there is no key")
	assert.Empty(t, w.userFile())

	s = w.onTerminal("setup", "openai:small")
	s.until("LAB_KEY: ")
	s.press(key + "\n")
	s.until("LAB_KEY=(the key that you pasted)")
	s.until("[y]es, [n]o: ")
	s.press("y\n")
	e = s.wait()
	assert.Zero(t, e.code, e.out)
	assert.NotContains(t, e.out, key)
	assert.Contains(t, w.userFile(), "QQ_MODEL=openai:small\n")
	assert.Contains(t, w.userFile(), "LAB_KEY="+key+"\n")
	assert.Equal(t, "I am ready.\n", w.run("hello").out, "the next run uses both")
}

// TestSetupNothing: where there is nothing, setup asks for the name of a server whose key the person has, and again if
// it is misspelt.
func TestSetupNothing(t *testing.T) {
	w := newWorld(t)
	w.dead()
	w.set("QQ_MODEL=")
	s := w.onTerminal("setup")
	s.until("alone leaves.\nname: ")
	s.press("\n")
	e := s.wait()
	assert.Equal(t, 3, e.code)
	assert.Contains(t, e.out, "qq: nothing to propose")
	s = w.onTerminal("setup")
	s.until("name: ")
	s.press("antropic\n")
	s.until(`no server is called "antropic": type anthropic; Enter alone leaves.` + "\nname: ")
	s.press("nobody\n")
	s.until("no server is called \"nobody\": type openai, ")
	s.until("name: ")
	s.press("anthropic\n")
	s.until("ANTHROPIC_API_KEY: ")
	s.press("\n")
	e = s.wait()
	assert.Equal(t, 2, e.code)
	assert.Contains(t, e.out, "nothing is written: there is no key")
	assert.Empty(t, w.userFile())
}

// echoes reports whether the terminal shows what is typed.
func echoes(t *testing.T, s *screen) bool {
	t.Helper()
	mode, err := unix.IoctlGetTermios(int(s.keys.(*os.File).Fd()), unix.TCGETS)
	require.NoError(t, err)
	return mode.Lflag&unix.ECHO != 0
}

// pulling is an Ollama server that downloads a model, in steps that the test lets it take.
func pulling(t *testing.T, steps <-chan string) (host string, gone <-chan struct{}) {
	t.Helper()
	left := make(chan struct{}, 9)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for {
			select {
			case step, ok := <-steps:
				if !ok {
					return
				}
				fmt.Fprintln(w, step)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				left <- struct{}{}
				return
			}
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, left
}

// TestPullShows: a pull shows how far it is, on a terminal with a bar that goes at the end, elsewhere with lines.
func TestPullShows(t *testing.T) {
	layer := func(done int) string {
		return fmt.Sprintf(`{"status":"pulling abc","digest":"sha256:abc","total":2000000000,"completed":%d}`, done)
	}
	w := newWorld(t)
	steps := make(chan string)
	host, gone := pulling(t, steps)
	w.set("OLLAMA_HOST="+host, "TERM=xterm")
	for _, c := range []struct {
		columns int
		shown   string
	}{{80, "pulling abc, 25% of 2.0 GB [=======                       ]"}, {40, "pulling abc, 25% of 2.0 GB"}} {
		s := w.onTerminalOf(c.columns, w.command("models", "pull", "m"))
		steps <- layer(500_000_000)
		s.until(c.shown)
		s.press("\x03")
		<-gone // the server has no need to go on
		e := s.wait()
		assert.Equal(t, 130, e.code)
		assert.Contains(t, e.out, "\r\x1b[Kqq: stopped by a signal: ollama:m is not complete\n  hint: ")
	}
	for name, plain := range map[string]*world{"no terminal": w, "NO_COLOR": w.with("NO_COLOR=1")} {
		steps := make(chan string, 9)
		host, _ := pulling(t, steps)
		for _, step := range []string{`{"status":"pulling manifest"}`, layer(500_000_000), layer(600_000_000),
			layer(2_000_000_000), `{"status":"success"}`} {
			steps <- step
		}
		close(steps)
		other := plain.with("OLLAMA_HOST=" + host)
		e := ended{}
		if name == "NO_COLOR" {
			e = other.onTerminal("models", "pull", "m").wait()
			e.errors = e.out
		} else {
			e = other.run("models", "pull", "m")
		}
		assert.Zero(t, e.code, name)
		assert.Equal(t, "qq: pulling manifest\nqq: pulling abc, 25% of 2.0 GB\nqq: success\nqq: ollama:m is there\n",
			e.errors, name)
		assert.NotContains(t, e.errors, "\x1b", name)
	}
	broken := make(chan string)
	close(broken)
	host, _ = pulling(t, broken)
	e := w.with("OLLAMA_HOST="+host).run("models", "pull", "m")
	assert.NotZero(t, e.code, "nobody said that it succeeded")
	assert.Contains(t, e.errors, "broke off")
	e = w.with("OLLAMA_HOST="+host).run("models", "pull", "m", "--json")
	assert.Equal(t, e.code, e.document(t).ExitCode)
}

// TestPullOfLies: sizes that no file has, and a status without an end, break neither the bar nor the lines.
func TestPullOfLies(t *testing.T) {
	for _, c := range []struct{ step, bar, line string }{
		{`{"status":"a","digest":"d","total":9223372036854775807,"completed":4611686018427387904}`,
			"a, 50% of 9223372036.9 GB [===============               ]", "qq: a, 50% of 9223372036.9 GB\n"},
		{`{"status":"b","digest":"d","total":10,"completed":9223372036854775807}`,
			"b, 100% of 1 kB [==============================]", "qq: b, 100% of 1 kB\n"},
		{`{"status":"c","digest":"d","total":10,"completed":-9223372036854775808}`,
			"c, 0% of 1 kB [                              ]", "qq: c, 0% of 1 kB\n"},
		{`{"status":"` + strings.Repeat("x", 100_000) + `"}`, "xxx...", "qq: " + strings.Repeat("x", 297)},
	} {
		w := newWorld(t)
		for _, terminal := range []bool{true, false} {
			steps := make(chan string, 9)
			steps <- c.step
			steps <- `{"status":"success"}`
			close(steps)
			host, _ := pulling(t, steps)
			w.set("OLLAMA_HOST="+host, "TERM=xterm")
			if terminal {
				e := w.onTerminal("models", "pull", "m").wait()
				assert.Zero(t, e.code, e.out)
				assert.Contains(t, e.out, c.bar)
				continue
			}
			e := w.run("models", "pull", "m")
			assert.Zero(t, e.code, e.errors)
			assert.Contains(t, e.errors, c.line)
			assert.Less(t, len(e.errors), 500)
		}
	}
}

// TestModelsTest: a test ends in time, and its exit code is that of the plain answer.
func TestModelsTest(t *testing.T) {
	list := `{"data":[{"id":"m"}]}`
	for name, c := range map[string]struct {
		lab  labtest.Lab
		code int
		want string
	}{
		"mute":  {labtest.Lab{List: list, Mute: true}, 1, "no  answer     lab at "},
		"wordy": {labtest.Lab{List: list, Wordy: true}, 0, "no  tool call  it answered in words and called no tool"},
	} {
		lab := labtest.Start(t, c.lab)
		w := newWorld(t)
		w.set("QQ_SERVER_lab=openai " + lab.URL + "/v1")
		e := w.run("models", "test", "lab:m")
		assert.Equal(t, c.code, e.code, name)
		assert.Contains(t, e.out, c.want, name)
		e = w.run("models", "test", "lab:m", "--json")
		assert.Equal(t, c.code, e.code, name)
		assert.Equal(t, 1, strings.Count(e.out, "\n"), "%s: one document: %s", name, e.out)
	}
	w, _ := newServedWorld(t)
	w.set("QQ_MODEL=auto")
	assert.Contains(t, w.run("models", "test").errors, "the model of a run is ollama:", "not: auto")
	spent := standin.Start(t, standin.Faulty("/v1/chat/completions", standin.Fault{Status: 402, Error: "pay"}))
	w.set("QQ_SERVER_lab=openai " + spent.URL + "/v1")
	assert.Contains(t, w.run("models", "test", "lab:"+standin.DefaultModel).errors,
		"\n  hint: look at your plan and balance there, or take another model\n", "it has no flag --on-quota")
	server := standin.Start(t, standin.Faulty("/api/chat", standin.Fault{Break: standin.Stall}))
	w = newWorld(t)
	w.set("OLLAMA_HOST=" + server.URL)
	began := time.Now()
	e := w.run("models", "test", "ollama:stand-in", "--timeout", "1")
	assert.Equal(t, 3, e.code, e.errors)
	assert.Contains(t, e.errors, "no whole answer within 1s")
	assert.Less(t, time.Since(began), 5*time.Second)
}

// TestModelsFit: the tables of models fit the terminal.
func TestModelsFit(t *testing.T) {
	w, _ := newServedWorld(t)
	lab := labtest.Start(t, labtest.Lab{})
	w.dead()
	w.set("QQ_SERVER_lab=openai " + lab.URL + "/v1")
	for _, args := range [][]string{{"list", "-q", "--server", "lab"}, {"show"}, {"show", "lab:small"}} {
		w.assertFits(append([]string{"models"}, args...)...)
	}
}

// TestModelsSlow: servers are asked at once, and one that does not answer holds up the others for a short time only.
func TestModelsSlow(t *testing.T) {
	w, _ := newServedWorld(t)
	w.dead()
	for _, name := range []string{"slow", "slower"} {
		w.set("QQ_SERVER_" + name + "=openai " + labtest.Start(t, labtest.Lab{Silent: true}).URL + "/v1")
	}
	began := time.Now()
	e := w.run("models")
	assert.Less(t, time.Since(began), 5*time.Second)
	assert.Zero(t, e.code)
	assert.Contains(t, e.out, "ollama:stand-in:latest")
	assert.Contains(t, e.errors, "qq: no answer from slow within 3s\n")
	assert.Contains(t, e.errors, "qq: no answer from slower within 3s\n")
}
