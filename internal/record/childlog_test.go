package record

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zapcore"
)

// standing is a clock that stands.
type standing time.Time

func (c standing) Now() time.Time                       { return time.Time(c) }
func (c standing) NewTicker(time.Duration) *time.Ticker { panic("no ticks here") }

var _ zapcore.Clock = standing{}

func at() standing { return standing(time.Date(2026, 2, 4, 10, 30, 15, 987, time.Local)) }

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

func TestChildLines(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "logs")
	l := newChildLog(dir, maxSize, kept, at())
	assert.NoDirExists(t, dir, "nothing is made before the first line")
	l.Spawned("a1b2c3d4", "coder", 1, "Write a function\nthat "+strings.Repeat("x ", 100))
	l.Completed("a1b2c3d4", true, 0)
	l.Completed("a1b2c3d4", false, 124)
	l.Failed("a1b2c3d4", "Child process timed out after 300s")
	l.Warn("a1b2c3d4", "something is odd")
	require.NoError(t, l.Close())

	path := filepath.Join(dir, "child_process.log")
	assert.Equal(t, strings.Join([]string{
		"2026-02-04 10:30:15 - child_process - INFO - [a1b2c3d4] Spawning child: agent=coder, depth=1, task=Write " +
			"a function that " +
			strings.Repeat("x ", 37) + "x...",
		"2026-02-04 10:30:15 - child_process - INFO - [a1b2c3d4] Child completed: success=True, exit=0",
		"2026-02-04 10:30:15 - child_process - INFO - [a1b2c3d4] Child completed: success=False, exit=124",
		"2026-02-04 10:30:15 - child_process - ERROR - [a1b2c3d4] Child failed: Child process timed out after 300s",
		"2026-02-04 10:30:15 - child_process - WARNING - [a1b2c3d4] something is odd",
		"",
	}, "\n"), content(t, path))
	for p, mode := range map[string]fs.FileMode{dir: 0o700 | fs.ModeDir, path: 0o600} {
		info, err := os.Stat(p)
		require.NoError(t, err)
		assert.Equal(t, mode, info.Mode(), p)
	}
}

func TestEscape(t *testing.T) {
	tests := []struct{ in, want string }{
		{"plain – ünïcode \\n 你好", "plain – ünïcode \\n 你好"},
		{"two\nlines\r\tand", `two\nlines\r\tand`},
		{"red \x1b[31m\x00\u009b", `red \x1b[31m\x00\u009b`},
		{"\u2028\u202e\ufeff", `\u2028\u202e\ufeff`},
		{"bad \xff byte", "bad \uFFFD byte"},
		{strings.Repeat("x", maxMessage+1), strings.Repeat("x", maxMessage) + "..."},
		{"x" + strings.Repeat("é", maxMessage), "x" + strings.Repeat("é", maxMessage/2-1) + "..."},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, oneLine(clip(tt.in), hidden))
	}
}

func TestNothingLogged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	require.NoError(t, NewChildLog(dir).Close())
	assert.NoDirExists(t, dir)
	var none *ChildLog
	none.Spawned("a", "b", 1, "c")
	require.NoError(t, none.Close())
}

func TestUnwritable(t *testing.T) {
	tests := map[string]func(t *testing.T, dir string){
		"a file in place of the folder": func(t *testing.T,
			dir string) {
			require.NoError(t, os.WriteFile(dir, nil, 0o600))
		},
		"a link in place of the file": func(t *testing.T, dir string) {
			require.NoError(t, os.Mkdir(dir, 0o700))
			require.NoError(t, os.Symlink(filepath.Join(dir, "target"), filepath.Join(dir, "child_process.log")))
		},
		"a pipe in place of the file": func(t *testing.T, dir string) {
			require.NoError(t, os.Mkdir(dir, 0o700))
			require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "child_process.log"), 0o600))
		},
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "logs")
			prepare(t, dir)
			l := NewChildLog(dir)
			l.Completed("a", true, 0)
			l.Completed("b", true, 0)
			err := l.Close()
			require.ErrorContains(t, err, "write the log of child processes: ")
			assert.Contains(t, err.Error(), "(2 lines lost)")
			assert.NoFileExists(t, filepath.Join(dir, "target"))
			require.NoError(t, l.Close(), "said once")
		})
	}
}

// A line that a full disk cut short is closed before the next one.
func TestTornLine(t *testing.T) {
	dir := t.TempDir()
	f := newChildFile(dir, maxSize, kept)
	_, err := f.Write([]byte("one\n"))
	require.NoError(t, err)
	_, err = f.f.WriteString("tw")
	require.NoError(t, err)
	f.torn = true
	_, err = f.Write([]byte("three\n"))
	require.NoError(t, err)
	_, err = f.Write([]byte("four\n"))
	require.NoError(t, err)
	assert.Equal(t, "one\ntw\nthree\nfour\n", content(t, f.path))
	require.NoError(t, f.Close())
}

func TestRotation(t *testing.T) {
	dir := t.TempDir()
	f := newChildFile(dir, 10, 2)
	for i := range 8 {
		_, err := f.Write(fmt.Appendf(nil, "line %d\n", i))
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
	assert.Equal(t, "line 6\nline 7\n", content(t, f.path))
	assert.Equal(t, "line 4\nline 5\n", content(t, f.path+".1"))
	assert.Equal(t, "line 2\nline 3\n", content(t, f.path+".2"))
	assert.NoFileExists(t, f.path+".3")
}

// A file that another process puts aside, or that somebody removes, is noticed
// at the next line.
func TestFollowsTheName(t *testing.T) {
	dir := t.TempDir()
	f := newChildFile(dir, maxSize, 2)
	write := func(s string) {
		_, err := f.Write([]byte(s + "\n"))
		require.NoError(t, err)
	}
	write("one")
	require.NoError(t, os.Rename(f.path, f.path+".1"))
	write("two")
	require.NoError(t, os.Remove(f.path))
	write("three")
	assert.Equal(t, "one\n", content(t, f.path+".1"))
	assert.Equal(t, "three\n", content(t, f.path))
	require.NoError(t, f.Close())
}

// When it cannot be put aside, the file grows and nothing is overwritten.
func TestRotationFails(t *testing.T) {
	dir := t.TempDir()
	f := newChildFile(dir, 5, 2)
	require.NoError(t, os.MkdirAll(filepath.Join(f.path+".2", "full"), 0o700))
	require.NoError(t, os.WriteFile(f.path+".1", []byte("older\n"), 0o600))
	for range 3 {
		_, err := f.Write([]byte("line\n"))
		require.NoError(t, err)
	}
	assert.Equal(t, "older\n", content(t, f.path+".1"))
	assert.Equal(t, "line\nline\nline\n", content(t, f.path))
	require.NoError(t, f.Close())

	lock, err := os.Create(filepath.Join(t.TempDir(), "x"))
	require.NoError(t, err)
	defer lock.Close()
	held := newChildFile(t.TempDir(), 5, 2)
	busy, err := os.Create(held.path + ".lock")
	require.NoError(t, err)
	defer busy.Close()
	require.NoError(t, syscall.Flock(int(busy.Fd()), syscall.LOCK_EX))
	for range 2 {
		_, err := held.Write([]byte("line\n"))
		require.NoError(t, err, "nobody waits for the lock")
	}
	assert.Equal(t, "line\nline\n", content(t, held.path))
	require.NoError(t, held.Close())
}

const (
	writers   = 4
	perWriter = 5000
)

// checkAll looks for every line of every writer, once and whole, and in order.
func checkAll(t *testing.T, dir string, keep int) {
	t.Helper()
	next := make([]int, writers)
	total := 0
	for i := keep; i >= 0; i-- {
		path := filepath.Join(dir, "child_process.log")
		if i > 0 {
			path += "." + strconv.Itoa(i)
		}
		data, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue
		}
		require.NoError(t, err)
		for line := range strings.Lines(string(data)) {
			total++
			_, rest, ok := strings.Cut(line, " - child_process - WARNING - [")
			require.True(t, ok, line)
			var w, n int
			_, err := fmt.Sscanf(rest, "%d] line %d of many\n", &w, &n)
			require.NoError(t, err, line)
			require.Equal(t, next[w], n, "writer %d", w)
			next[w]++
		}
	}
	require.Equal(t, writers*perWriter, total)
	require.NoFileExists(t, filepath.Join(dir, fmt.Sprintf("child_process.log.%d", keep)),
		"as many were kept as needed")
}

func writeAll(dir string, keep, w int) error {
	l := newChildLog(dir, 32<<10, keep, at())
	for n := range perWriter {
		l.Warn(strconv.Itoa(w), fmt.Sprintf("line %d of many", n))
	}
	return l.Close()
}

func TestWritersInOneProcess(t *testing.T) {
	const keep = 100
	dir := t.TempDir()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() { assert.NoError(t, writeAll(dir, keep, w)) })
	}
	wg.Wait()
	checkAll(t, dir, keep)
}

func TestWritersInSeveralProcesses(t *testing.T) {
	const keep = 100
	if dir := os.Getenv("CHILDLOG_TEST_DIR"); dir != "" {
		w, err := strconv.Atoi(os.Getenv("CHILDLOG_TEST_WRITER"))
		require.NoError(t, err)
		require.NoError(t, writeAll(dir, keep, w))
		return
	}
	dir := t.TempDir()
	var commands []*exec.Cmd
	for w := range writers {
		cmd := exec.Command(os.Args[0], "-test.run=^TestWritersInSeveralProcesses$")
		cmd.Env = append(os.Environ(), "CHILDLOG_TEST_DIR="+dir, "CHILDLOG_TEST_WRITER="+strconv.Itoa(w))
		require.NoError(t, cmd.Start())
		commands = append(commands, cmd)
	}
	for _, cmd := range commands {
		assert.NoError(t, cmd.Wait())
	}
	checkAll(t, dir, keep)
}

func FuzzEscape(f *testing.F) {
	for _, s := range []string{"", "plain", "a\nb", "\x1b[31m", "\xff", "\u2028'\"\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := oneLine(clip(s), hidden)
		assert.False(t, strings.ContainsFunc(got, hidden), "%q", got)
		if len(got) <= maxMessage {
			assert.Equal(t, got, oneLine(clip(got), hidden), "what is clean stays")
		}
	})
}

func BenchmarkLine(b *testing.B) {
	l := NewChildLog(b.TempDir())
	for b.Loop() {
		l.Spawned("a1b2c3d4", "coder", 1, "Write a function that adds two numbers")
	}
	require.NoError(b, l.Close())
}
