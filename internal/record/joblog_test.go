package record

import (
	"context"
	"errors"
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
	"pgregory.net/rapid"

	"qq/pkg/task"
	"qq/pkg/tool"
)

const batch = "0198a000-0000-7000-8000-0000a1b2c3d4"

var noon = time.UnixMilli(1795273621744)

func result(index int, status task.Status) task.Result {
	r := task.Task{}.Ended(status, "")
	r.Index, r.DurationMS, r.Output = index, 1234, "answer"
	return r
}

// lines are the columns of the lines of a job log, without its header.
func lines(t *testing.T, path string) (all [][]string) {
	t.Helper()
	rest, ok := strings.CutPrefix(content(t, path), jobHeader)
	require.True(t, ok, "a header")
	for line := range strings.Lines(rest) {
		columns := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 9)
		require.Len(t, columns, 9)
		all = append(all, columns)
	}
	return all
}

// createJobLog starts the log of a batch at path.
func createJobLog(path, batch string) (*JobLog, error) {
	l, err := OpenJobLog(context.Background(), path)
	if err == nil {
		if err = l.Begin(batch); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	return l, err
}

func TestFormat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := createJobLog(path, batch)
	require.NoError(t, err)
	killed := result(2, task.Killed)
	killed.ExitCode = 128 + 9
	wrong := result(3, task.Failed)
	wrong.ExitCode = 0
	require.NoError(t, l.Add(result(0, task.Completed), "summarize a.md", noon))
	require.NoError(t, l.Add(result(1, task.Timeout), "two\nlines\tand \\ é\u202e\x1b", noon.Add(time.Hour)))
	require.NoError(t, l.Add(killed, "", noon))
	require.NoError(t, l.Add(wrong, "x", time.Time{}))
	require.NoError(t, l.Add(result(4, task.Cancelled), "is still to be done", noon))
	require.NoError(t, l.Add(result(5, task.Interrupted), "is still to be done", noon))
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
	assert.Equal(t, "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"+
		"1\tqq:"+batch+"\t1795273621.744\t     1.234\t0\t6\t0\t0\tsummarize a.md\n"+
		"2\tqq:"+batch+"\t1795277221.744\t     1.234\t0\t6\t124\t0\ttwo\\nlines\\tand \\\\ é\\u202e\\x1b\n"+
		"3\tqq:"+batch+"\t1795273621.744\t     1.234\t0\t6\t0\t9\t\n"+
		"4\tqq:"+batch+"\t0.000\t     1.234\t0\t6\t1\t0\tx\n", content(t, path))
}

// TestNoFailureLooksLikeSuccess: whatever exit code a result has.
func TestNoFailureLooksLikeSuccess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := createJobLog(path, batch)
	require.NoError(t, err)
	defer l.Close()
	statuses := []task.Status{task.Failed, task.Timeout, task.Idle, task.Refused, task.TurnLimit, task.Empty,
		task.Broken, task.NoResult,
		task.Killed, task.Unavailable, task.Limit, task.Misused, task.UnknownOutcome, "of a later version"}
	for _, s := range statuses {
		for _, code := range []int{0, 1, 127, 128, 129, 137, 255, -1} {
			r := result(0, s)
			r.ExitCode = code
			require.NoError(t, l.Add(r, "x", noon))
		}
	}
	all := lines(t, path)
	assert.Len(t, all, len(statuses)*8)
	for _, columns := range all {
		assert.NotEqual(t, []string{"0", "0"}, columns[6:8])
	}
}

func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for _, before := range []string{"", jobHeader, jobHeader + "1\t:\t0.000\t     0.000\t0\t0\t0\t0\tx\n",
		jobHeader + "torn"} {
		require.NoError(t, os.WriteFile(path, []byte(before), 0o600))
		l, err := createJobLog(path, batch)
		require.NoError(t, err)
		require.NoError(t, l.Close())
		assert.Equal(t, jobHeader, content(t, path))
	}
}

// TestOtherFilesStay: a slip of the keyboard costs nobody a file.
func TestOtherFilesStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.txt")
	require.NoError(t, os.WriteFile(path, []byte("summarize a.md"), 0o600))
	_, err := createJobLog(path, batch)
	assert.EqualError(t, err, path+" is no job log: its first line is not that of one\nhint: give --joblog a new "+
		"file, or one of an earlier batch")
	assert.Equal(t, "summarize a.md", content(t, path))

	_, err = createJobLog(filepath.Join(path, "x"), batch)
	assert.ErrorContains(t, err, "open job log: ")
	assert.ErrorContains(t, err, "hint: --joblog takes a file that you may write")
}

func TestOneWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := createJobLog(path, batch)
	require.NoError(t, err)
	_, err = createJobLog(path, batch)
	assert.EqualError(t, err, "job log "+path+" is in use by another qq\nhint: wait for that one, or give another "+
		"--joblog")
	assert.ErrorIs(t, err, ErrInUse)
	require.NoError(t, l.Close())
	assert.ErrorIs(t, l.Add(result(0, task.Completed), "x", noon), fs.ErrClosed)
	l, err = createJobLog(path, batch)
	require.NoError(t, err)
	require.NoError(t, l.Close())
}

func TestManyAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := createJobLog(path, batch)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() { assert.NoError(t, l.Add(result(i, task.Completed), strings.Repeat("x", i*100), noon)) })
	}
	wg.Wait()
	require.NoError(t, l.Close())
	seen := map[int]bool{}
	for _, columns := range lines(t, path) {
		seq, err := strconv.Atoi(columns[0])
		require.NoError(t, err)
		assert.Len(t, columns[8], min((seq-1)*100, maxCommand+3))
		seen[seq] = true
	}
	assert.Len(t, seen, 50)
}

// TestPipe: what cannot be read back is written to all the same.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	got := make(chan string)
	go func() {
		b, _ := os.ReadFile(path)
		got <- string(b)
	}()
	l, err := createJobLog(path, batch)
	require.NoError(t, err)
	require.NoError(t, l.Add(result(0, task.Completed), "x", noon))
	require.NoError(t, l.Close())
	assert.Equal(t, jobHeader+"1\tqq:"+batch+"\t1795273621.744\t     1.234\t0\t6\t0\t0\tx\n", <-got)
}

// TestFullDisk: a line that did not fit leaves nothing behind.
func TestFullDisk(t *testing.T) {
	_, err := createJobLog("/dev/full", batch)
	if _, there := os.Stat("/dev/full"); there == nil {
		assert.EqualError(t, err, "write job log: write /dev/full: no space left on device")
	}
	path := filepath.Join(t.TempDir(), "log")
	l, err := createJobLog(path, batch)
	require.NoError(t, err)
	_, err = l.f.WriteString("3\tqq:9f8") // as if there had been room for so much
	require.NoError(t, err)
	l.torn = true
	require.NoError(t, l.Add(result(0, task.Completed), "x", noon))
	require.NoError(t, l.Close())
	assert.Len(t, lines(t, path), 1)
}

// TestParallelReads: parallel goes on after a log of ours. It is not installed
// everywhere.
func TestParallelReads(t *testing.T) {
	program, err := exec.LookPath("parallel")
	if err != nil {
		t.Skip("GNU parallel is not installed")
	}
	dir := t.TempDir()
	for flag, want := range map[string]string{"--resume": "ran 2\nran 5\n",
		"--resume-failed": "ran 2\nran 3\nran 4\nran 5\n"} {
		path := filepath.Join(dir, "log"+flag)
		l, err := createJobLog(path, batch)
		require.NoError(t, err)
		killed := result(3, task.Killed)
		killed.ExitCode = 137
		require.NoError(t, l.Add(result(0, task.Completed), "tab\tand\nline\x00break", noon))
		require.NoError(t, l.Add(result(2, task.Idle), "third", noon))
		require.NoError(t, l.Add(killed, "fourth", noon))
		require.NoError(t, l.Close())
		cmd := exec.Command(program, "--joblog", path, flag, "-j1", "echo", "ran", ":::", "1", "2", "3", "4", "5")
		cmd.Env = append(os.Environ(), "HOME="+dir)
		out, err := cmd.Output()
		require.NoError(t, err)
		assert.Equal(t, want, string(out))
		assert.Len(t, lines(t, path), 3+strings.Count(want, "\n"))
	}
}

func TestCommand(t *testing.T) {
	escape := func(s string) string { return oneLine(tool.First(s, maxCommand, "..."), escaped) }
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		line := escape(s)
		assert.False(t, strings.ContainsAny(line, "\t\n\r\x00\x1b"))
		back, err := strconv.Unquote(`"` + strings.ReplaceAll(line, `"`, `\"`) + `"`)
		require.NoError(t, err)
		assert.Equal(t, s, back)
	})
	assert.Equal(t, "a\ufffd", escape("a\xff"))
	assert.Equal(t, strings.Repeat("é", maxCommand)+"...", escape(strings.Repeat("é", maxCommand+1)))
	assert.Equal(t, strings.Repeat("é", maxCommand), escape(strings.Repeat("é", maxCommand)))
}

func BenchmarkAdd(b *testing.B) {
	l, err := createJobLog(filepath.Join(b.TempDir(), "log"), batch)
	require.NoError(b, err)
	defer l.Close()
	r := result(0, task.Completed)
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, l.Add(r, "summarize docs/house.md in three sentences", noon))
	}
}
