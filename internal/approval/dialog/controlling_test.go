package dialog

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// playEnv makes the test binary a process that asks on its controlling terminal.
const playEnv = "QQ_TEST_TERMINAL"

// play asks, and says on stdout what came of it.
func play(how string) {
	switch how {
	case "wait": // until the parent is done
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	case "shell": // a job that is told to go on each time it stops
		shell()
		return
	case "background": // a job of the same session that the shell put aside
		job(&syscall.SysProcAttr{Setpgid: true}, "ask")()
		return
	}
	settleTime = 2 * time.Second // on a machine with other work the news may come late
	screen := make(continuing, 1)
	signal.Notify(screen, syscall.SIGCONT)
	p, err := OpenTerminal(true, false, screen)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	if how == "put aside" { // another one has the terminal now
		defer job(&syscall.SysProcAttr{Foreground: true, Ctty: p.tty}, "wait")()
	}
	fmt.Println(ask(context.Background(), p, question()))
}

// shell asks as a job in the foreground. A line makes it go on each time it stops.
func shell() {
	signal.Ignore(syscall.SIGTTOU)
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stdout = []string{playEnv + "=ask", "GORACE=atexit_sleep_ms=0"}, os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Foreground: true, Ctty: 0}
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		return
	}
	for {
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
			return
		}
		_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, syscall.Getpgrp())
		fmt.Println("stopped")
		_, _ = fmt.Scanln()
		_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, cmd.Process.Pid)
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGCONT)
	}
}

// job starts this program again in a process group of its own. end waits for it.
func job(attr *syscall.SysProcAttr, how string) (end func()) {
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stdout, cmd.SysProcAttr = []string{playEnv + "=" + how, "GORACE=atexit_sleep_ms=0"}, os.Stdout, attr
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Println(err)
		return func() {}
	}
	return func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			fmt.Println(err)
		}
	}
}

// The terminal is the controlling one, whatever stdout is, and a job in the
// background has none to ask on.
func TestControlling(t *testing.T) {
	for how, want := range map[string]string{
		"ask": "once <nil>\n", "background": "the terminal belongs to another job\n",
		"put aside": " the terminal belongs to another job\n",
	} {
		ctx, stop := context.WithTimeout(t.Context(), patience)
		defer stop()
		cmd := exec.CommandContext(ctx, os.Args[0])
		var out bytes.Buffer
		cmd.Env, cmd.Stdout = []string{playEnv + "=" + how, "GORACE=atexit_sleep_ms=0"}, &out
		keys, err := pty.Start(cmd)
		require.NoError(t, err)
		if how == "ask" {
			readUntil(t, keys, choice)
			_, err = keys.WriteString("o\n")
			require.NoError(t, err)
		}
		require.NoError(t, cmd.Wait())
		require.NoError(t, keys.Close())
		assert.Equal(t, want, out.String(), how)
	}
}

// Control-Z stops a process whose question is open, although a keyboard was started and stopped before, and while it
// listens. After that the question is new: what follows at once is no answer.
func TestStoppedByControlZ(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	cmd := exec.CommandContext(ctx, os.Args[0])
	var out lines
	cmd.Env, cmd.Stdout = []string{playEnv + "=shell", "GORACE=atexit_sleep_ms=0"}, &out
	keys, err := pty.Start(cmd)
	require.NoError(t, err)
	typed := func(text string) {
		_, err := keys.WriteString(text)
		require.NoError(t, err)
	}
	for i, visible := range []string{choice, "asks: run_pty_cmd", choice} {
		readUntil(t, keys, visible)
		typed("\x1a")
		require.Eventually(t, func() bool { return out.count("stopped\n") == i+1 }, patience, time.Millisecond, visible)
		typed("\n")
	}
	readUntil(t, keys, "asks: run_pty_cmd")
	typed("o\n")
	readUntil(t, keys, choice)
	typed("n\n")
	require.NoError(t, cmd.Wait())
	require.NoError(t, keys.Close())
	assert.Equal(t, "no <nil>", out.last())
}

// lines are what a process has written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) count(line string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), line)
}

func (l *lines) last() string {
	all := strings.Split(strings.TrimSpace(l.text.String()), "\n")
	return all[len(all)-1]
}

// What is typed while the process is stopped, for the shell or because the question is still to be seen, is no answer.
func TestTypedWhileStopped(t *testing.T) {
	for range 2 {
		ctx, stop := context.WithTimeout(t.Context(), patience)
		defer stop()
		cmd := exec.CommandContext(ctx, os.Args[0])
		var out bytes.Buffer
		cmd.Env, cmd.Stdout = []string{playEnv + "=ask", "GORACE=atexit_sleep_ms=0"}, &out
		keys, err := pty.Start(cmd)
		require.NoError(t, err)
		readUntil(t, keys, choice)
		require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
		require.Eventually(t, func() bool {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
			return err != nil || bytes.Contains(stat, []byte(") T ")) // no system but Linux has this file
		}, 10*time.Second, time.Millisecond)
		_, err = keys.WriteString("o\n")
		require.NoError(t, err)
		require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
		readUntil(t, keys, "asks: run_pty_cmd")
		readUntil(t, keys, choice)
		_, err = keys.WriteString("n\n")
		require.NoError(t, err)
		require.NoError(t, cmd.Wait())
		require.NoError(t, keys.Close())
		require.Equal(t, "no <nil>\n", out.String())
	}
}

func readUntil(t *testing.T, r io.Reader, text string) {
	t.Helper()
	var seen []byte
	for buf := make([]byte, 1); !bytes.HasSuffix(seen, []byte(text)); seen = append(seen, buf...) {
		_, err := r.Read(buf)
		require.NoError(t, err, string(seen))
	}
}
