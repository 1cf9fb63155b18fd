package terminal

import (
	"bytes"
	"errors"
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

	"qq/internal/terminal/keys"
)

// TestMain plays a program on a terminal, if the environment says so.
func TestMain(m *testing.M) {
	switch role := os.Getenv("TERMINAL_ROLE"); role {
	case "":
		os.Exit(m.Run())
	case "shell":
		shell()
	default:
		program(role)
	}
}

// program prints what comes from its terminal. The key q ends it, p is a panic, l takes a line with the mode put back.
func program(role string) {
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	t, err := Open(Config{Signals: role == "signals", Plain: role == "plain"})
	if err == nil {
		err = t.Start()
	}
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(3)
	}
	defer t.Close()
	columns, rows := t.Size()
	fmt.Printf("ready %dx%d\n", columns, rows)
	for {
		select {
		case sig := <-ends:
			time.Sleep(50 * time.Millisecond) // nobody calls Close
			fmt.Println("signal", sig)
			os.Exit(1)
		case e, open := <-t.Events():
			switch {
			case !open || e.Kind == Closed:
				os.Exit(4)
			case e.Kind == Resized:
				columns, rows := t.Size()
				fmt.Printf("resized %dx%d\n", columns, rows)
			case e.Kind == Resumed:
				fmt.Println("resumed")
			case e.Key == keys.Key{Rune: 'q'}:
				return
			case e.Key == keys.Key{Rune: 'p'}:
				panic("as ordered")
			case e.Key == keys.Key{Rune: 'l'}:
				t.Stop()
				var line string
				_, _ = fmt.Scanln(&line)
				fmt.Printf("line %q\n", line)
				if err := t.Start(); err != nil {
					panic(err)
				}
			case e.Key == keys.Key{Rune: 'z', Ctrl: true}:
				t.Suspend()
				fmt.Println("asked to stop")
			case e.Key.Code == keys.Paste:
				fmt.Printf("paste of %d\n", len(e.Key.Text))
			default:
				fmt.Printf("key %+v\n", e.Key)
			}
		}
	}
}

// shell starts a program as a job in the foreground, and each time it stops, makes it go on after its stdin is told
// so: first in the background, then in the foreground.
func shell() {
	signal.Ignore(syscall.SIGTTOU)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "TERMINAL_ROLE=keys")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Foreground: true, Ctty: 0, Setpgid: true}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	pid := cmd.Process.Pid
	own := unix.Getpgrp()
	for {
		var status unix.WaitStatus
		if _, err := unix.Wait4(pid, &status, unix.WUNTRACED, nil); err != nil {
			panic(err)
		}
		if !status.Stopped() {
			fmt.Println("ended", status.ExitStatus())
			return
		}
		must(unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, own))
		fmt.Println("stopped by", status.StopSignal())
		var word string
		_, _ = fmt.Scanln(&word)
		must(unix.Kill(-pid, unix.SIGCONT))
		fmt.Println("in the background")
		_, _ = fmt.Scanln(&word)
		must(unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, pid))
		must(unix.Kill(-pid, unix.SIGCONT))
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// person sits at a terminal with a program.
type person struct {
	t      *testing.T
	cmd    *exec.Cmd
	master *os.File
	slave  *os.File
	before unix.Termios
	ended  chan struct{}

	mu   sync.Mutex
	text strings.Builder
}

func start(t *testing.T, role string) *person {
	t.Helper()
	master, slave, err := pty.Open()
	require.NoError(t, err)
	require.NoError(t, pty.Setsize(master, &pty.Winsize{Cols: 100, Rows: 30}))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "TERMINAL_ROLE="+role)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	p := &person{t: t, cmd: cmd, master: master, slave: slave, before: mode(t, slave), ended: make(chan struct{})}
	require.NoError(t, cmd.Start())
	go func() { _, _ = io.Copy(p, master) }()
	go func() {
		defer close(p.ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.ended
		slave.Close()
		master.Close()
	})
	p.until("ready 100x30")
	return p
}

func mode(t *testing.T, f *os.File) unix.Termios {
	t.Helper()
	m, err := unix.IoctlGetTermios(int(f.Fd()), getMode)
	require.NoError(t, err)
	return *m
}

// Write implements io.Writer.
func (p *person) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *person) shown() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.ReplaceAll(p.text.String(), "\r\n", "\n")
}

func (p *person) until(text string) {
	p.t.Helper()
	if !assert.Eventually(p.t, func() bool { return strings.Contains(p.shown(), text) },
		10*time.Second, 2*time.Millisecond) {
		p.t.Fatalf("no %q on the screen:\n%s", text, p.shown())
	}
}

func (p *person) press(keys string) {
	p.t.Helper()
	_, err := io.WriteString(p.master, keys)
	require.NoError(p.t, err)
}

func (p *person) end() {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
		p.t.Fatalf("it goes on:\n%s", p.shown())
	}
}

// isNormal asserts that the terminal is as it was.
func (p *person) isNormal() {
	p.t.Helper()
	assert.Equal(p.t, p.before, mode(p.t, p.slave))
	assert.Eventually(p.t, func() bool { // what it has written comes a moment later
		return strings.LastIndex(p.shown(), marksOn) <= strings.LastIndex(p.shown(), marksOff)
	}, 10*time.Second, 2*time.Millisecond, "of the marks of a paste")
}

func (p *person) isRaw() {
	p.t.Helper()
	assert.Zero(p.t, mode(p.t, p.slave).Lflag&(unix.ICANON|unix.ECHO))
}

func TestKeys(t *testing.T) {
	p := start(t, "keys")
	p.isRaw()
	assert.NotZero(t, mode(t, p.slave).Oflag&unix.OPOST, "output is as always")
	p.press("a")
	p.until("key {Code:0 Rune:97 ")
	p.press("\x03") // no signal
	p.until("key {Code:0 Rune:99 Ctrl:true")
	p.press("\x1b")
	p.until(fmt.Sprintf("key {Code:%d ", keys.Escape))
	p.press("\x1b[")
	p.press("A")
	p.until(fmt.Sprintf("key {Code:%d ", keys.Up))
	go p.press("\x1b[200~" + strings.Repeat("0123456789abcde\r", 1<<16) + "\x1b[201~")
	p.until("paste of 1048576\n")
	require.NoError(t, pty.Setsize(p.master, &pty.Winsize{Cols: 33, Rows: 44}))
	p.until("resized 33x44")
	p.press("q")
	p.end()
	p.isNormal()
	assert.NotContains(t, strings.Split(p.shown(), "ready")[1], "\naq", "keys are not shown")
}

// A terminal that knows no control sequences gets none.
func TestPlain(t *testing.T) {
	p := start(t, "plain")
	p.isRaw()
	p.press("q")
	p.end()
	p.isNormal()
	assert.NotContains(t, p.shown(), "\x1b")
}

// Whatever ends the program, the terminal is as before.
func TestRestored(t *testing.T) {
	for name, end := range map[string]func(*person){
		"SIGTERM":   func(p *person) { must(p.cmd.Process.Signal(syscall.SIGTERM)) },
		"SIGHUP":    func(p *person) { must(p.cmd.Process.Signal(syscall.SIGHUP)) },
		"Control-C": func(p *person) { p.press("\x03") },
		"panic":     func(p *person) { p.press("p") },
		"return":    func(p *person) { p.press("q") },
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, "signals")
			p.isRaw()
			end(p)
			p.end()
			p.isNormal()
		})
	}
}

// A line can be read meanwhile, with the mode of before.
func TestStopped(t *testing.T) {
	p := start(t, "keys")
	p.press("l")
	require.Eventually(t, func() bool { return mode(t, p.slave) == p.before }, 10*time.Second, time.Millisecond)
	p.press("whole\n")
	p.until(`line "whole"`)
	require.Eventually(t, func() bool { return mode(t, p.slave) != p.before }, 10*time.Second, time.Millisecond)
	p.press("x")
	p.until("key {Code:0 Rune:120 ")
	p.press("q")
	p.end()
	p.isNormal()
}

// Control-Z puts the mode back and stops the program. In the background it leaves the terminal alone, and in the
// foreground it takes it again.
func TestStoppedByShell(t *testing.T) {
	p := start(t, "shell")
	p.isRaw()
	p.press("\x1a")
	p.until("stopped by")
	p.isNormal()
	p.press("\n")
	p.until("in the background")
	p.until("resumed")
	assert.Equal(t, p.before, mode(t, p.slave))
	p.press("\n")
	require.Eventually(t, func() bool { return strings.Count(p.shown(), "resumed") == 2 }, 10*time.Second,
		time.Millisecond)
	p.isRaw()
	p.press("q")
	p.until("ended 0")
	p.isNormal()
}

// Control-Z stops the program also while the mode is put back.
func TestStoppedWhileStopped(t *testing.T) {
	p := start(t, "shell")
	p.press("l")
	require.Eventually(t, func() bool { return mode(t, p.slave) == p.before }, 10*time.Second, time.Millisecond)
	p.press("\x1a")
	p.until("stopped by")
	p.press("\n")
	p.until("in the background")
	p.press("\n")
	p.press("whole\n")
	p.until(`line "whole"`)
	p.press("q")
	p.until("ended 0")
	p.isNormal()
}

// Control-Z does nothing where no shell would make the program go on.
func TestAlone(t *testing.T) {
	p := start(t, "keys")
	p.press("\x1a")
	p.until("asked to stop")
	p.isRaw()
	p.press("q")
	p.end()
	p.isNormal()
}

// TestMarkBusy: a mark is written also if the terminal is busy with what somebody else writes.
func TestMarkBusy(t *testing.T) {
	master, slave, err := pty.Open()
	require.NoError(t, err)
	defer master.Close()
	opened, err := open(slave.Name(), Config{})
	require.NoError(t, err)
	go func() {
		_, _ = slave.Write(bytes.Repeat([]byte("x"), 1<<20))
		slave.Close()
	}()
	require.Eventually(t, func() bool { // it waits for a reader
		_, err := unix.Write(opened.tty, []byte("y"))
		return errors.Is(err, unix.EAGAIN)
	}, 10*time.Second, time.Millisecond)
	var shown bytes.Buffer
	ends := make(chan struct{})
	time.AfterFunc(20*time.Millisecond, func() {
		defer close(ends)
		_, _ = io.Copy(&shown, master) // ends when nobody else has the terminal open
	})
	require.NoError(t, opened.Start())
	require.NoError(t, opened.Close())
	<-ends
	assert.Equal(t, 1, strings.Count(shown.String(), marksOn))
	assert.Equal(t, 1, strings.Count(shown.String(), marksOff))
}

// The end of the terminal is told.
func TestHungUp(t *testing.T) {
	p := start(t, "keys")
	require.NoError(t, p.slave.Close())
	require.NoError(t, p.master.Close())
	must(p.cmd.Process.Signal(syscall.SIGWINCH)) // what it prints ends the read that keeps the file open
	p.end()
}
