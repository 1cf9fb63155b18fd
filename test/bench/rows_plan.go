package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"qq/pkg/supervisor/lease"
	"qq/pkg/supervisor/plan"
	"qq/pkg/supervisor/targets"
	"qq/pkg/task"
)

// planned returns n tasks that write 5 targets each, in a tree of 1,000 folders. One target in ten is a glob. Of
// neighbours one pair in a hundred conflicts.
func planned(n int) []plan.Task {
	path := func(i, k int) string { return fmt.Sprintf("src/%d/%d/%d/f%d_%d", i%10, i/10%10, i/100%10, i, k) }
	tasks := make([]plan.Task, n)
	for i := range tasks {
		for k := range 5 {
			text := path(i, k) + ".go"
			switch {
			case k == 0 && i%100 == 99: // the file of the task before it
				text = path(i-1, k) + ".go"
			case (i*5+k)%10 == 1:
				text = path(i, k) + "*.go"
			}
			tasks[i].Targets = append(tasks[i].Targets, targets.Parse(text, false))
		}
	}
	return tasks
}

// planning returns how long it takes to plan n tasks, and how many bytes the plan and its
// tasks keep.
func planning(n int) (took time.Duration, kept uint64, err error) {
	tasks := planned(n)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	p, err := plan.New(tasks, plan.Options{})
	if err != nil {
		return 0, 0, err
	}
	took = time.Since(began)
	agenda, err := p.Agenda(func(yield func(task.Task, error) bool) {
		for i := range n {
			if !yield(task.Task{Text: fmt.Sprintf("Change the files of task %d", i), Targets: []string{"src"}}, nil) {
				return
			}
		}
	})
	if err != nil {
		return 0, 0, err
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if !agenda.Left() {
		return 0, 0, fmt.Errorf("none of %d tasks is planned", n)
	}
	waits := 0
	for i := range n {
		waits += len(p.Waits(i))
	}
	if waits != n/100 {
		return 0, 0, fmt.Errorf("%d of %d tasks wait", waits, n)
	}
	return took, after.HeapAlloc - before.HeapAlloc, nil
}

// measurePlan measures the plan of a batch, in this process.
func measurePlan(context.Context, *bench) ([]line, error) {
	sizes := []int{1_000, 10_000, 100_000}
	var took []time.Duration
	var kept uint64
	for _, n := range sizes {
		var times []time.Duration
		for range 5 {
			t, k, err := planning(n)
			if err != nil {
				return nil, err
			}
			times, kept = append(times, t), max(kept, k/uint64(n))
		}
		took = append(took, slices.Min(times)) // others only wait for the machine
	}
	lines := []line{
		within("plan of 10,000 tasks with 5 targets each", took[1], 0, 500*time.Millisecond),
		{
			what: "plan: memory that is kept, for each task", qq: fmt.Sprintf("%d bytes", kept),
			value: float64(kept), limit: 1024, unit: "bytes",
		},
	}
	for k := range sizes[1:] {
		n, m := float64(sizes[k]), float64(sizes[k+1])
		lines = append(lines, line{
			what: fmt.Sprintf("plan: %d tasks, against %d", sizes[k+1], sizes[k]),
			qq:   milliseconds(took[k+1]), yard: milliseconds(took[k]),
			value: float64(took[k+1]) / float64(took[k]), unit: "x",
			// n log n, and twice that: the caches of a processor hold 1,000 tasks, and not 100,000
			limit: 2 * m * math.Log(m) / (n * math.Log(n)),
		})
	}
	lasted := leasing()
	return append(lines, line{
		what: "lease, at 1,000 live jobs", qq: fmt.Sprintf("%.1f µs", lasted), value: lasted, limit: 20, unit: "µs",
	}), nil
}

// leasing returns how many microseconds it takes to end a job and to grant or queue the lease of another one, while
// 1,000 jobs are live: ten on each of 100 files, one in ten of which writes anything.
func leasing() float64 {
	const live, n = 1000, 20_000
	var table lease.Table
	ask := func(i int) *lease.Lease {
		if i%10 == 0 {
			return table.Ask(lease.Request{})
		}
		return table.Ask(lease.Request{Targets: []targets.Target{targets.Parse(fmt.Sprintf("src/f%d.go", i%100), false)}})
	}
	var all []*lease.Lease
	for i := range live {
		all = append(all, ask(i))
	}
	began := time.Now()
	for i := range n {
		table.End(all[i%live])
		all[i%live] = ask(i)
	}
	return float64(time.Since(began).Nanoseconds()) / 1000 / n
}
