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

// BenchmarkTask is what one task of a batch costs: a claim and a result, from a
// pool of that many.
func BenchmarkTask(b *testing.B) {
	for _, pool := range []int{1, 5, 32} {
		b.Run(fmt.Sprintf("pool=%d", pool), func(b *testing.B) {
			l := open(b, b.TempDir())
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
						if err := l.Claim(Execution{ID: id, Root: "root", Batch: "batch", Agent: "default", Task: t.Text, Key: Key(t)}); err != nil {
							b.Error(err)
						}
						if err := l.Finish(id, done(id, output)); err != nil {
							b.Error(err)
						}
					}
				})
			}
			hands.Wait()
			b.StopTimer()
			b.ReportMetric(float64((spent()-cpu).Microseconds())/float64(b.N), "cpu-µs/task")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}

func BenchmarkKnown(b *testing.B) {
	l := open(b, b.TempDir())
	const n = 20_000
	keys := make([]string, n)
	rows := make([][]any, n)
	for i := range n {
		keys[i] = Key(task.Task{Text: fmt.Sprint(i)})
		row, err := resultRow(fmt.Sprint(i), "", done("", strings.Repeat("x", 1000)), time.Now())
		require.NoError(b, err)
		rows[i] = row
	}
	require.NoError(b, l.write.do(false, func(w *writer) error {
		for i := range n {
			if _, err := w.claim.Exec(Execution{ID: fmt.Sprint(i), Batch: "b", Key: keys[i]}.row(time.Now())...); err != nil {
				return err
			}
			if err := w.finishRow(rows[i]); err != nil {
				return err
			}
		}
		return nil
	}))
	for b.Loop() {
		for _, key := range keys {
			if past, err := l.Known("b", key, 0); err != nil || !past.Ended {
				b.Fatal(past, err)
			}
		}
	}
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
		require.NoError(b, r.Self(Execution{ID: "e"}))
		require.NoError(b, r.SelfEnded("e", done("", "x")))
		require.NoError(b, r.Close())
	}
}
