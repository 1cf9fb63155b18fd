package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	roleVar = "BENCH_TEST_ROLE" // makes this test binary play a process
	work    = 200 * time.Millisecond
)

func TestMain(m *testing.M) {
	switch os.Getenv(roleVar) {
	case "":
		os.Exit(m.Run())
	case "burn":
		var r syscall.Rusage
		for syscall.Getrusage(syscall.RUSAGE_SELF, &r) == nil && time.Duration(r.Utime.Nano()+r.Stime.Nano()) < work {
		}
	case "parent", "namespaced parent":
		cmd := exec.Command(os.Args[0])
		cmd.Env = []string{roleVar + "=burn"}
		if os.Getenv(roleVar) != "parent" {
			isolate(cmd)
		}
		if err := cmd.Run(); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
	}
}

// TestDescendantsAreCounted: the CPU of a root is that of its children too, in
// a PID namespace or not. The rows about batches hang on it.
func TestDescendantsAreCounted(t *testing.T) {
	for _, role := range []string{"parent", "namespaced parent"} {
		t.Run(role, func(t *testing.T) {
			u, err := command{program: os.Args[0], dir: t.TempDir(),
				env: []string{roleVar + "=" + role}}.run(t.Context())
			if err != nil && strings.Contains(err.Error(), "operation not permitted") {
				t.Skip("this machine does not let us make a PID namespace: ", err)
			}
			require.NoError(t, err)
			assert.GreaterOrEqual(t, u.cpu, work)
			assert.GreaterOrEqual(t, u.wall, work/time.Duration(runtime.NumCPU()))
		})
	}
}

// TestRootPeak samples the memory of a process, not that of the bench.
func TestRootPeak(t *testing.T) {
	c := command{program: os.Args[0], dir: t.TempDir(), env: []string{roleVar + "=burn"}, sample: true}
	u, err := c.run(t.Context())
	require.NoError(t, err)
	assert.Greater(t, u.rootPeak, size(mebibyte))
	assert.LessOrEqual(t, u.rootPeak, u.maxRSS+mebibyte)
}

func TestFailedCommand(t *testing.T) {
	_, err := command{program: "/bin/sh", args: []string{"-c", "echo why >&2; exit 3"},
		dir: t.TempDir()}.run(t.Context())
	require.ErrorContains(t, err, "exit status 3")
	assert.ErrorContains(t, err, "why")
}

// TestWatch: the text counts from the moment in which its last byte is there.
func TestWatch(t *testing.T) {
	w := &watch{text: "open"}
	script := []string{"-c", "printf op; printf en; printf ' open'"}
	c := command{program: "/bin/sh", args: script, dir: t.TempDir(), stdout: w}
	before := time.Now()
	_, err := c.run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "open open", w.all.String())
	assert.WithinRange(t, w.seen, before, time.Now())
	seen := w.seen
	_, _ = w.Write([]byte("open"))
	assert.Equal(t, seen, w.seen, "the first time")

	w = &watch{text: "open"}
	_, _ = w.Write([]byte("op"))
	assert.Zero(t, w.seen)
}

// TestResumed: a run that prints anything else than the first did nothing of what
// is measured.
func TestResumed(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	require.NoError(t, os.WriteFile(out, []byte("first"), 0o600))
	run := func(text string) func() (used, error) {
		return func() (used, error) { return used{wall: 1}, os.WriteFile(out, []byte(text), 0o600) }
	}
	us, err := resumed(2, out, run("first"))
	require.NoError(t, err)
	assert.Equal(t, []used{{wall: 1}, {wall: 1}}, us)
	_, err = resumed(2, out, run("second"))
	assert.ErrorContains(t, err, "differs")
}

func TestMedian(t *testing.T) {
	assert.Equal(t, size(2), median([]size{3, 1, 2}))
	assert.Equal(t, size(4), median([]size{7, 1, 3, 5}))
}

func TestSuccesses(t *testing.T) {
	const good = `{"index":0,"success":true,"error":null}` + "\n" + `{"index":1,"success":true}` + "\n"
	for _, tt := range []struct {
		name, text, want string
	}{
		{"all", good, ""},
		{"too few", good[:strings.Index(good, "\n")], "1 results of 2 tasks"},
		{"too many", good + `{"index":2,"success":true}`, "3 results of 2 tasks"},
		{"out of order", `{"index":1,"success":true}`, "result 1 stands where 0 belongs"},
		{"failure", `{"index":0,"success":false,"error":"no"}`, "task 0: no"},
		{"failure without a word", `{"index":0}`, "task 0 did not succeed"},
		{"half a line", good[:len(good)-5], "result 1: unexpected EOF"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "out")
			require.NoError(t, os.WriteFile(path, []byte(tt.text), 0o600))
			err := successes(path, 2)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			assert.EqualError(t, err, tt.want)
		})
	}
}

func TestChoose(t *testing.T) {
	all, err := choose(rows(), "")
	require.NoError(t, err)
	assert.Len(t, all, len(rows()))
	some, err := choose(rows(), "^(start|kill)$")
	require.NoError(t, err)
	assert.Len(t, some, 2)
	_, err = choose(rows(), "nothing")
	assert.EqualError(t, err, "-row nothing: no such row")
}

func TestTable(t *testing.T) {
	var out strings.Builder
	lines := []line{
		ratio("fast", []time.Duration{3e6}, []time.Duration{2e6}, 1.5, milliseconds),
		absolute("large", 5*mebibyte, 4),
		within("soon", 3e6, 1e6, 2*time.Millisecond),
		unjudged("more", []time.Duration{3e6}, []time.Duration{2e6}),
		{what: "absent", note: "not installed"},
	}
	assert.EqualError(t, table(&out, lines, false), "2 rows missed their limits")
	_, body, _ := strings.Cut(out.String(), "\n\n")
	assert.Equal(t, `what    qq       against  measured  limit  verdict
fast    3.00 ms  2.00 ms  1.50 x    1.5 x  ok
large   5.0 MiB           5.00 MiB  4 MiB  MISSED
soon    3.00 ms  1.00 ms  3.00 ms   2 ms   MISSED
more    3.00 ms  2.00 ms                   +1.00 ms, no limit
absent                                     not installed
`, body)
	assert.NoError(t, table(io.Discard, lines, true), "the figures of a quick run mean little")
	heavy := []line{more("heap", 12<<10, 1<<10, 1<<10, 10, "KiB")}
	assert.Error(t, table(io.Discard, heavy, true), "and so is the heap of a start")
	assert.NoError(t, table(io.Discard, []line{more("size", 22_600_000, 22_130_850, 1e6, 0.5, "MB")}, false))
	assert.Error(t, table(io.Discard, []line{more("size", 22_640_000, 22_130_850, 1e6, 0.5, "MB")}, false))
	many := []line{{what: "tokens", value: 801, limit: 800, unit: "tokens"}}
	assert.Error(t, table(io.Discard, many, true), "but tokens are counted")
}

func TestCalls(t *testing.T) {
	const questions = `{"type":"validation_required","tool":"x"}{"type":"validation_resolved"}`
	start := func(tool string) string {
		return `{"type":"tool_start","tool":"` + tool + `","ts":"2026-01-01T00:00:00.001Z","execution_id":"a"}`
	}
	end := func(tool, more string) string {
		return `{"type":"tool_end","tool":"` + tool + `","depth":2,"ts":"2026-01-01T00:00:00.0015Z"` + more + `}`
	}
	const mine = `,"execution_id":"a"`
	stream := start("x") + questions + start("y") + end("y", "") + end("x", mine) + "\n" + start("x") + end("x", mine)
	took, asked, err := calls([]byte(stream), "x", 2)
	require.NoError(t, err)
	assert.Equal(t, []time.Duration{5e5, 5e5}, took)
	assert.Equal(t, 1, asked)
	for name, stream := range map[string]string{
		"failed":      start("x") + end("x", mine+`,"failed":true`),
		"elsewhere":   start("x") + end("x", `,"execution_id":"b"`),
		"half a line": start("x") + end("x", mine)[:20],
	} {
		_, _, err := calls([]byte(stream), "x", 2)
		assert.Error(t, err, name)
	}
	_, _, err = calls([]byte(start("x")+end("x", mine)), "x", 1)
	assert.ErrorContains(t, err, "at depth 2")
}

func TestMetric(t *testing.T) {
	out := []byte("pkg: µs/apply\nBenchmarkB/x-2 9 5 ns/op 7.0 µs/apply\n" +
		"BenchmarkA/x/procs=1-2  \t 60\t 4635170 ns/op\t 337.1 µs/apply\t 341.9 µs/process\nPASS\n")
	d, ok := metric(out, "BenchmarkA/x/", "µs/apply")
	assert.True(t, ok)
	assert.Equal(t, 337100*time.Nanosecond, d)
	d, ok = metric(out, "BenchmarkA/x/", "µs/process")
	assert.True(t, ok)
	assert.Equal(t, 341900*time.Nanosecond, d)
	_, ok = metric(out, "BenchmarkA/y/", "µs/apply")
	assert.False(t, ok)
}

// TestLarge: the places that the row about edits changes are there once.
func TestLarge(t *testing.T) {
	text := string(large())
	assert.InDelta(t, 5_000_000, len(text), 100)
	for _, place := range []string{"line 40000 of a file", "line 40590 of a file"} {
		assert.Equal(t, 1, strings.Count(text, place), place)
	}
}

// TestHeapIn: all packages count, and no trace is an error.
func TestHeapIn(t *testing.T) {
	n, err := heapIn([]byte("init internal/a @0.1 ms, 0.2 ms clock, 100 bytes, 2 allocs\nqq 1\n" +
		"init qq/b @1.5 ms, 0 ms clock, 28 bytes, 1 allocs\n"))
	require.NoError(t, err)
	assert.Equal(t, int64(128), n)
	_, err = heapIn([]byte("qq 1\n"))
	assert.Error(t, err)
}

// TestFaults: the pages that a process touches are counted, and the fewest of some runs are taken.
func TestFaults(t *testing.T) {
	c := command{program: "/bin/sh", args: []string{"-c", ":"}, dir: t.TempDir()}
	u, err := c.run(t.Context())
	require.NoError(t, err)
	assert.Positive(t, u.faults)
	assert.Equal(t, int64(7), fewest([]used{{faults: 9}, {faults: 7}, {faults: 8}}))
}
