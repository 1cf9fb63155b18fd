package proc

import (
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhatAProcessIsGiven(t *testing.T) {
	t.Setenv("PROC_TEST_SECRET", "not inherited")
	behindEach(t, func(t *testing.T, h *Host) {
		c := helper("world", "argument")
		c.Dir, c.Stdout, c.Marker = t.TempDir(), outputFile(t), "PROC_TEST=new"
		c.Env = append(c.Env, "PROC_TEST=old", "PROC_TESTER=kept")
		c.Extra = []*os.File{nil, c.Stdout}
		assert.Zero(t, enter(t, h, c).Wait().Code)
		text, err := os.ReadFile(c.Stdout.Name())
		require.NoError(t, err)
		lines := strings.Split(string(text), "\n")
		assert.Equal(t, "[world argument] [GORACE=atexit_sleep_ms=0 PROC_TEST_ROLE=world PROC_TEST_DEPTH=1 "+
			"PROC_TESTER=kept PROC_TEST=new] "+c.Dir, lines[0])
		assert.Equal(t, []string{"0 /dev/null", "1 " + c.Stdout.Name()}, lines[1:3])
		assert.Contains(t, lines[4], "3 pipe:")
		assert.Equal(t, []string{"4 /dev/null", "5 " + c.Stdout.Name()}, lines[5:7])
		assert.Equal(t, "leads group true session false terminal false", lines[len(lines)-2])
	})
}

func TestTerminal(t *testing.T) {
	behindEach(t, func(t *testing.T, h *Host) {
		ptmx, tty, err := pty.Open()
		require.NoError(t, err)
		defer ptmx.Close()
		c := helper("world")
		c.Stdin, c.Terminal, c.Stdout = tty, true, outputFile(t)
		s := enter(t, h, c)
		require.NoError(t, tty.Close())
		assert.Zero(t, s.Wait().Code)
		text, err := os.ReadFile(c.Stdout.Name())
		require.NoError(t, err)
		assert.Contains(t, string(text), "leads group true session true terminal true")
		_, err = h.Start(Command{Path: "/bin/true", Terminal: true})
		require.EqualError(t, err, "start /bin/true: inappropriate ioctl for device")
	})
}

// A program that joins is in the group of this process. It can be stopped and killed, and this process goes on.
func TestJoins(t *testing.T) {
	h := NewHost()
	defer h.Close()
	c := helper("world")
	c.Joins, c.Stdout = true, outputFile(t)
	assert.Zero(t, enter(t, h, c).Wait().Code)
	text, err := os.ReadFile(c.Stdout.Name())
	require.NoError(t, err)
	assert.Contains(t, string(text), "leads group false session false")
	for _, end := range []func(*Process){(*Process).Stop, (*Process).Kill} {
		s, err := h.Start(Command{Path: "/bin/sleep", Args: []string{"sleep", "1000"}, Joins: true, Grace: time.Minute})
		require.NoError(t, err)
		end(s)
		assert.NotZero(t, s.Wait().Signal)
	}
}

// A terminal to write to, and nothing to read from it.
func TestTerminalWithoutInput(t *testing.T) {
	behindEach(t, func(t *testing.T, h *Host) {
		ptmx, tty, err := pty.Open()
		require.NoError(t, err)
		defer ptmx.Close()
		c := helper("world")
		c.Terminal, c.Stdout, c.Stderr = true, tty, tty
		s := enter(t, h, c)
		name := tty.Name()
		require.NoError(t, tty.Close())
		text, err := io.ReadAll(ptmx)
		require.ErrorIs(t, err, syscall.EIO, "the end of a terminal")
		assert.Zero(t, s.Wait().Code)
		assert.Contains(t, string(text), "0 /dev/null\r\n1 "+name+"\r\n2 "+name+"\r\n")
		assert.Contains(t, string(text), "leads group true session true terminal true")
	})
}

// The end of a session is heard by its group, before anybody kills it.
func TestTerminalLeavesChild(t *testing.T) {
	h := hostBehind(t, group)
	ptmx, tty, err := pty.Open()
	require.NoError(t, err)
	defer ptmx.Close()
	c := helper("leaveChild")
	c.Terminal, c.Stdout = true, tty
	s := enter(t, h, c)
	require.NoError(t, tty.Close())
	assert.Equal(t, 1, s.Wait().Left)
	s.assertGone(t)
}

// As a file that a shell has open and hands to all that it starts.
func TestNothingElseIsInherited(t *testing.T) {
	out := outputFile(t)
	fd, err := syscall.Dup(int(out.Fd()))
	require.NoError(t, err)
	defer syscall.Close(fd)
	h := NewHost()
	defer h.Close()
	p, err := h.Start(Command{Path: "/bin/ls", Args: []string{"ls", "/proc/self/fd"}, Stdout: out})
	require.NoError(t, err)
	assert.Zero(t, p.Wait().Code)
	text, err := os.ReadFile(out.Name())
	require.NoError(t, err)
	assert.Equal(t, "0\n1\n2\n3\n", string(text), "and the folder that is read")
}

func TestStartErrors(t *testing.T) {
	closed := outputFile(t)
	require.NoError(t, closed.Close())
	for name, tc := range map[string]struct {
		c    Command
		want string
	}{
		"no such file": {Command{Path: "/no/such"}, "start /no/such: no such file or directory"},
		"not in PATH": {
			Command{Path: "no-such-program"},
			`start "no-such-program": executable file not found in $PATH`,
		},
		"no path":        {Command{}, `start "": executable file not found in $PATH`},
		"not executable": {Command{Path: "./proc.go"}, "start ./proc.go: permission denied"},
		"no such directory": {
			Command{Path: "/bin/true", Dir: "/no/such"},
			"start /bin/true: working directory: stat /no/such: no such file or directory",
		},
		"NUL in argument": {Command{Path: "/bin/true", Args: []string{"a\x00"}}, "start /bin/true: invalid argument"},
		"bad marker":      {Command{Path: "/bin/true", Marker: "=x"}, `start /bin/true: marker "=x" is not NAME=value`},
		"closed file": {
			Command{Path: "/bin/true", Stdout: closed},
			"start /bin/true: descriptor 1: file already closed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			behindEach(t, func(t *testing.T, h *Host) {
				tc.c.Namespace = true
				_, err := h.Start(tc.c)
				require.EqualError(t, err, tc.want)
				assert.Equal(t, fences[h.fence], h.Isolation(), "a failure must not weaken the fence")
			})
		})
	}
}

func TestStartErrorHints(t *testing.T) {
	for errno, hint := range map[syscall.Errno]string{
		syscall.EAGAIN: "ulimit -u", syscall.EMFILE: "ulimit -n", syscall.ENFILE: "fs.file-max",
		syscall.ENOMEM: "ulimit -v",
	} {
		err := startError(Command{Path: "qq"}, errno)
		require.ErrorIs(t, err, errno)
		problem, advice, _ := strings.Cut(err.Error(), "\nhint: ")
		assert.Equal(t, "start qq: "+errno.Error(), problem)
		assert.Contains(t, advice, hint)
	}
}

func TestOutOfDescriptors(t *testing.T) {
	behindEach(t, func(t *testing.T, h *Host) {
		s := enter(t, h, helper("scarce"))
		assert.Regexp(t, `^start /.*: too many open files$`, s.hear(t))
		assert.Contains(t, s.hear(t), "hint: too many files are open in this process: raise `ulimit -n`")
		assert.Zero(t, s.Wait().Code)
	})
}

// A system that refuses both namespaces: the group is taken, and remembered.
func TestFallsBack(t *testing.T) {
	h := hostBehind(t, userNamespace)
	s := enter(t, h, helper("refused"))
	said := s.hear(t)
	assert.Zero(t, s.Wait().Code)
	if strings.HasPrefix(said, "skip") {
		t.Skip(said)
	}
	assert.Equal(t, "3 false true subreaper", said)
}

func TestPathIsLookedUp(t *testing.T) {
	h := hostBehind(t, group)
	p, err := h.Start(Command{Path: "true"})
	require.NoError(t, err)
	assert.Zero(t, p.Wait().Code)
}

// Two goroutines for each live process, nothing for a thousand dead ones.
func TestCostsNothingLater(t *testing.T) {
	n := 1000
	if testing.Short() {
		n = 100
	}
	behindEach(t, func(t *testing.T, h *Host) {
		run := func() {
			p, err := h.Start(Command{Path: "/bin/true", Namespace: true, Marker: "PROC_TEST=a"})
			require.NoError(t, err)
			require.Zero(t, p.Wait().Code)
		}
		measure := func() (goroutines, files int, heap uint64) {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			fds, err := os.ReadDir("/proc/self/fd")
			require.NoError(t, err)
			return runtime.NumGoroutine(), len(fds), m.HeapAlloc
		}
		run()
		goroutines, files, heap := measure()
		for range n {
			run()
		}
		goroutinesLater, filesLater, heapLater := measure()
		assert.LessOrEqual(t, goroutinesLater, goroutines)
		assert.LessOrEqual(t, filesLater, files)
		assert.Less(t, int64(heapLater)-int64(heap), int64(256<<10))
		h.mu.Lock()
		assert.Empty(t, h.procs)
		assert.Empty(t, h.doomed)
		h.mu.Unlock()

		for range 10 {
			c := helper("hang")
			c.Grace = time.Minute
			enter(t, h, c).hear(t)
		}
		assert.LessOrEqual(t, runtime.NumGoroutine(), goroutines+2*10)
	})
}
