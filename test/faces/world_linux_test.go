package faces

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qq/internal/control"
	"qq/internal/standin"
	"qq/test/qqbin"
	"qq/test/terminal"
)

// world is a folder with a qq and a stand-in for its model server.
type world struct {
	*testing.T
	bin, home, dir string
	env            []string
}

// call is what a model writes to call a tool.
func call(name string, arguments any) string {
	text, err := json.Marshal(map[string]any{"name": name, "arguments": arguments})
	if err != nil {
		panic(err)
	}
	return "<tool_call>" + string(text) + "</tool_call>"
}

func newWorld(t *testing.T, scripts ...standin.Script) *world {
	t.Helper()
	return newWorldOf(t, standin.Start(t, standin.Scripts(scripts...)))
}

// newWorldOf is newWorld with that server.
func newWorldOf(t *testing.T, server *standin.Server) *world {
	t.Helper()
	w := &world{T: t, home: filepath.Join(t.TempDir(), "qq"), dir: t.TempDir()}
	bin, err := qqbin.Install(t.Context(), t.TempDir())
	require.NoError(t, err)
	w.bin = bin
	w.env = []string{"HOME=" + t.TempDir(), "QQ_HOME=" + w.home, "PATH=" + os.Getenv("PATH"), "TERM=xterm-256color",
		"OLLAMA_HOST=" + server.URL, "QQ_MODEL=ollama:stand-in", "TZ=UTC"}
	return w
}

// seat is a person at a terminal with a qq, and the emulated screen of that terminal.
type seat struct {
	*world
	cmd     *exec.Cmd
	person  *os.File
	reading sync.WaitGroup

	mu      sync.Mutex
	screen  *Screen
	written int64  // bytes
	all     []byte // that were written
}

// sit starts qq on a terminal of that size, for all its streams.
func (w *world) sit(columns, rows int, args ...string) *seat {
	return w.sitAt(columns, rows, func(*exec.Cmd) {}, args...)
}

// sitAt is sit with something that is done to the command before it starts.
func (w *world) sitAt(columns, rows int, prepare func(*exec.Cmd), args ...string) *seat {
	w.Helper()
	person, program, err := terminal.Open()
	require.NoError(w, err)
	defer program.Close()
	s := &seat{world: w, person: person, screen: NewScreen(columns, rows)}
	s.resizeTerminal(columns, rows)
	s.cmd = exec.CommandContext(w.Context(), w.bin, args...)
	s.cmd.Dir, s.cmd.Env = w.dir, w.env
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = program, program, program
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 1}
	prepare(s.cmd)
	require.NoError(w, s.cmd.Start())
	s.reading.Go(s.read)
	w.Cleanup(func() {
		if w.Failed() {
			w.Logf("the screen:\n%s", strings.Join(s.rows(), "\n"))
		}
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.reading.Wait()
		s.person.Close()
	})
	return s
}

func (s *seat) read() {
	buf := make([]byte, 64<<10)
	for {
		n, err := s.person.Read(buf)
		s.mu.Lock()
		s.written += int64(n)
		s.all = append(s.all, buf[:n]...)
		s.screen.Replay(string(buf[:n]))
		s.mu.Unlock()
		if err != nil { // nobody has the other end any more
			return
		}
	}
}

func (s *seat) resizeTerminal(columns, rows int) {
	s.Helper()
	require.NoError(s, unix.IoctlSetWinsize(int(s.person.Fd()), unix.TIOCSWINSZ,
		&unix.Winsize{Col: uint16(columns), Row: uint16(rows)}))
}

// resize changes the size of the terminal.
func (s *seat) resize(columns, rows int) {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.screen.Resize(columns, rows)
	s.resizeTerminal(columns, rows)
}

func (s *seat) rows() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.screen.Rows()
}

// text returns what is on the screen.
func (s *seat) text() string { return strings.Join(s.rows(), "\n") }

func (s *seat) press(keys string) {
	s.Helper()
	_, err := s.person.WriteString(keys)
	require.NoError(s, err)
}

// until waits until the screen is as it should be.
func (s *seat) until(what string, is func(text string) bool) {
	s.Helper()
	for end := time.Now().Add(20 * time.Second); !is(s.text()); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("%s: the screen is\n%s", what, s.text())
		}
	}
}

func (s *seat) shows(text string) {
	s.Helper()
	s.until("shows "+text, func(all string) bool { return strings.Contains(all, text) })
}

// wait waits for the end of qq and returns its exit code.
func (s *seat) wait() int {
	s.Helper()
	_ = s.cmd.Wait() // how it ended is in ProcessState
	s.reading.Wait()
	return s.cmd.ProcessState.ExitCode()
}

// busy returns the processor time that the process has used, without its children.
func (s *seat) busy() time.Duration {
	s.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	require.NoError(s, err)
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var ticks int
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		require.NoError(s, err)
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100
}

// snapshot returns what the only root says.
func (w *world) snapshot() (control.Snapshot, bool) {
	for _, root := range control.Look(w.home) {
		if root.Err == nil {
			return root.Snapshot, true
		}
	}
	return control.Snapshot{}, false
}
