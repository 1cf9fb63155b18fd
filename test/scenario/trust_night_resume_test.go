package scenario

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNightFirstStart: --resume begins where there is nothing to resume, so that a restart loop can
// always say it. Results that nobody knows of are not overwritten.
func TestNightFirstStart(t *testing.T) {
	for _, flags := range [][]string{
		{"--resume"}, {"--resume-failed"}, {"--resume", "--joblog", "log"}, {"--resume", "-o", "out", "--joblog", "log"},
	} {
		b := newNight(t, 3, "echo")
		e := b.batch(flags...).wait()
		require.Equal(t, 0, e.code, "%q: %s", flags, e.stderr)
		assert.Contains(t, e.stderr, "qq: there is no batch to resume: it begins\n")
		e = b.batch(flags...).wait()
		assert.Equal(t, 0, e.code, "%q: %s", flags, e.stderr)
		assert.NotContains(t, e.stderr, "begins")
		assert.Equal(t, 3, b.s.Count("/api/chat"), "%q: it was resumed", flags)
	}
	b := newNight(t, 3, "echo")
	b.file("out", "the results of another machine\n")
	e := b.batch("--resume", "-o", "out").wait()
	assert.Equal(t, 2, e.code)
	assert.Contains(t, e.stderr, "is in the ledger")
	assert.Equal(t, "the results of another machine\n", endureRead(t, filepath.Join(b.work, "out")))
}

// TestNightStoppedBeforeItsFirstTask: a batch is killed at random moments before its first task, in all
// formats, with a job log and a folder of results. Every later --resume continues like that of any other
// batch: the output is that of an undisturbed run, once.
func TestNightStoppedBeforeItsFirstTask(t *testing.T) {
	const n = 40
	for round := range 16 {
		format := []string{"text", "json", "jsonl", "markdown"}[round%4]
		t.Run(fmt.Sprintf("%d %s", round, format), func(t *testing.T) {
			b := newNight(t, n, "echo5")
			out := filepath.Join(b.dir, "out")
			flags := []string{"-j", "4", "--output-format", format, "-o", out}
			require.Equal(t, 0, b.batch(append(flags, "--no-ledger")...).wait().code)
			undisturbed := endureSteady(t, format, endureRead(t, out))
			require.NoError(t, os.Remove(out))
			b.s.Forget()

			flags = append(flags, "--joblog", "log", "--results", "results")
			for kill := range 3 {
				if kill > 0 {
					flags = append(flags, "--resume")
				}
				q := b.batch(flags...)
				b.killEarly(q, time.Duration(rand.N(30))*time.Millisecond)
			}
			for range 2 {
				e := b.batch(append(flags, "--resume")...).wait()
				require.Equal(t, 0, e.code, e.stderr)
				assert.Equal(t, undisturbed, endureSteady(t, format, endureRead(t, out)))
			}
			log := endureRead(t, filepath.Join(b.work, "log"))
			assert.Equal(t, n+1, strings.Count(log, "\n"), "lines of the job log")
			b.results(filepath.Join(b.work, "results"))
		})
	}
}

// killEarly kills q after some time, or as soon as the server was asked.
func (b *night) killEarly(q *running, after time.Duration) {
	b.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for start := time.Now(); time.Since(start) < after && b.s.Count("/api/chat") == 0; {
		<-tick.C
	}
	_ = q.cmd.Process.Kill() // it may have ended
	q.wait()
	b.assertGone()
}

// results expects the files of all tasks in the folder of --results, and no other.
func (b *night) results(dir string) {
	b.t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(b.t, err)
	var want, got []string
	for i := range b.n {
		name := fmt.Sprintf("Task-%d-say-something", i)
		want = append(want, name+".json", name+".txt")
	}
	slices.Sort(want)
	for _, e := range entries {
		got = append(got, e.Name())
	}
	assert.Equal(b.t, want, got)
}

// TestNightHiddenFiles: what a killed qq has left in the folder of --results goes with --resume, and two qq
// do not write to one folder.
func TestNightHiddenFiles(t *testing.T) {
	b := newNight(t, 30, "echo20")
	results := filepath.Join(b.work, "results")
	q := b.batch("--results", "results", "-j", "1")
	b.asked(10)
	e := b.qq("batch", "--no-bar", "--results", "results", b.tasks)
	assert.Equal(t, 2, e.code)
	assert.Contains(t, e.stderr, "another qq writes its results there")
	require.NoError(t, syscall.Kill(q.cmd.Process.Pid, syscall.SIGKILL))
	q.wait()
	b.assertGone()
	require.NoError(t, os.MkdirAll(filepath.Join(results, ".qq-unfinished"), 0o700))
	half := filepath.Join(results, ".qq-unfinished", ".Task-12-say-something.txt4711")
	require.NoError(t, os.WriteFile(half, []byte("half an ans"), 0o600))
	require.Equal(t, 0, b.batch("--results", "results", "--resume").wait().code)
	b.results(results)
}

// TestNightDamagedLedger: a damaged ledger is called damaged, whatever a batch takes from it, and nothing
// is asked meanwhile. It stays as it is.
func TestNightDamagedLedger(t *testing.T) {
	b := newNight(t, 3, "echo")
	require.Equal(t, 0, b.batch("--joblog", "log").wait().code)
	require.Equal(t, 0, b.qq("runs").code) // takes the journals in
	asked := b.s.Count("/api/chat")
	path := filepath.Join(b.dir, "qq", "ledger.db")
	whole := endureRead(t, path)
	for name, damaged := range map[string]string{
		"other bytes":       strings.Repeat("this is no database\n", 500),
		"its beginning":     whole[:50],
		"half of its pages": whole[:len(whole)/8192*4096],
		"its end missing":   whole[:len(whole)-100],
	} {
		require.NoError(t, os.WriteFile(path, []byte(damaged), 0o600))
		for _, flags := range [][]string{
			nil, {"--resume"}, {"--resume-failed"}, {"--resume=123456"}, {"--resume", "--joblog", "log"}, {"--cache"},
		} {
			e := b.batch(flags...).wait()
			assert.Equal(t, 1, e.code, "%s %q", name, flags)
			assert.Contains(t, e.stderr, "ledger.db is damaged: ", "%s %q", name, flags)
			assert.Contains(t, e.stderr, "hint: move it away", "%s %q", name, flags)
		}
		assert.Equal(t, damaged, endureRead(t, path), name)
	}
	assert.Equal(t, asked, b.s.Count("/api/chat"))
}
