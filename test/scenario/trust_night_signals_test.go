package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qq/internal/standin"
)

// endsWith sends one signal to q and expects its exit code, soon.
func endsWith(t *testing.T, q *running, sig syscall.Signal) ended {
	t.Helper()
	start := time.Now()
	require.NoError(t, q.cmd.Process.Signal(sig))
	e := q.wait()
	assert.Equal(t, 128+int(sig), e.code, "%v; stderr %.500s", sig, e.stderr)
	assert.Less(t, time.Since(start), 20*time.Second)
	assert.Empty(t, q.w.processes(), "left when qq has returned")
	left, err := filepath.Glob(filepath.Join(q.w.dir, "qq", "run", "*"))
	require.NoError(t, err)
	for _, name := range left {
		assert.NotRegexp(t, `^\d+-\d+$`, filepath.Base(name), "its folder is left")
	}
	return e
}

// opening reports whether a thread of q waits for the other end of a named pipe.
func opening(q *running) func() bool {
	return func() bool {
		at, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/wchan", q.cmd.Process.Pid))
		for _, name := range at {
			if b, err := os.ReadFile(name); err == nil && strings.Contains(string(b), "wait_for_partner") {
				return true
			}
		}
		return false
	}
}

// TestNightNamedPipe: one signal ends a batch that waits for the other end of a named pipe.
func TestNightNamedPipe(t *testing.T) {
	for _, c := range []struct {
		sig   syscall.Signal
		flags []string
	}{
		{syscall.SIGINT, []string{"-o", "pipe"}}, {syscall.SIGTERM, []string{"-o", "pipe"}},
		{syscall.SIGHUP, []string{"--joblog", "pipe"}}, {syscall.SIGQUIT, []string{"--input", "pipe"}},
	} {
		t.Run(c.sig.String(), func(t *testing.T) {
			b := newNight(t, 3, "echo")
			require.NoError(t, syscall.Mkfifo(filepath.Join(b.work, "pipe"), 0o600))
			args := append([]string{"batch", "--no-bar"}, c.flags...)
			if c.flags[0] != "--input" {
				args = append(args, b.tasks)
			}
			q := b.start("", args...)
			b.until(runTimeout, "it waits for the other end", opening(q))
			endsWith(t, q, c.sig)
		})
	}
}

// piped starts qq with a pipe as stdout, and returns the end to read from.
func (w *world) piped(args ...string) (*running, *os.File) {
	w.t.Helper()
	r, out, err := os.Pipe()
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = r.Close() })
	q := w.prepared("", args...)
	q.cmd.Stdout = out
	require.NoError(w.t, q.cmd.Start())
	require.NoError(w.t, out.Close())
	return q, r
}

// full reports whether the pipe has no room: its 16 pages are not all filled to the end.
func full(r *os.File) func() bool {
	return func() bool {
		n, err := unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ)
		return err == nil && n >= 40<<10
	}
}

// TestNightStuckReader: the reader of stdout takes nothing any more. One signal ends qq all the same.
func TestNightStuckReader(t *testing.T) {
	for _, c := range []struct {
		sig   syscall.Signal
		model string
		args  []string
	}{
		{syscall.SIGINT, "say9000", []string{"batch", "--no-bar", "-j", "4"}},
		{syscall.SIGTERM, "say9000", []string{"batch", "--no-bar", "-j", "4", "--output-format", "stream-json"}},
		{syscall.SIGINT, "say400000", []string{"hello"}},
		{syscall.SIGHUP, "say400000", []string{"--output-format", "stream-json", "hello"}},
		{syscall.SIGQUIT, "say9000", []string{"batch", "--no-bar", "--output-format", "json"}},
	} {
		t.Run(fmt.Sprint(c.sig, c.args), func(t *testing.T) {
			b := newNight(t, 40, c.model)
			args := c.args
			if args[0] == "batch" {
				args = append(args, b.tasks)
			}
			q, r := b.piped(args...)
			b.until(runTimeout, "the pipe is full", full(r))
			endsWith(t, q, c.sig)
		})
	}
}

// TestNightSlowReader: a reader that is only slow gets the whole document after a signal.
func TestNightSlowReader(t *testing.T) {
	b := newNight(t, 40, "say9000")
	q, r := b.piped("batch", "--no-bar", "-j", "2", "--output-format", "json", b.tasks)
	b.until(runTimeout, "the pipe is full", full(r))
	require.NoError(t, q.cmd.Process.Signal(syscall.SIGINT))
	var all bytes.Buffer
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := io.CopyN(&all, r, 2<<10); err == io.EOF {
			break
		} else {
			require.NoError(t, err)
		}
		<-tick.C
	}
	assert.Equal(t, 130, q.wait().code)
	var list []result
	require.NoError(t, json.Unmarshal(all.Bytes(), &list))
	assert.Len(t, list, b.n)
}

// TestNightQuit: Ctrl-\ is a signal like the others, and prints no goroutines unless it is asked to.
func TestNightQuit(t *testing.T) {
	b := newNight(t, 3, "hang")
	q := b.batch()
	b.asked(1)
	e := endsWith(t, q, syscall.SIGQUIT)
	assert.NotContains(t, e.stderr, "goroutine")

	// A command without children, too: it waits for its task here.
	r, out, err := os.Pipe()
	require.NoError(t, err)
	defer out.Close()
	q = b.prepared("")
	q.cmd.Stdin = r
	require.NoError(t, q.cmd.Start())
	require.NoError(t, r.Close())
	<-time.After(300 * time.Millisecond) // a command that ends at once need not handle it
	e = endsWith(t, q, syscall.SIGQUIT)
	assert.NotContains(t, e.stderr, "goroutine")

	b.env = append(b.env, "GOTRACEBACK=all")
	before := b.s.Count("/api/chat")
	q = b.batch()
	b.asked(before + 1)
	require.NoError(t, q.cmd.Process.Signal(syscall.SIGQUIT))
	assert.Contains(t, q.wait().stderr, "goroutine")
}

// TestNightExitCodes: the exit codes of signals stand in the table.
func TestNightExitCodes(t *testing.T) {
	b := newNight(t, 1, "hang")
	man := b.qq("man").stdout
	for _, code := range []string{"129", "130", "131", "134", "141", "143"} {
		assert.Contains(t, man, "\n.B "+code+"\n")
	}
	q := b.start("", "hello")
	b.asked(1)
	endsWith(t, q, syscall.SIGHUP)
}

// TestNightCrash: when the root itself breaks down, that is no mistake in the configuration.
func TestNightCrash(t *testing.T) {
	s := standin.Start(t, standin.ByName())
	s.Strike(standin.Rule{Fault: standin.Fault{BeforeFirst: time.Second, Say: 6 << 20}})
	w := newWorld(t, s.Host(), "fast")
	q := w.start("", "--ephemeral", "hello")
	w.until(runTimeout, "a request hangs", func() bool { return s.Waiting() == 1 })
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", q.cmd.Process.Pid))
	require.NoError(t, err)
	var pages uint64
	_, err = fmt.Sscan(string(status), &pages)
	require.NoError(t, err)
	limit := pages*uint64(os.Getpagesize()) + 1<<20
	require.NoError(t, unix.Prlimit(q.cmd.Process.Pid, unix.RLIMIT_AS, &unix.Rlimit{Cur: limit, Max: limit}, nil))
	require.Error(t, q.cmd.Wait())
	got := q.cmd.ProcessState.Sys().(syscall.WaitStatus)
	assert.True(t, got.Signaled() && got.Signal() == syscall.SIGABRT, "%v: as exit code 134 in a shell; %.300s", got,
		q.stderr.String())
	q.cancel()
	w.assertGone()
}

// TestNightClosedStdout: an answer that cannot be written is no success, and no model is asked for it.
func TestNightClosedStdout(t *testing.T) {
	b := newNight(t, 3, "echo")
	for _, args := range [][]string{
		{"hello"}, {"--json", "hello"}, {"--output-format", "stream-json", "hello"}, {"batch", "--no-bar", b.tasks},
		{"version"},
	} {
		for _, closed := range []string{"exec >&-", "exec <&- >&-"} {
			if args[0] == "--output-format" && closed != "exec >&-" {
				continue
			}
			e := b.under(closed, args...).wait()
			assert.Equal(t, 1, e.code, "%s %q", closed, args)
			assert.Contains(t, e.stderr, "qq: write the answer: stdout is closed, or open only for reading\n  hint: ")
		}
	}
	assert.Empty(t, b.runs("list"), "no model worked for nobody")
	e := b.under("exec >&-", "batch", "--no-bar", "-o", "out", b.tasks).wait()
	assert.Equal(t, 0, e.code, "it does not need stdout: %s", e.stderr)
	assert.Equal(t, 0, b.under("exec >/dev/null", "hello").wait().code)
}

// TestNightAllStreamsClosed: whatever file qq opens first does not become a standard stream, so that nothing but the
// results is written into it.
func TestNightAllStreamsClosed(t *testing.T) {
	b := newNight(t, 3, "echo")
	for _, closed := range []string{"exec <&-", "exec 2>&-", "exec >&- 2>&-", "exec <&- >&- 2>&-"} {
		assert.Equal(t, 0, b.under(closed, "batch", "-v", "-o", "out", b.tasks).wait().code, closed)
		got, err := os.ReadFile(filepath.Join(b.work, "out"))
		require.NoError(t, err)
		assert.Equal(t, b.answers(), string(got), closed)
		assert.Equal(t, 2, b.under(closed, "--no-such-flag").wait().code, closed)
	}
	assert.NoError(t, filepath.WalkDir(b.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		assert.NotContains(t, string(text), "\nqq: ", path)
		assert.NotContains(t, string(text), "  hint: ", path)
		assert.NotContains(t, string(text), "] started: ", path)
		return err
	}))
}

// TestNightEventsToFullDisk: a run whose events cannot be written has failed, however fast its model is.
func TestNightEventsToFullDisk(t *testing.T) {
	b := newNight(t, 1, "fast")
	for i, model := range []string{"fast", "slow5", "say300000", "say3000", "fast", "slow1"} {
		q := b.prepared("", "--model", "ollama:"+model, "--output-format", "stream-json", "hello")
		null, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		require.NoError(t, err)
		q.cmd.Stdout = null
		require.NoError(t, q.cmd.Start())
		require.NoError(t, null.Close())
		assert.Equal(t, 1, q.wait().code)
		list := b.runs("list")
		require.Len(t, list, i+1)
		assert.Equal(t, "failed", list[0].Status, model)
	}
}

// TestNightIdleCommand: a command of the root's own agent that does not obey is ended with its run.
func TestNightIdleCommand(t *testing.T) {
	b := newNight(t, 1, "script")
	const step = `{"tool":"run_pty_cmd","times":1,"arguments":{"command":"trap '' TERM HUP; sleep 50"}}`
	start := time.Now()
	e := b.qq("-a", "worker", "--auto-approve", "--idle-timeout", "1", "--json", "-m", step)
	e.failed(124, "idle")
	assert.Less(t, time.Since(start), 20*time.Second)
}

// TestNightFullStdout: an answer that does not fit on the disk is no success, in any format.
func TestNightFullStdout(t *testing.T) {
	b := newNight(t, 3, "echo")
	for _, args := range [][]string{
		{"hello"}, {"--json", "hello"}, {"--output-format", "stream-json", "hello"},
		{"batch", "--no-bar", b.tasks}, {"batch", "--no-bar", "--json", b.tasks},
		{"batch", "--no-bar", "--output-format", "jsonl", b.tasks},
		{"batch", "--no-bar", "--output-format", "markdown", b.tasks},
		{"batch", "--no-bar", "--output-format", "stream-json", b.tasks},
		{"batch", "--no-bar", "-o", "/dev/full", b.tasks}, {"batch", "--no-bar", "--resume", b.tasks},
		{"batch", "--dry-run", b.tasks}, {"--dry-run", "hello"},
		{"--help"}, {"batch", "--help"}, {"version"}, {"man"}, {"config"}, {"runs", "list"}, {"agents", "list"},
	} {
		e := b.under("exec >/dev/full", args...).wait()
		assert.Equal(t, 1, e.code, "%q", args)
		assert.Contains(t, e.stderr, "qq: write the answer: ", "%q", args)
	}
}

// TestNightOutputGone: a file of -o that was removed, replaced or cut meanwhile is noticed, and --resume
// writes it again. Nothing is asked twice.
func TestNightOutputGone(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(path string) error
		says string
	}{
		"removed":  {os.Remove, "was removed or replaced"},
		"replaced": {func(path string) error { return os.Rename(path+".new", path) }, "was removed or replaced"},
		"emptied":  {func(path string) error { return os.Truncate(path, 0) }, "was cut"},
		"cut":      {func(path string) error { return os.Truncate(path, 5) }, "was cut"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newNight(t, 6, "echo")
			out := filepath.Join(b.work, "out")
			b.file("out.new", b.answers())
			b.s.Strike(standin.Rule{Task: nightTask(5), Fault: standin.Fault{BeforeFirst: time.Second}})
			q := b.batch("-o", "out", "-j", "1")
			b.asked(6)
			require.NoError(t, c.do(out))
			e := q.wait()
			assert.Equal(t, 1, e.code)
			assert.Contains(t, e.stderr, "qq: -o out "+c.says+" meanwhile")
			assert.Contains(t, e.stderr, "hint: repeat the command with --resume")
			asked := b.s.Count("/api/chat")
			assert.Equal(t, 0, b.batch("-o", "out", "--resume").wait().code)
			assert.Equal(t, b.answers(), endureRead(t, out))
			assert.Equal(t, asked, b.s.Count("/api/chat"))
		})
	}
}
