package scenario

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/test/terminal"
)

// screenTimeout is how long a qq may be on a terminal: one that asks more than
// it should waits until then.
const screenTimeout = 30 * time.Second

// screen is a terminal with a qq on it: its stdin, its stderr and what controls
// it.
type screen struct {
	t      *testing.T
	person *os.File // where somebody sits
	cmd    *exec.Cmd

	mu          sync.Mutex
	shown, said bytes.Buffer // on the terminal, on stdout
	reading     sync.WaitGroup
}

// onTerminal starts qq on a terminal of its own. Its stdout goes to where a script reads it.
func (w *world) onTerminal(args ...string) *screen { return w.atTerminal(false, args...) }

// onWholeTerminal starts qq on a terminal of its own, with its stdout there too.
func (w *world) onWholeTerminal(args ...string) *screen { return w.atTerminal(true, args...) }

func (w *world) atTerminal(whole bool, args ...string) *screen {
	w.t.Helper()
	person, program, err := terminal.Open()
	require.NoError(w.t, err)
	defer program.Close()
	ctx, cancel := context.WithTimeout(w.t.Context(), screenTimeout)
	w.t.Cleanup(cancel)
	s := &screen{t: w.t, person: person, cmd: exec.CommandContext(ctx, w.bin, args...)}
	s.cmd.Dir, s.cmd.Env = w.work, w.env
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = program, &locked{&s.mu, &s.said}, program
	if whole {
		s.cmd.Stdout = program
	}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	s.cmd.WaitDelay = goneTimeout
	require.NoError(w.t, s.cmd.Start())
	s.reading.Go(func() {
		_, _ = io.Copy(&locked{&s.mu, &s.shown}, person) // ends with EIO when nobody has the other end any more
	})
	return s
}

// text is all that was shown until now.
func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.ReplaceAll(s.shown.String(), "\r\n", "\n")
}

// events are those on stdout until now.
func (s *screen) events() []happened {
	s.mu.Lock()
	defer s.mu.Unlock()
	return events(s.t, s.said.String())
}

// until waits until done.
func (s *screen) until(what string, done func() bool) {
	s.t.Helper()
	if !assert.Eventually(s.t, done, screenTimeout, pollEvery, what) {
		s.t.Fatalf("the screen:\n%s", s.text())
	}
}

// choice is the last line of every question.
const choice = "[n]o: "

// questions are those that were shown, without their last lines.
func (s *screen) questions() []string {
	all := strings.Split(s.text(), choice)
	return all[:len(all)-1]
}

// answer waits for the nth question, types what, and returns the question.
func (s *screen) answer(nth int, what string) string {
	s.t.Helper()
	s.until(fmt.Sprintf("question %d", nth), func() bool { return len(s.questions()) >= nth })
	_, err := io.WriteString(s.person, what+"\n")
	require.NoError(s.t, err)
	return s.questions()[nth-1]
}

// wait waits for the end of qq.
func (s *screen) wait() ended {
	s.t.Helper()
	_ = s.cmd.Wait() // how it ended is in ProcessState
	s.reading.Wait()
	assert.NoError(s.t, s.person.Close())
	e := ended{t: s.t, code: s.cmd.ProcessState.ExitCode(), stdout: s.said.String(), stderr: s.text()}
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("qq %q: %v\nstdout: %.6000s\nscreen: %.4000s", s.cmd.Args[1:], s.cmd.ProcessState, e.stdout,
				e.stderr)
		}
	})
	return e
}
