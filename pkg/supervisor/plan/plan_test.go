package plan

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/supervisor/targets"
	"qq/pkg/task"
)

// writer returns a task that writes paths. It needs the tasks after a colon: "a:b,c".
func writer(id string, paths ...string) Task {
	id, needs, ok := strings.Cut(id, ":")
	t := Task{ID: id}
	if ok {
		t.Needs = strings.Split(needs, ",")
	}
	for _, path := range paths {
		t.Targets = append(t.Targets, targets.Parse(path, false))
	}
	return t
}

func reader(id string, paths ...string) Task {
	t := writer(id, paths...)
	t.Effect, t.Role = targets.Reads, Gathers
	return t
}

func planned(t *testing.T, tasks ...Task) *Plan {
	p, err := New(tasks, Options{})
	require.NoError(t, err)
	return p
}

func TestErrors(t *testing.T) {
	for want, tasks := range map[string][]Task{
		"tasks wait for each other: needs: a -> b -> a": {
			writer("x"), writer("a:b"), writer("b:x,a"), writer("c:a"),
		},
		"tasks wait for each other: needs: a -> a":           {writer("a:a")},
		"tasks wait for each other: needs: a -> c -> b -> a": {writer("a:c"), writer("b:a"), writer("c:b")},
		"did you mean build? ":                               {writer("build"), writer("test:biuld")},
		`test needs "biuld", and no task has that id`:        {writer("build"), writer("test:biuld")},
		`task 2 needs "a", and no task has that id`:          {writer("b"), writer(":a")},
		`id "a" is given twice: tasks 1 and 3`:               {writer("a"), writer(""), writer("a"), writer("")},
	} {
		_, err := New(tasks, Options{})
		assert.ErrorContains(t, err, want)
	}
	many := make([]Task, 100)
	for i := range many {
		many[i] = writer(fmt.Sprintf("t%d:t%d", i, (i+1)%len(many)))
	}
	_, err := New(many, Options{})
	assert.ErrorContains(t, err, "needs: t0 -> t1 -> t2 -> t3 -> t4 -> t5 -> t6 -> t7 -> t8 -> t9 -> … -> t0\n")
}

// Many writers of one file are a chain, and many readers of it wait for nothing but the writer before them.
func TestChain(t *testing.T) {
	const n = 10_000
	tasks := make([]Task, n)
	for i := range tasks {
		tasks[i] = writer("", "src/a.go", "src/b.go")
		if i%100 > 50 {
			tasks[i] = reader("", "src")
		}
	}
	p := planned(t, tasks...)
	edges := 0
	for i := range tasks {
		edges += len(p.conflicts[i])
	}
	assert.Less(t, edges, 2*n)
	assert.Equal(t, []Wait{{On: 6, Reason: BothWrite, Paths: []string{"/src/a.go", "/src/b.go"}}}, p.Waits(7))
	assert.Equal(t, []Wait{{On: 50, Reason: ReadsAfter, Paths: []string{"/src/a.go", "/src/b.go"}}}, p.Waits(77))
	assert.Len(t, p.Waits(100), 49, "all readers, but not the writer before them")

	every := make([]Task, n) // writers of anything, some of which say where
	for i := range every {
		if every[i] = writer(""); i%2 == 0 {
			every[i] = writer("", fmt.Sprint("src/", i))
		}
	}
	p = planned(t, every...)
	for i := range every {
		require.LessOrEqual(t, len(p.conflicts[i]), 1)
	}
}

// globs returns 20 writers of 200 globs each, and one that writes another folder.
func globs(format string) []Task {
	tasks := []Task{writer("far", "far/x")}
	for i := range 20 {
		t := writer("")
		for k := range 200 {
			t.Targets = append(t.Targets, targets.Parse("/src/"+fmt.Sprintf(format, i*200+k), false))
		}
		tasks = append(tasks, t)
	}
	return tasks
}

// Thousands of globs that begin alike are planned in a bounded number of steps. Those that cannot all be compared count
// as touching the same paths, and the reason says so.
func TestManyGlobs(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and of one goroutine")
	}
	p := planned(t, globs("**/*x%dy *")...)
	assert.Equal(t, []int32{19}, p.conflicts[20], "each waits for the one before it")
	assert.Equal(t, BothWrite, p.Describe(Circumstances{}).Tasks[20].WaitsFor[0].Reason)

	p = planned(t, globs("**/a%d?b/*")...) // no two of them match one path
	assert.Empty(t, p.conflicts[2], "there is time for the first ones")
	d := p.Describe(Circumstances{})
	assert.Equal(t, []Blame{{ID: "20", Reason: Undecided, Paths: []string{}}}, d.Tasks[20].WaitsFor)
	assert.Equal(t, 1, d.Tasks[0].Stage)
	for i := 1; i < len(p.conflicts); i++ {
		assert.NotContains(t, p.conflicts[i], int32(0), "another folder")
	}
}

// A plan ends when its context does.
func TestEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("a signal")
	cancel(why)
	_, err := New([]Task{writer("a")}, Options{Context: ctx})
	assert.ErrorIs(t, err, why)
}

// Readers that may read anything, among writers of one file each, are a chain as well.
func TestReadersOfAnything(t *testing.T) {
	const n = 10_000
	tasks := make([]Task, n)
	for i := range tasks {
		if tasks[i] = reader(""); i%2 == 0 {
			tasks[i] = writer("", fmt.Sprint("src/", i))
		}
	}
	p := planned(t, tasks...)
	for i := range tasks {
		require.LessOrEqual(t, len(p.conflicts[i]), 1)
	}
}

func TestWaits(t *testing.T) {
	p := planned(t, writer("w", "src/a.go"), reader("r", "src"), writer("any"), writer("glob", "src/a*", "lib"),
		writer("two:r", "src/*.go"), reader("free:w", "docs/x"))
	all := func(i int) string { return fmt.Sprint(p.Waits(i)) }
	assert.Equal(t, "[]", all(0))
	assert.Equal(t, "[{0 reads-after [/src/a.go]}]", all(1))
	assert.Equal(t, "[{1 writes-after [/src]}]", all(2))
	assert.Equal(t, "[{2 both-write [/src/a* /lib]}]", all(3))
	assert.Equal(t, "[{1 needs []} {3 both-write [/src/*.go /src/a*]}]", all(4))
	assert.Equal(t, "[{0 needs []} {2 reads-after [/docs/x]}]", all(5))
}

func TestPhases(t *testing.T) {
	review := reader("review:change", "c") // it gathers information, but only after a change
	tasks := []Task{writer("change", "a"), reader("look", "b"), review, reader("read", "a")}
	p, err := New(tasks, Options{Phases: true})
	require.NoError(t, err)
	assert.Equal(t, []int{1, 3, 0, 2}, p.Order())
	assert.Equal(t, "[{3 writes-after [/a]} {-1 phase []}]", fmt.Sprint(p.Waits(0)))
	q := p.Queue()
	assert.Equal(t, []int{1, 3}, drain(q))
	q.End(3, true)
	assert.Empty(t, drain(q), "the other one still looks")
	q.End(1, false)
	assert.Equal(t, []int{0}, drain(q), "that it failed does not matter")
}

// drain takes all tasks that may start.
func drain(q *Queue) (all []int) {
	for i, ok := q.Next(); ok; i, ok = q.Next() {
		all = append(all, i)
	}
	return all
}

func TestSkip(t *testing.T) {
	q := planned(t, writer("a", "a"), writer("b:a", "b"), writer("c:b", "c"), writer("d", "d"),
		writer(":c", "e")).Queue()
	assert.Equal(t, []int{0, 3}, drain(q))
	skips := q.End(0, false)
	assert.Equal(t, []Skip{{1, []string{"a"}}, {2, []string{"a", "b"}}, {4, []string{"a", "b", "c"}}}, skips)
	assert.Nil(t, q.End(1, false))
	assert.Equal(t, 1, q.Left())

	const n = 10_000 // each needs the one before it
	tasks := []Task{writer("t0")}
	for i := 1; i < n; i++ {
		tasks = append(tasks, writer(fmt.Sprintf("t%d:t%d", i, i-1)))
	}
	skips = planned(t, tasks...).Queue().End(0, false)
	require.Len(t, skips, n-1)
	assert.Equal(t, "[t0 … t9989 t9990 t9991 t9992 t9993 t9994 t9995 t9996 t9997 t9998]", fmt.Sprint(skips[n-2].Chain))
	assert.Equal(t, "[t0 t1 t2 t3 t4 t5 t6 t7 t8 t9 t10]", fmt.Sprint(skips[10].Chain))
}

func TestPriority(t *testing.T) {
	urgent, late := reader("urgent"), reader("late")
	urgent.Priority, late.Priority = 2, -1
	q := planned(t, reader("a"), late, reader("b"), urgent).Queue()
	assert.Equal(t, []int{3, 0, 2, 1}, drain(q))
	q.Return(2)
	q.Return(0)
	assert.Equal(t, []int{0, 2}, drain(q))
}

// A low priority gets its turn while tasks of a higher one never end, and a higher one still comes first by far.
func TestAgeing(t *testing.T) {
	tasks := make([]Task, 1000)
	for i := range tasks {
		if tasks[i] = reader(""); i >= 100 {
			tasks[i].Priority = 3
		}
	}
	order := drain(planned(t, tasks...).Queue())
	low := 0
	for k, i := range order[:400] {
		if i < 100 {
			low++
			assert.Greater(t, k, 20)
		}
	}
	assert.InDelta(t, 400/30, low, 3)
}

// One task that fails in the middle of many, one after another, does not make the rest slow.
func TestManyCancelled(t *testing.T) {
	const n = 10_000
	tasks := make([]Task, n)
	for i := range tasks {
		tasks[i] = writer("", "a", fmt.Sprint("b/", i))
	}
	q := planned(t, tasks...).Queue()
	assert.Equal(t, []int{0}, drain(q))
	for i := 1; i < n-1; i++ { // the first one runs
		q.End(i, false)
	}
	assert.Empty(t, drain(q), "the last one conflicts with the first one")
	q.End(0, true)
	assert.Equal(t, []int{n - 1}, drain(q))
}

// tree returns n tasks with 5 targets each in a tree of 1,000 folders: one in ten is a glob, and of neighbours one
// pair in a hundred conflicts.
func tree(n int) []Task {
	path := func(i, k int) string { return fmt.Sprintf("src/%d/%d/%d/f%d_%d", i%10, i/10%10, i/100%10, i, k) }
	tasks := make([]Task, n)
	for i := range tasks {
		var paths []string
		for k := range 5 {
			switch {
			case k == 0 && i%100 == 99:
				paths = append(paths, path(i-1, k)+".go")
			case (i*5+k)%10 == 1:
				paths = append(paths, path(i, k)+"*.go")
			default:
				paths = append(paths, path(i, k)+".go")
			}
		}
		tasks[i] = writer("", paths...)
	}
	return tasks
}

func TestMemory(t *testing.T) {
	const n = 10_000
	tasks := tree(n)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	p := planned(t, tasks...)
	q := p.Queue()
	runtime.ReadMemStats(&after)
	total := (after.TotalAlloc - before.TotalAlloc) / n
	runtime.GC()
	runtime.ReadMemStats(&after)
	kept := (after.HeapAlloc - before.HeapAlloc) / n
	t.Logf("%d bytes a task kept, %d allocated", kept, total)
	assert.Less(t, kept, uint64(1024))
	runtime.KeepAlive(q)
	conflicts := 0
	for i := range n {
		conflicts += len(p.Waits(i))
	}
	assert.Equal(t, n/100, conflicts)
}

// TestAgendaForgets: the text and context of a task that was taken take no memory any more.
func TestAgendaForgets(t *testing.T) {
	const n, size = 1000, 32 << 10
	tasks := make([]Task, n)
	for i := range tasks {
		tasks[i] = Task{ID: fmt.Sprint("t", i), Targets: []targets.Target{targets.Parse(fmt.Sprint("f", i), false)}}
	}
	used := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	p := planned(t, tasks...)
	before := used()
	a, err := p.Agenda(func(yield func(task.Task, error) bool) {
		for i := range n {
			if !yield(task.Task{ID: tasks[i].ID, Text: strings.Repeat("x", size), Context: "c"}, nil) {
				return
			}
		}
	})
	require.NoError(t, err)
	all := used() - before
	assert.Greater(t, all, int64(n*size))
	assert.Less(t, all, int64(n*(size+1024)), "a task costs less than 1 KB beside its text")
	for range n {
		i, ok := a.Next()
		require.True(t, ok)
		assert.Len(t, a.Task(i).Text, size)
	}
	assert.Less(t, used()-before, int64(n*1024))
	runtime.KeepAlive(a)
}

// TestQueueGrowsLinear: neither many failures nor a batch that is stopped look at all tasks again and again. The
// yardstick is the time in which the tasks were planned, so that a slow machine makes no difference.
func TestQueueGrowsLinear(t *testing.T) {
	const n = 8000
	shared := targets.Parse("shared", false)
	tasks := []Task{{ID: "w", Targets: []targets.Target{shared}}}
	for i := range n {
		id := fmt.Sprint("a", i)
		own := targets.Parse(id, false)
		tasks = append(tasks, Task{ID: id, Targets: []targets.Target{own}},
			Task{ID: "b" + id, Needs: []string{id}, Targets: []targets.Target{shared, targets.Parse("b"+id, false)}})
	}
	began := time.Now()
	p := planned(t, tasks...)
	q, planning := p.Queue(), time.Since(began)
	began = time.Now()
	for {
		i, ok := q.Next()
		if !ok {
			break
		}
		if i > 0 { // the first one runs for long
			q.End(i, false)
		}
	}
	assert.Equal(t, 1, q.Left())
	assert.Less(t, time.Since(began), 5*planning, "all failures")

	began = time.Now()
	a, err := planned(t, make([]Task, 100_000)...).Agenda(func(yield func(task.Task, error) bool) {
		for range 100_000 {
			yield(task.Task{Text: "x"}, nil)
		}
	})
	require.NoError(t, err)
	a.Release()
	planning = time.Since(began)
	began = time.Now()
	for left := a.Left(); left; left = a.Left() {
		i, ok := a.Next()
		require.True(t, ok)
		a.End(i, task.Result{Status: task.Cancelled})
	}
	assert.Less(t, time.Since(began), 2*planning, "after a stop")
}

func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		tasks := tree(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				p, err := New(tasks, Options{})
				if err != nil || len(p.order) != n {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/task")
		})
	}
}
