package ledger

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"qq/pkg/task"
)

// spent is the processor time of this process.
func spent() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// keyOf is as long as the key of a task.
func keyOf(i int64) string { return fmt.Sprintf("%064x", uint64(i)*0x9e3779b97f4a7c15) }

// BenchmarkTask is what one task of a batch costs: a claim and a result, from a
// pool of that many.
func BenchmarkTask(b *testing.B) {
	for _, pool := range []int{1, 5, 32} {
		b.Run(fmt.Sprintf("pool=%d", pool), func(b *testing.B) {
			l := NewRecorder(b.TempDir(), Root{ID: "root"}, Options{})
			output := strings.Repeat("one line of an answer\n", 50)
			var next atomic.Int64
			var hands sync.WaitGroup
			cpu := spent()
			b.ResetTimer()
			for range pool {
				hands.Go(func() {
					for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
						id := fmt.Sprintf("0199-%012d", i)
						t := task.Task{Text: "do " + id}
						if err := l.Claim(Execution{ID: id, Root: "root", Batch: "batch", Agent: "default",
							Task: t.Text, Key: keyOf(i)}); err != nil {
							b.Error(err)
						}
						if err := l.Finish("", id, done(id, output)); err != nil {
							b.Error(err)
						}
					}
				})
			}
			hands.Wait()
			b.StopTimer()
			require.NoError(b, l.Close())
			b.ReportMetric(float64((spent()-cpu).Microseconds())/float64(b.N), "cpu-µs/task")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}

const many = 20_000

// batchOf writes the journal of a batch of many tasks, and returns their keys.
func batchOf(b *testing.B, home string) (keys []string) {
	r := NewRecorder(home, Root{ID: "root"}, Options{})
	output := strings.Repeat("one line of an answer\n", 50)
	for i := range many {
		id := fmt.Sprintf("0199-%012d", i)
		keys = append(keys, keyOf(int64(i)))
		require.NoError(b, r.Claim(Execution{ID: id, Root: "root", Batch: "b", Agent: "default", Task: "do " + id,
			Key: keys[i], Index: i}))
		f, err := newFinished("", id, done(id, output))
		require.NoError(b, err)
		err = r.append(line{Result: f}, false)
		require.NoError(b, err)
	}
	require.NoError(b, r.Close())
	return keys
}

// BenchmarkResume reads the journal of a finished batch, and asks about each task.
func BenchmarkResume(b *testing.B) {
	var in, ask time.Duration
	for b.Loop() {
		b.StopTimer()
		home := b.TempDir()
		keys := batchOf(b, home)
		b.StartTimer()
		start := time.Now()
		l, err := Open(home, Options{})
		require.NoError(b, err)
		in += time.Since(start)
		start = time.Now()
		for _, key := range keys {
			if past, err := l.Known("b", key, 0); err != nil || !past.Ended {
				b.Fatal(past, err)
			}
		}
		ask += time.Since(start)
		require.NoError(b, l.Close())
	}
	b.ReportMetric(float64(in.Milliseconds())/float64(b.N), "ms-read")
	b.ReportMetric(float64(ask.Milliseconds())/float64(b.N), "ms-ask")
}

func BenchmarkOpen(b *testing.B) {
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			l, err := Open(b.TempDir(), Options{})
			require.NoError(b, err)
			b.StopTimer()
			require.NoError(b, l.Close())
			b.StartTimer()
		}
	})
	b.Run("again", func(b *testing.B) {
		home := b.TempDir()
		open(b, home)
		for b.Loop() {
			l, err := Open(home, Options{})
			require.NoError(b, err)
			b.StopTimer()
			require.NoError(b, l.Close())
			b.StartTimer()
		}
	})
}

func BenchmarkPrompt(b *testing.B) {
	home := b.TempDir()
	i := 0
	for b.Loop() {
		i++
		r := NewRecorder(home, Root{ID: fmt.Sprint(i)}, Options{})
		require.NoError(b, r.Claim(Execution{ID: "e"}))
		require.NoError(b, r.Finish("", "e", done("", "x")))
		require.NoError(b, r.Close())
	}
}
