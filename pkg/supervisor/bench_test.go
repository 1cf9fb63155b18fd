package supervisor

import (
	"context"
	"testing"

	"qq/pkg/task"
)

// nobody takes results.
type nobody struct{}

func (nobody) Deliver(task.Result) error { return nil }
func (nobody) Done(task.Result)          {}

// BenchmarkStream is what a task of a batch without a plan costs, without its process.
func BenchmarkStream(b *testing.B) {
	h := newHarness(func(cfg *Config) {
		cfg.Limits.MaxParallel, cfg.Events, cfg.Log = 16, nil, nil
		cfg.Paths = spelled{}
		cfg.Launcher = launchFunc(func(_ context.Context, job task.Job, _ Parent) task.Result {
			return job.Ended(task.Completed, "")
		})
	})
	tasks := func(yield func(task.Task, error) bool) {
		for b.Loop() {
			if !yield(task.Task{Text: "x"}, nil) {
				return
			}
		}
	}
	b.ReportAllocs()
	if err := h.Batch(b.Context(), Batch{Results: nobody{}, Tasks: tasks}); err != nil {
		b.Fatal(err)
	}
}
