package joblog

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qq/pkg/task"
)

const key = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

var noon = time.UnixMilli(1795273621744)

func result(index int, status task.Status) task.Result {
	r := task.Task{}.Ended(status, "")
	r.Index, r.DurationMS, r.Output = index, 1234, "answer"
	return r
}

func read(t *testing.T, path string) []Entry {
	t.Helper()
	var all []Entry
	for e, err := range Read(path) {
		require.NoError(t, err)
		all = append(all, e)
	}
	return all
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

func TestFormat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := Open(path)
	require.NoError(t, err)
	killed := result(2, task.Killed)
	killed.ExitCode = 128 + 9
	wrong := result(3, task.Failed)
	wrong.ExitCode = 0
	require.NoError(t, l.Add(result(0, task.Completed), key, "summarize a.md", noon))
	require.NoError(t, l.Add(result(1, task.Timeout), "no key", "two\nlines\tand \\ é\u202e\x1b", noon.Add(time.Hour)))
	require.NoError(t, l.Add(killed, key, "", noon))
	require.NoError(t, l.Add(wrong, key, "x", time.Time{}))
	require.NoError(t, l.Add(result(4, task.Cancelled), key, "is still to be done", noon))
	require.NoError(t, l.Add(result(5, task.Interrupted), key, "is still to be done", noon))
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
	assert.Equal(t, "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"+
		"1\tqq:9f86d081884c7d65\t1795273621.744\t     1.234\t0\t6\t0\t0\tsummarize a.md\n"+
		"2\tqq\t1795277221.744\t     1.234\t0\t6\t124\t0\ttwo\\nlines\\tand \\\\ é\\u202e\\x1b\n"+
		"3\tqq:9f86d081884c7d65\t1795273621.744\t     1.234\t0\t6\t0\t9\t\n"+
		"4\tqq:9f86d081884c7d65\t0.000\t     1.234\t0\t6\t1\t0\tx\n", content(t, path))

	all := read(t, path)
	require.Len(t, all, 4)
	assert.Equal(t, Entry{Seq: 1, Host: "qq:9f86d081884c7d65", Key: "9f86d081884c7d65", Started: noon,
		Runtime: 1234 * time.Millisecond, Command: "summarize a.md"}, all[0])
	assert.Equal(t, "two\nlines\tand \\ é\u202e\x1b", all[1].Command)
	for i, e := range all {
		assert.Equal(t, i == 0, e.Success(), e)
		assert.Equal(t, i == 0, e.Success(), e)
		assert.Equal(t, i != 1, e.Of(key), e)
		assert.False(t, e.Of("0"+key), e)
		assert.False(t, e.Of(""), e)
	}
	assert.Equal(t, 9, all[2].Signal)
}

// TestNoFailureLooksLikeSuccess: whatever exit code a result has.
func TestNoFailureLooksLikeSuccess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := Open(path)
	require.NoError(t, err)
	defer l.Close()
	statuses := []task.Status{task.Failed, task.Timeout, task.Idle, task.Refused, task.TurnLimit, task.Empty, task.Broken, task.NoResult,
		task.Killed, task.Unavailable, task.Limit, task.Misused, task.UnknownOutcome, "of a later version"}
	for _, s := range statuses {
		for _, code := range []int{0, 1, 127, 128, 129, 137, 255, -1} {
			r := result(0, s)
			r.ExitCode = code
			require.NoError(t, l.Add(r, key, "x", noon))
		}
	}
	all := read(t, path)
	assert.Len(t, all, len(statuses)*8)
	for _, e := range all {
		assert.False(t, e.Success(), e)
	}
}

// TestOpenRepairs: whatever a crash left, the next lines are whole, and what was
// whole before is there.
func TestOpenRepairs(t *testing.T) {
	dir := t.TempDir()
	line := "7\tqq:9f86d081884c7d65\t1795273621.744\t     1.234\t0\t6\t0\t0\tdo it\n"
	whole := header + strings.Replace(line, "7", "1", 1)
	for cut := range len(line) {
		path := filepath.Join(dir, fmt.Sprint(cut))
		require.NoError(t, os.WriteFile(path, []byte(whole+line[:cut]), 0o600))
		want := 1
		if strings.Count(line[:cut], "\t") == 8 { // only the command is not whole
			want = 2
		}
		assert.Len(t, read(t, path), want)
		l, err := Open(path)
		require.NoError(t, err, cut)
		require.NoError(t, l.Add(result(8, task.Completed), key, "next", noon))
		require.NoError(t, l.Close())
		all := read(t, path)
		require.Len(t, all, want+1, cut)
		assert.Equal(t, "next", all[want].Command)
	}
	for cut := range len(header) {
		path := filepath.Join(dir, "header"+fmt.Sprint(cut))
		require.NoError(t, os.WriteFile(path, []byte(header[:cut]), 0o600))
		l, err := Open(path)
		require.NoError(t, err, cut)
		require.NoError(t, l.Close())
		require.NoError(t, l.Close())
		assert.Equal(t, header, content(t, path))
	}
	path := filepath.Join(dir, "long")
	require.NoError(t, os.WriteFile(path, []byte(whole+strings.Repeat("\x00", 300<<10)), 0o600))
	l, err := Open(path)
	require.NoError(t, err)
	require.NoError(t, l.Add(result(8, task.Completed), key, "next", noon))
	require.NoError(t, l.Close())
	assert.Len(t, read(t, path), 2)
}

func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for _, before := range []string{"", header, header + "1\t:\t0.000\t     0.000\t0\t0\t0\t0\tx\n", header + "torn"} {
		require.NoError(t, os.WriteFile(path, []byte(before), 0o600))
		l, err := Create(path)
		require.NoError(t, err)
		require.NoError(t, l.Close())
		assert.Equal(t, header, content(t, path))
	}
}

// TestOtherFilesStay: a slip of the keyboard costs nobody a file.
func TestOtherFilesStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.txt")
	require.NoError(t, os.WriteFile(path, []byte("summarize a.md"), 0o600))
	for _, f := range []func(string) (*Log, error){Open, Create} {
		_, err := f(path)
		assert.EqualError(t, err, path+" is no job log: its first line is not that of one\nhint: give --joblog a new file, or one of an earlier batch")
	}
	assert.Equal(t, "summarize a.md", content(t, path))

	_, err := Open(filepath.Join(path, "x"))
	assert.ErrorContains(t, err, "open job log: ")
	for _, err := range Read(path + "x") {
		assert.ErrorIs(t, err, fs.ErrNotExist)
	}
}

func TestOneWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := Open(path)
	require.NoError(t, err)
	_, err = Create(path)
	assert.EqualError(t, err, "job log "+path+" is in use by another qq\nhint: wait for that one, or give another --joblog")
	assert.ErrorIs(t, err, ErrInUse)
	require.NoError(t, l.Close())
	assert.ErrorIs(t, l.Add(result(0, task.Completed), key, "x", noon), fs.ErrClosed)
	l, err = Open(path)
	require.NoError(t, err)
	require.NoError(t, l.Close())
}

func TestManyAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := Open(path)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() { assert.NoError(t, l.Add(result(i, task.Completed), key, strings.Repeat("x", i*100), noon)) })
	}
	wg.Wait()
	require.NoError(t, l.Close())
	seen := map[int]bool{}
	for _, e := range read(t, path) {
		assert.Len(t, e.Command, min((e.Seq-1)*100, maxCommand+3))
		seen[e.Seq] = true
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
	l, err := Open(path)
	require.NoError(t, err)
	require.NoError(t, l.Add(result(0, task.Completed), key, "x", noon))
	require.NoError(t, l.Close())
	assert.Equal(t, header+"1\tqq:9f86d081884c7d65\t1795273621.744\t     1.234\t0\t6\t0\t0\tx\n", <-got)
}

// TestFullDisk: a line that did not fit leaves nothing behind.
func TestFullDisk(t *testing.T) {
	_, err := Open("/dev/full")
	if _, there := os.Stat("/dev/full"); there == nil {
		assert.EqualError(t, err, "write job log: write /dev/full: no space left on device")
	}
	path := filepath.Join(t.TempDir(), "log")
	l, err := Open(path)
	require.NoError(t, err)
	_, err = l.f.WriteString("3\tqq:9f8") // as if there had been room for so much
	require.NoError(t, err)
	l.torn = true
	require.NoError(t, l.Add(result(0, task.Completed), key, "x", noon))
	require.NoError(t, l.Close())
	assert.Len(t, read(t, path), 1)
}

// ofParallel was written by GNU parallel 20221122: jobs that ended well, failed, were
// killed and timed out, one with a line break and one with a tab.
const ofParallel = header +
	"1\t:\t1795273621.744\t     0.003\t0\t0\t0\t0\ttrue\n" +
	"2\t:\t1795273621.747\t     0.008\t0\t0\t1\t0\tfalse\n" +
	"3\t:\t1795273621.755\t     0.006\t0\t0\t0\t9\tkill -9 $$\n" +
	"4\t:\t1795273622.002\t     2.087\t0\t0\t-1\t15\tsleep 5\n" +
	"5\t:\t1795273794.350\t     0.003\t0\t8\t0\t0\techo 'one\x00two'\n" +
	"6\tssh -p 22 host\t1795273794.257\t     0.002\t0\t4\t0\t0\techo 'a\tb\\n'\n"

func TestReadParallel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(path, []byte(ofParallel+header), 0o600))
	all := read(t, path)
	require.Len(t, all, 6)
	for i, success := range []bool{true, false, false, false, true, true} {
		assert.Equal(t, i+1, all[i].Seq)
		assert.Equal(t, success, all[i].Success(), all[i])
		assert.False(t, all[i].Of(key))
	}
	assert.Equal(t, Entry{Seq: 4, Host: ":", Started: time.UnixMilli(1795273622002), Runtime: 2087 * time.Millisecond,
		Exit: -1, Signal: 15, Command: "sleep 5"}, all[3])
	assert.Equal(t, "echo 'one\ntwo'", all[4].Command)
	assert.Equal(t, "echo 'a\tb\\n'", all[5].Command)

	l, err := Open(path)
	require.NoError(t, err)
	require.NoError(t, l.Add(result(6, task.Completed), key, "x", noon))
	require.NoError(t, l.Close())
	assert.Len(t, read(t, path), 7)
}

// TestParallelReads: parallel goes on after a log of ours. It is not installed
// everywhere.
func TestParallelReads(t *testing.T) {
	program, err := exec.LookPath("parallel")
	if err != nil {
		t.Skip("GNU parallel is not installed")
	}
	dir := t.TempDir()
	for flag, want := range map[string]string{"--resume": "ran 2\nran 5\n", "--resume-failed": "ran 2\nran 3\nran 4\nran 5\n"} {
		path := filepath.Join(dir, "log"+flag)
		l, err := Open(path)
		require.NoError(t, err)
		killed := result(3, task.Killed)
		killed.ExitCode = 137
		require.NoError(t, l.Add(result(0, task.Completed), key, "tab\tand\nline\x00break", noon))
		require.NoError(t, l.Add(result(2, task.Idle), key, "third", noon))
		require.NoError(t, l.Add(killed, "", "fourth", noon))
		require.NoError(t, l.Close())
		cmd := exec.Command(program, "--joblog", path, flag, "-j1", "echo", "ran", ":::", "1", "2", "3", "4", "5")
		cmd.Env = append(os.Environ(), "HOME="+dir)
		out, err := cmd.Output()
		require.NoError(t, err)
		assert.Equal(t, want, string(out))
		assert.Len(t, read(t, path), 3+strings.Count(want, "\n"))
	}
}

func TestReadErrors(t *testing.T) {
	good := []string{"1", ":", "1795273621.744", "     0.003", "0", "0", "0", "0", "true"}
	with := func(i int, s string) string {
		columns := append([]string{}, good...)
		columns[i] = s
		return strings.Join(columns, "\t")
	}
	for line, want := range map[string]string{
		"":                                 "there are 1 columns, not 9",
		"some text":                        "there are 1 columns, not 9",
		strings.Join(good[:8], "\t"):       "there are 8 columns, not 9",
		with(0, "0"):                       `column Seq: "0" is no number that can stand there`,
		with(0, "+1"):                      `column Seq: "+1" is no number that can stand there`,
		with(0, strings.Repeat("9", 1000)): `column Seq: "` + strings.Repeat("9", 40) + `" is no number that can stand there`,
		with(1, ""):                        "column Host is empty",
		with(2, "NaN"):                     `column Starttime: "NaN" is no number of seconds`,
		with(2, "0x10"):                    `column Starttime: "0x10" is no number of seconds`,
		with(3, "99999999999"):             `column JobRuntime: "99999999999" is no number of seconds`,
		with(4, "-1"):                      `column Send: "-1" is no number that can stand there`,
		with(5, ""):                        `column Receive: "" is no number that can stand there`,
		with(6, "\x1b"):                    `column Exitval: "\x1b" is no number that can stand there`,
		with(7, "SIGKILL"):                 `column Signal: "SIGKILL" is no number that can stand there`,
	} {
		n := 0
		for _, err := range entries(strings.NewReader(header + with(8, "") + "\n" + line + "\n" + with(8, "") + "\n")) {
			if n++; n == 2 {
				assert.EqualError(t, err, "line 3: "+want+"\nhint: delete that line, or give the log of another batch")
			} else {
				require.NoError(t, err)
			}
		}
		assert.Equal(t, 2, n, "nothing after an error")
	}
	path := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(path, []byte("a\nb\n"), 0o600))
	for _, err := range Read(path) {
		assert.EqualError(t, err, "job log "+path+": line 1: there are 1 columns, not 9\nhint: delete that line, or give the log of another batch")
	}
}

// TestLongLines: a line of any length, in the memory of a short one.
func TestLongLines(t *testing.T) {
	long := "1\t:\t0.000\t     0.000\t0\t0\t0\t0\t" + strings.Repeat("x", 3*maxLine) + "\n"
	n := 0
	for e, err := range entries(strings.NewReader(header + long + long + long[:maxLine+10])) {
		require.NoError(t, err)
		assert.Less(t, len(e.Command), maxLine)
		n++
	}
	assert.Equal(t, 3, n)
	longest := fmt.Sprintf("%s%s", header, escape(strings.Repeat("\U000e0001", maxCommand)))
	assert.Less(t, len(longest), maxLine, "a line of ours is always read whole")
}

func TestEscape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		line := escape(s)
		assert.False(t, strings.ContainsAny(line, "\t\n\r\x00\x1b"))
		assert.Equal(t, s, unescape(line))
	})
	assert.Equal(t, `C:\new \é \`, unescape(`C:\\new \é \`))
	assert.Equal(t, "a\ufffd", escape("a\xff"))
	assert.Equal(t, strings.Repeat("é", maxCommand)+"...", escape(strings.Repeat("é", maxCommand+1)))
	assert.Equal(t, strings.Repeat("é", maxCommand), escape(strings.Repeat("é", maxCommand)))
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(ofParallel))
	f.Add([]byte(header + "1\tqq:9f86d081884c7d65\t1795273621.744\t     1.234\t0\t6\t0\t0\ta\\n\\\n2\tqq\t"))
	f.Add([]byte(header))
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		lines := bytes.Count(data, []byte("\n")) + 1
		for e, err := range entries(bytes.NewReader(data)) {
			if lines--; lines < 0 {
				t.Fatal("more entries than lines")
			}
			if err != nil {
				continue
			}
			if e.Seq < 1 || e.Host == "" || e.Success() != (e.Exit == 0 && e.Signal == 0) {
				t.Fatalf("%+v", e)
			}
			if e.Key != "" && (!e.Of(e.Key) || len(e.Key) != keyLength) {
				t.Fatalf("%+v", e)
			}
			if utf8.Valid(data) && !utf8.ValidString(e.Host) {
				t.Fatalf("%+v", e)
			}
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	l, err := Open(filepath.Join(b.TempDir(), "log"))
	require.NoError(b, err)
	defer l.Close()
	r := result(0, task.Completed)
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, l.Add(r, key, "summarize docs/house.md in three sentences", noon))
	}
}

func BenchmarkRead(b *testing.B) {
	path := filepath.Join(b.TempDir(), "log")
	l, err := Open(path)
	require.NoError(b, err)
	for i := range 20000 {
		require.NoError(b, l.Add(result(i, task.Completed), key, "summarize docs/house.md in three sentences", noon))
	}
	require.NoError(b, l.Close())
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for _, err := range Read(path) {
			require.NoError(b, err)
			n++
		}
		require.Equal(b, 20000, n)
	}
}
