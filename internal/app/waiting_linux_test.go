package app

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/columns"
	"qq/internal/app/output"
	"qq/internal/standin"
)

// wiped begins a status line, and removes it.
const wiped = "\r\x1b[K"

// kept is how a status line is kept in its row.
var kept = strings.NewReplacer("\x1b[?7l", "", "\x1b[?7h\r", "")

// drawn returns the status lines in text.
func drawn(text string) (lines []string) {
	for _, l := range strings.Split(kept.Replace(text), wiped)[1:] {
		if l != "" && !strings.Contains(l, "\n") {
			lines = append(lines, l)
		}
	}
	return lines
}

// settled returns what is left on the screen of text.
func settled(text string) string {
	var b strings.Builder
	for line := range strings.Lines(kept.Replace(text)) {
		b.WriteString(line[strings.LastIndex(line, wiped)+1:])
	}
	return strings.ReplaceAll(b.String(), wiped[1:], "")
}

// atLeisure is a world on a terminal that can redraw a line, with a server whose answers take their time.
func atLeisure(t *testing.T) *world {
	late := &standin.Fault{BeforeFirst: 1700 * time.Millisecond}
	call := func(s string) string { return "<tool_call>" + s + "</tool_call>" }
	w, _ := newServedWorld(t, standin.Scripts(
		standin.Script{Start: "[[late]]", Text: "A late answer.", Fault: late},
		standin.Script{Start: "[[never]]", Fault: &standin.Fault{BeforeFirst: -1}},
		standin.Script{Start: "[[spoken]]", Text: "one two three four five six seven", Fault: &standin.Fault{
			Between: 400 * time.Millisecond}},
		standin.Script{Start: "[[write]]", Fault: late, Text: "I write. " +
			call(`{"name":"write_file","arguments":{"path":"[[late]].txt","content":"b"}}`)},
		standin.Script{Start: "[[hand on]]", Text: call(`{"name":"run_parallel_tasks","arguments":{"tasks":[` +
			`{"agent":"executor","task":"[[sleep]] 1"},{"agent":"executor","task":"[[sleep]] 2"}]}}`)},
		standin.Script{Start: "[[sleep]]", Text: call(
			`{"name":"run_pty_cmd","arguments":{"command":"sleep 2.2; echo '[[done]]' 漢字漢字漢字漢字 \u009b2J\u001b[2J ` +
				strings.Repeat("and so on ", 20) + `"}}`)},
		standin.Script{Start: "[[done]]", Text: "Done. [[end]]"},
		standin.Script{Start: "[[end]]", Text: "All done."},
	))
	w.set("TERM=xterm")
	return w
}

// TestWaiting: on a terminal one line says how long the answer is awaited; it makes room for the answer, and a quick
// answer does not show it.
func TestWaiting(t *testing.T) {
	w := atLeisure(t)
	e := w.onTerminal("[[late]]").wait()
	assert.Zero(t, e.code)
	assert.Equal(t, "A late answer.\n", settled(e.out))
	assert.Equal(t, []string{"waiting for stand-in · 1 s"}, drawn(e.out))
	assert.Equal(t, ended{out: "quick\n"}, w.onTerminal("quick").wait())

	e = w.onTerminal("[[spoken]]").wait()
	assert.Equal(t, "one two three four five six seven\n", e.out, "the text is never wiped")

	s := w.onTerminal("[[never]]")
	s.until("· 1 s")
	s.press("\x03")
	e = s.wait()
	assert.Equal(t, 130, e.code)
	assert.Equal(t, "qq: interrupted\n", settled(e.out))
}

// TestWaitingNotShown: there is no line without a terminal on stderr, and where it is not wanted. Stdout gets nothing
// of it.
func TestWaitingNotShown(t *testing.T) {
	w := atLeisure(t)
	file := func(name string) *os.File {
		f, err := os.Create(filepath.Join(t.TempDir(), name))
		require.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	screens := map[string]*screen{}
	for name, start := range map[string]func() *exec.Cmd{
		"NO_COLOR":    func() *exec.Cmd { return w.with("NO_COLOR=1").command("[[late]]") },
		"TERM":        func() *exec.Cmd { return w.with("TERM=dumb").command("[[late]]") },
		"--no-color":  func() *exec.Cmd { return w.command("--no-color", "[[late]]") },
		"-q":          func() *exec.Cmd { return w.command("-q", "[[late]]") },
		"stream-json": func() *exec.Cmd { return w.command("--output-format", "stream-json", "[[late]]") },
		"stderr": func() *exec.Cmd {
			cmd := w.command("[[late]]")
			cmd.Stderr = file("errors")
			t.Cleanup(func() {
				said, err := os.ReadFile(cmd.Stderr.(*os.File).Name())
				assert.NoError(t, err)
				assert.Empty(t, string(said))
			})
			return cmd
		},
	} {
		screens[name] = w.onTerminalOf(80, start())
	}
	for name, s := range screens {
		e := s.wait()
		assert.Zero(t, e.code, name)
		assert.NotContains(t, e.out, "waiting for", name)
		assert.NotContains(t, e.out, "\x1b", name)
		assert.Contains(t, e.out, "late answer.", name)
	}
	cmd := w.command("--json", "[[late]]")
	out := file("out")
	cmd.Stdout = out
	e := w.onTerminalOf(80, cmd).wait()
	assert.Equal(t, []string{"waiting for stand-in · 1 s"}, drawn(e.out))
	assert.Empty(t, settled(e.out))
	answer, err := os.ReadFile(out.Name())
	require.NoError(t, err)
	assert.Regexp(t, `^\{.*"output":"A late answer\.".*\}\n$`, string(answer))
}

// TestWaitingChildren: on a terminal without room for more, the line says how many children are at work and in the
// queue, and which call runs, on one line of a terminal of any width.
func TestWaitingChildren(t *testing.T) {
	w := atLeisure(t)
	w.set("QQ_MAX_PARALLEL=1")
	screens := map[int]*screen{}
	for _, most := range []int{40, 80, 200} {
		each := w.with()
		each.dir = t.TempDir()
		screens[most] = each.onTerminalSized(most, 5, each.command("--auto-approve", "[[hand on]]"))
	}
	for most, want := range map[int]string{
		40: `1 at work · executor: run_pty_… · \d s`, // without the queue: there is no room for both
		80: `1 at work, 1 queued · executor: run_pty_cmd sleep [^\n]*… · \d s · \d\.\dk tokens`,
		200: `1 at work, 1 queued · executor: run_pty_cmd sleep 2\.2; echo '\[\[done\]\]' 漢字漢字漢字漢字 2J\[2J and so ` +
			`[^\n]*… · \d s · \d\.\dk tokens`,
	} {
		e := screens[most].wait()
		assert.Zero(t, e.code, e.out)
		assert.Equal(t, "All done.\n", settled(e.out))
		lines := drawn(e.out)
		for _, line := range lines {
			assert.LessOrEqual(t, columns.Of(line), most-1, line)
			assert.NotContains(t, line, "\x1b")
			assert.NotContains(t, line, "\u009b")
		}
		assert.Condition(t, func() bool {
			whole := regexp.MustCompile("^" + want + "$")
			for _, line := range lines {
				if whole.MatchString(line) {
					return true
				}
			}
			return false
		}, "%d: %q", most, lines)
		assert.Contains(t, strings.Join(lines, "\n"), "\n1 at work · ", "%d: the second has started", most)
	}
}

// TestWaitingQuestion: while a question is open the line is gone, and it is back afterwards. A note is not written
// behind it.
func TestWaitingQuestion(t *testing.T) {
	w := atLeisure(t)
	s := w.onTerminal("-v", "-a", "coder", "[[write]]")
	s.until("[n]o: ")
	drawnOver := func() bool { return !strings.HasSuffix(s.shown(), "[n]o: ") }
	assert.Never(t, drawnOver, 4*output.RedrawEvery, output.RedrawEvery/2)
	s.press("o\n")
	e := s.wait()
	assert.Zero(t, e.code)
	before, after, _ := strings.Cut(e.out, "[n]o: ")
	assert.NotEmpty(t, drawn(before))
	assert.NotEmpty(t, drawn(after), "the model is awaited again")
	for _, line := range strings.Split(settled(e.out), "\n") {
		assert.NotRegexp(t, `· \d s`, line, "the line stayed")
	}
	assert.Contains(t, settled(e.out), "\n\x1b[2m[coder")
	assert.Regexp(t, "\nA late answer\\.\nqq: tokens: [0-9]+ in, [0-9]+ out\n$", settled(e.out), "what -v says last")
	assert.Equal(t, 1, strings.Count(e.out, "I write."), fmt.Sprintf("%q", e.out))
}

// TestWaitingInBackground: in the background of a shell there is no line, neither of a run nor of a batch: the terminal
// belongs to the shell.
func TestWaitingInBackground(t *testing.T) {
	w := atLeisure(t)
	w.file("tasks.txt", "[[late]]\n")
	self, err := os.Executable()
	require.NoError(t, err)
	link := filepath.Join(t.TempDir(), "qq")
	require.NoError(t, os.Symlink(self, link))
	for _, args := range []string{"'[[late]]'", "batch tasks.txt"} {
		cmd := w.command()
		script := "set -m; " + link + " " + args + " & wait $!"
		cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", script}
		e := w.onTerminalOf(80, cmd).wait()
		assert.Zero(t, e.code)
		assert.Contains(t, e.out, "late answer.")
		assert.NotContains(t, e.out, "\x1b")
	}
}
