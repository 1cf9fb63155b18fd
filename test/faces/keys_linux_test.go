package faces

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
)

// Keys as a terminal sends them.
const (
	up, down, left, right = "\x1b[A", "\x1b[B", "\x1b[D", "\x1b[C"
	enter, escape         = "\r", "\x1b"
)

// gone reports whether a text leaves the screen.
func (s *seat) gone(text string) {
	s.Helper()
	s.until("shows no "+text, func(all string) bool { return !strings.Contains(all, text) })
}

// shown waits until the screen matches.
func (s *seat) matches(pattern string) {
	s.Helper()
	re := regexp.MustCompile(pattern)
	s.until("matches "+pattern, re.MatchString)
}

// TestRunKeys: arrows choose a line, Enter shows its transcript, m sends a message, p pauses, x cancels, ? lists the keys.
// Nothing that is typed is shown elsewhere, and the answer is whole.
func TestRunKeys(t *testing.T) {
	w := newWorld(t, delegation(5, 5*time.Second)...)
	w.env = append(w.env, "QQ_MAX_PARALLEL=3")
	s := w.sit(90, 36, "[[hand on]]")
	s.shows("3 at work, 2 queued (? lists the keys)")
	s.press("x")
	s.shows("choose a job first")
	s.press("?")
	s.shows("send it a message")
	s.press("?")
	s.gone("send it a message")
	s.press(down + down + up)
	s.matches(`(?m)^› ● explorer.*part 0`)
	s.press("m")
	s.shows("to explorer ")
	s.press("Look at x p m 漢字 t")
	s.press("\x7f\x7f\r")
	s.shows("sent to explorer ")
	s.press("p")
	s.shows("paused: no further job starts")
	s.press(enter)
	s.shows("transcript of explorer")
	s.matches(`│ \[\[look\]\] at part 0, 漢字`)
	s.matches(`Look at x p m 漢字\n`) // it was read before the second request
	assert.True(t, s.screen.IsAltScreen())
	s.press("q")
	s.gone("transcript of explorer")
	assert.False(t, s.screen.IsAltScreen())
	s.press(down + "x")
	s.matches(`✗ explorer  cancelled`)
	s.press("p")
	s.shows("jobs start again")
	assert.Zero(t, s.wait())
	want := NewScreen(90, 36)
	want.Print("I hand this on.\n" + answer)
	assert.Equal(t, want.Rows(), s.rows())
	assert.False(t, s.screen.CursorHidden())
}

// TestRunKeysLate: a message that is typed while the last job ends is not sent, and the person is told. Nothing of it is
// shown elsewhere or left for the shell, neither while the run goes on nor at its end.
func TestRunKeysLate(t *testing.T) {
	scripts := delegation(1, time.Second)
	scripts[3].Fault = &standin.Fault{BeforeFirst: 2 * time.Second} // the agent of the root goes on
	for typed, told := range map[string]string{" files\r": "your text is kept", " files": "was not sent: the run ends"} {
		w := newWorld(t, scripts...)
		s := w.sit(110, 36, "[[hand on]]")
		s.shows("1 at work")
		s.press(down + "m")
		s.shows("to explorer ")
		s.press("rm old")
		s.matches(`explorer [0-9a-f]{8} has ended: Escape leaves your message`)
		s.press(typed)
		s.shows(told)
		assert.NotContains(t, s.text(), "waiting for "+" files")
		assert.Zero(t, s.wait())
		rows := strings.TrimRight(strings.Join(s.rows(), "\n"), "\n")
		assert.NotContains(t, strings.ReplaceAll(rows, "your message", ""), "files", "nothing is echoed")
		assert.Contains(t, rows, "The answer ends.")
	}
}

// TestRunNoKeys: without a person at stdin no key is read, and what is typed stays for the shell.
func TestRunNoKeys(t *testing.T) {
	w := newWorld(t, delegation(3, time.Second)...)
	pipe, other, err := os.Pipe()
	require.NoError(t, err)
	defer pipe.Close()
	require.NoError(t, other.Close())
	s := w.sitWith(pipe, 90, 36, "[[hand on]]")
	s.shows("3 at work")
	assert.NotContains(t, s.text(), "? lists")
	assert.NotContains(t, string(s.all), "\x1b[?2004h", "the mode of the terminal is not changed")
	s.press("x")
	assert.Zero(t, s.wait())
	assert.NotContains(t, string(s.all), "✗")
}

// TestRunPlain: where a terminal has no colour or knows no control sequences, there is no block.
func TestRunPlain(t *testing.T) {
	for _, set := range []string{"NO_COLOR=1", "TERM=dumb"} {
		w := newWorld(t, delegation(2, 700*time.Millisecond)...)
		w.env = append(w.env, set)
		s := w.sit(80, 24, "[[hand on]]")
		assert.Zero(t, s.wait())
		assert.Equal(t, "I hand this on.\r\n"+strings.ReplaceAll(answer, "\n", "\r\n"), string(s.all), set)
	}
}

// asking is a prompt whose children need approvals while others work.
func asking() []standin.Script {
	write := &standin.Fault{BeforeFirst: 300 * time.Millisecond}
	return append(delegation(1, time.Second),
		standin.Script{Start: "[[ask]]", Text: "I ask.\n" + call("run_parallel_tasks", map[string]any{"tasks": []any{
			map[string]string{"agent": "explorer", "task": "[[look]] at it"},
			map[string]string{"agent": "coder", "task": "[[write]] the file"},
			map[string]string{"agent": "explorer", "task": "[[look]] at that"}}})},
		standin.Script{Start: "[[write]]", Fault: write,
			Text: call("write_file", map[string]string{"path": "a.txt", "content": "[[end]] one\ntwo\n"})})
}

// TestQuestion: while a question is open nothing else is written: what a person reads and types stays, whatever the
// children do. Then the block is back.
func TestQuestion(t *testing.T) {
	w := newWorld(t, asking()...)
	for _, columns := range []int{40, 100} {
		require.NoError(t, os.RemoveAll(w.dir+"/a.txt"))
		s := w.sit(columns, 40, "[[ask]]")
		ends := make(chan int, 1)
		go func() { ends <- s.wait() }()
		asked := 0
		for s.asks(ends) {
			asked++
			s.undisturbed()
			s.press("o")
			s.matches(`\[n\]o: o`)
			s.undisturbed()
			s.press("\n")
			s.until("goes on", func(string) bool { return !strings.Contains(s.lastRow(), "[n]o:") })
		}
		assert.GreaterOrEqual(t, asked, 2)
		assert.Contains(t, s.text(), "The answer ends.")
		assert.Contains(t, string(s.all), "●")
	}
}

// asks waits for the next question. It returns false when qq has ended.
func (s *seat) asks(ends <-chan int) bool {
	s.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		select {
		case code := <-ends:
			assert.Zero(s, code)
			return false
		default:
		}
		if strings.Contains(s.lastRow(), "[n]o:") {
			return true
		}
	}
	s.Fatalf("neither asks nor ends:\n%s", s.text())
	return false
}

// lastRow returns the row of the cursor.
func (s *seat) lastRow() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.screen.Row(s.screen.CursorPosition().Y)
}

// undisturbed asserts that nothing is written for some time.
func (s *seat) undisturbed() {
	s.Helper()
	time.Sleep(50 * time.Millisecond)
	before := s.rows()
	for range 40 {
		time.Sleep(20 * time.Millisecond)
		require.Equal(s, before, s.rows())
	}
}

// sitWith is sit with another stdin.
func (w *world) sitWith(in *os.File, columns, rows int, args ...string) *seat {
	return w.sitAt(columns, rows, func(cmd *exec.Cmd) { cmd.Stdin = in }, args...)
}

// TestTypingIsNoAnswer: three agents come to ask while a person types a message. No letter of it is an answer, and the
// message is whole. Letters that go on when the list is there do not count, and what allows needs Enter.
func TestTypingIsNoAnswer(t *testing.T) {
	later := &standin.Fault{BeforeFirst: 1500 * time.Millisecond}
	var tasks []any
	for _, name := range []string{"a", "b", "c"} {
		tasks = append(tasks, map[string]string{"agent": "executor", "task": "[[run]] " + name})
	}
	scripts := append(delegation(1, 12*time.Second),
		standin.Script{Start: "[[three]]", Text: call("run_parallel_tasks", map[string]any{"tasks": tasks})},
		standin.Script{Start: "[[run]]", Text: call("run_pty_cmd", map[string]string{"command": "echo x >> log"}),
			Fault: later})
	w := newWorld(t, scripts...)
	w.env = append(w.env, "QQ_MAX_PARALLEL=4")
	s := w.sit(100, 40, "[[three]]")
	s.shows("[n]o:")
	s.press("o\n")
	s.shows(" at work")
	s.press(down)
	s.matches(`(?m)^› `)
	s.press("m")
	s.shows("to ")
	types := func(text string) {
		for _, r := range text {
			s.press(string(r))
			time.Sleep(150 * time.Millisecond)
		}
	}
	types("stop doing so much of this, o s y")
	s.shows("a question waits for you")
	s.shows("stop doing so much of this, o s y")
	assert.NotContains(t, s.text(), "wait for an answer:")
	s.press("\r")
	s.shows("3 questions wait for an answer:")
	types("o s y\ry\r")
	s.shows("does not count")
	time.Sleep(1200 * time.Millisecond)
	s.press("y")
	s.shows("Enter allows")
	assert.NoFileExists(t, w.dir+"/log")
	snap, found := w.snapshot()
	require.True(t, found)
	assert.Len(t, snap.Questions, 3)
	s.press("\r")
	s.shows("2 questions wait for an answer:")
	s.press("\x03")
	s.wait()
}
