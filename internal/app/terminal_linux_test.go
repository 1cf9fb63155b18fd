package app

import (
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/columns"
	"qq/internal/app/output"
	"qq/internal/standin"
)

// screen is a terminal with a qq on it.
type screen struct {
	w    *world
	wait func() ended

	mu   sync.Mutex
	text strings.Builder // all that was written to it
	keys io.Writer
}

// onTerminal starts qq with a terminal for stdin, stdout and stderr.
func (w *world) onTerminal(args ...string) *screen {
	w.t.Helper()
	return w.onTerminalOf(80, w.command(args...))
}

// onTerminalOf starts cmd on a terminal with that many columns, for its standard streams that are not set.
func (w *world) onTerminalOf(columns int, cmd *exec.Cmd) *screen {
	w.t.Helper()
	return w.onTerminalSized(columns, 24, cmd)
}

// onTerminalSized starts cmd on a terminal with that many columns and rows.
func (w *world) onTerminalSized(columns, rows int, cmd *exec.Cmd) *screen {
	w.t.Helper()
	master, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: uint16(rows), Cols: uint16(columns)})
	require.NoError(w.t, err)
	s := &screen{w: w, keys: master}
	var reading sync.WaitGroup
	reading.Go(func() {
		_, _ = io.Copy(s, master) // ends with EIO when the last who has it open is gone
	})
	s.wait = func() ended {
		_ = cmd.Wait() // how it ended is in ProcessState
		reading.Wait()
		master.Close()
		return ended{code: cmd.ProcessState.ExitCode(), out: s.shown()}
	}
	return s
}

// Write implements io.Writer.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) shown() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.ReplaceAll(s.text.String(), "\r\n", "\n")
}

// until waits for a text.
func (s *screen) until(text string) {
	s.w.t.Helper()
	if !assert.Eventually(s.w.t, func() bool { return strings.Contains(s.shown(), text) }, 30*time.Second,
		5*time.Millisecond) {
		s.w.t.Fatalf("no %q on the screen:\n%s", text, s.shown())
	}
}

func (s *screen) press(keys string) {
	s.w.t.Helper()
	_, err := io.WriteString(s.keys, keys)
	require.NoError(s.w.t, err)
}

// TestTerminalStreams: on a terminal an answer is shown while it is written, once,
// and Ctrl-C ends it.
func TestTerminalStreams(t *testing.T) {
	w, _ := newServedWorld(t, standin.Scripts(
		standin.Script{
			Start: "[[stall]]",
			Text:  "one two three",
			Fault: &standin.Fault{Break: standin.Stall, After: 2},
		},
		standin.Script{
			Start: "[[look]]",
			Text:  `A look first. <tool_call>{"name":"list_files","arguments":{"pattern":"[[seen]]"}}</tool_call>`,
		},
		standin.Script{Start: "[[seen]]", Text: "Nothing there."},
		standin.Script{Start: "[[escape]]", Text: "a\x1b[31mb\ac"},
	))
	s := w.onTerminal("[[stall]]")
	s.until("one two")
	s.press("\x03")
	e := s.wait()
	assert.Equal(t, 130, e.code)
	assert.Equal(t, 1, strings.Count(e.out, "one two"))
	assert.Contains(t, e.out, "qq: interrupted\n")

	assert.Equal(t, ended{out: "hello you\n"}, w.onTerminal("hello you").wait())
	assert.Equal(t, ended{out: "A look first. \nNothing there.\n"}, w.onTerminal("[[look]]").wait())
	assert.Equal(t, ended{out: "a[31mbc\n"}, w.onTerminal("[[escape]]").wait(), "a model may not move the cursor")
}

// TestTerminalReadsTask: with -m - a task can be typed on the terminal; without it, qq on
// a terminal reports that there is no task.
func TestTerminalReadsTask(t *testing.T) {
	w, _ := newServedWorld(t)
	s := w.onTerminal("-m", "-")
	s.press("typed by hand\n\x04")
	e := s.wait()
	assert.Zero(t, e.code)
	assert.True(t, strings.HasSuffix(e.out, "typed by hand\n"), e.out)

	e = w.onTerminal().wait()
	assert.Equal(t, 2, e.code, "no console yet")
	assert.Contains(t, e.out, "qq: no task\n  hint: ")
}

// TestTerminalProgress: a batch redraws one progress line with count and time left, if
// the terminal supports it and no flag forbids it, and removes it at the end.
func TestTerminalProgress(t *testing.T) {
	const wipe = "\r\x1b[K"
	w, _ := newServedWorld(t, standin.Scripts(
		standin.Script{Start: "[[slow]]", Text: "late", Fault: &standin.Fault{BeforeFirst: 4 * output.RedrawEvery}}))
	w.file("tasks.txt", "one\n[[slow]]\n")
	w.set("TERM=xterm")
	e := w.onTerminal("batch", "tasks.txt").wait()
	assert.Zero(t, e.code)
	assert.Regexp(t, `1/2 done, 1 at work, \d+\.\d/(s|min), 1 s left`, e.out)
	assert.Regexp(t, `(\r|\x1b8)\x1b\[K\n── \[\[slow\]\] ──\nlate\n`, e.out,
		"what is drawn is gone before: one line, or on a slow machine the lines of the agents")
	for name, plain := range map[string]*screen{
		"NO_COLOR":   w.with("NO_COLOR=1").onTerminal("batch", "tasks.txt"),
		"TERM":       w.with("TERM=dumb").onTerminal("batch", "tasks.txt"),
		"--no-color": w.onTerminal("batch", "--no-color", "tasks.txt"),
		"--no-bar":   w.onTerminal("batch", "--no-bar", "tasks.txt"),
		"--quiet":    w.onTerminal("batch", "--quiet", "tasks.txt"),
	} {
		e := plain.wait()
		assert.Zero(t, e.code, name)
		assert.NotContains(t, e.out, "\x1b", name)
		want := "── one ──\none\n\n── [[slow]] ──\nlate\n"
		if name == "--quiet" {
			want = "one\nlate\n"
		}
		assert.Contains(t, e.out, want, name)
	}
	assert.Contains(t, w.run("batch", "--bar", "tasks.txt").errors, wipe, "wanted without a terminal")
	assert.Contains(t, w.with("NO_COLOR=1").onTerminal("batch", "--bar", "tasks.txt").wait().out, wipe)
	assert.NotContains(t, w.run("batch", "tasks.txt").errors, wipe)
}

// TestTerminalHeads: on a terminal, a line names the task of each result, and what failed is said once. In a pipe or a
// file, and with --tag, there is no such line.
func TestTerminalHeads(t *testing.T) {
	w, server := newServedWorld(t, batchScripts())
	host := strings.TrimPrefix(server.URL, "http://")
	w.file("a.md", "x")
	w.file("b.md", "x")
	long := strings.Repeat("word ", 30) + "[[failing]]"
	w.file("tasks.txt", "one\n"+long+"\nthree\n")
	args := []string{"batch", "--no-bar", "-j1"}
	assert.Equal(t, "── a.md ──\nRead a.md\n\n── b.md ──\nRead b.md\nqq: 2 completed",
		strings.Split(w.onTerminal(append(args[:1:1], "-m", "Read {}", "a.md", "b.md")...).wait().out, " in ")[0])
	e := w.onTerminal(append(args, "--halt", "soon", "tasks.txt")...).wait()
	assert.Equal(t, 4, e.code)
	assert.Equal(t, "── one ──\none\n\n── "+columns.Cut(long, 72)+" ──\n"+
		"[task 2 failed: Ollama at "+host+" answered 500: out of memory]\n"+
		"  hint: the log of the Ollama server says more\n"+
		"qq: halted: a task failed, no more were started\n", cutLast(e.out))
	e = w.onTerminal(append(args, "-q", "--tag", "--halt", "soon,done=1", "tasks.txt")...).wait()
	assert.Equal(t, "one\tone\n", e.out)
}

// TestTerminalNotes: a note that is printed during a batch first removes the progress
// line.
func TestTerminalNotes(t *testing.T) {
	const wipe = "\r\x1b[K"
	w, _ := newServedWorld(t, standin.Scripts(
		standin.Script{Start: "[[slow]]", Text: "late", Fault: &standin.Fault{BeforeFirst: 2 * output.RedrawEvery}},
		standin.Script{Start: "[[busy]]", Fault: &standin.Fault{Status: 503, Error: "busy"}}))
	w.file("tasks.txt", "[[slow]]\n"+strings.Repeat("[[busy]]\n", 3)) // so many open the circuit breaker
	w.set("TERM=xterm")
	e := w.onTerminal("batch", "-v", "-j1", "tasks.txt").wait()
	assert.Equal(t, 4, e.code)
	assert.Contains(t, e.out, wipe+"qq: circuit breaker open")
	assert.Contains(t, e.out, "started: [[busy]]")
	for line := range strings.Lines(e.out) {
		shown := strings.Split(line, wipe)
		if left := shown[len(shown)-1]; strings.HasSuffix(left, "\n") {
			assert.NotRegexp(t, `^\d/4 done`, left, "written behind the progress line")
		}
	}
}

// TestTerminalUnanswered: a question waits as long as QQ_APPROVAL_TIMEOUT says. A checkout that is not trusted can
// lower that.
func TestTerminalUnanswered(t *testing.T) {
	w, _ := newServedWorld(t, standin.Reply(func(p standin.Prompt) string {
		if p.Messages[len(p.Messages)-1].Role == "tool" {
			return "I could not."
		}
		return `<tool_call>{"name":"write_file","arguments":{"path":"a.txt","content":"b"}}</tool_call>`
	}))
	refused := func(w *world, within string) {
		t.Helper()
		e := w.onTerminal("-a", "coder", "Write it.").wait()
		assert.Equal(t, 1, e.code, within)
		assert.Contains(t, e.out, "write_file was refused: unanswered: nobody answered within "+within)
		assert.Contains(t, e.out, "  hint: QQ_APPROVAL_TIMEOUT sets how many seconds a question waits")
	}
	refused(w.with("QQ_APPROVAL_TIMEOUT=0.3"), "0.3s")
	w.file(".env", "QQ_APPROVAL_TIMEOUT=0.2\n")
	refused(w, "0.2s")
}

// TestTerminalSlot: a question about a task of a batch, or about a child of it, shows the text that runs, with the
// number in the place of {%}.
func TestTerminalSlot(t *testing.T) {
	w, _ := newServedWorld(t, standin.Reply(func(p standin.Prompt) string {
		switch {
		case p.Messages[len(p.Messages)-1].Role == "tool":
			return "I could not."
		case strings.HasPrefix(p.Last("user"), "hand on"):
			return called("delegate_task", map[string]any{"task": "Write it.", "agent": "coder"})
		}
		return `<tool_call>{"name":"write_file","arguments":{"path":"a.txt","content":"b"}}</tool_call>`
	}))
	w.set("QQ_APPROVAL_TIMEOUT=0.3")
	shows := func(verb string) string {
		t.Helper()
		e := w.onTerminal("batch", "--no-bar", "-a", "worker", "-m", verb+" {%}{} {}", ":::", "{%}").wait()
		assert.Contains(t, e.out, "(no answer in time)")
		assert.NotContains(t, e.out, verb+" {%}")
		return e.out
	}
	assert.Contains(t, shows("write"), "task 1 of the batch: write 1{%} {%}\n", "the others are values")
	deep := shows("hand on")
	assert.Contains(t, deep, "task 1 of the batch: hand on 1{%} {%}\n")
	assert.Contains(t, deep, "task: Write it.\n")
}

// TestTerminalColour: colour is used only on a terminal that supports it, and not with
// NO_COLOR or --no-color.
func TestTerminalColour(t *testing.T) {
	w, _ := newServedWorld(t)
	w.set("TERM=xterm")
	assert.Contains(t, w.onTerminal("doctor").wait().out, "\x1b[32mok\x1b[0m")
	assert.NotContains(t, w.with("NO_COLOR=1").onTerminal("doctor").wait().out, "\x1b")
	assert.NotContains(t, w.with("TERM=dumb").onTerminal("doctor").wait().out, "\x1b")
	assert.NotContains(t, w.onTerminal("--no-color", "doctor").wait().out, "\x1b")
	assert.NotContains(t, w.run("doctor").out, "\x1b")
}
