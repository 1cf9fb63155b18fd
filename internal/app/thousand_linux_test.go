package app

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
	"qq/pkg/task"
)

// planSeeds is how many seeds TestThousandTasks tries; it tries one without it.
const planSeeds = "PLAN_SEEDS"

// touching is a task of TestThousandTasks. What it touches lies in its targets.
type touching struct {
	task.Task
	index   int
	touches []string // files
	writes  bool
	fails   bool
	needs   []int
}

// somewhere is a random target, and a file that is in it, in one of that many folders.
func somewhere(r *rand.Rand, folders int) (target, file string) {
	folder, name := r.IntN(folders), fmt.Sprint("f", r.IntN(4))
	file = fmt.Sprintf("d%d/%s", folder, name)
	switch r.IntN(6) {
	case 0:
		target = fmt.Sprintf("d%d/", folder) // all in it
	case 1:
		target = fmt.Sprintf("d%d/*", folder)
	case 2:
		target = fmt.Sprintf("./d%d//%s", folder, name)
	case 3:
		target = fmt.Sprintf("link%d/%s", folder, name) // a link to the folder
	default:
		target = file
	}
	return target, file
}

// touchingTasks are n random tasks.
func touchingTasks(seed, n int) []touching {
	r := rand.New(rand.NewPCG(uint64(seed), 1013))
	var all []touching
	for i := range n {
		one := touching{index: i, writes: r.IntN(2) == 0}
		one.fails = one.writes && r.IntN(20) == 0
		one.ID, one.Text, one.Agent = fmt.Sprint("t", i), fmt.Sprintf("touch %d", i), "reading"
		if one.writes {
			one.Agent = "writing"
		}
		for range 1 + r.IntN(3) {
			target, file := somewhere(r, 30)
			one.Targets, one.touches = append(one.Targets, target), append(one.touches, file)
		}
		if i > 0 && r.IntN(5) == 0 {
			on := max(0, i-1-r.IntN(100))
			one.Needs, one.needs = []string{fmt.Sprint("t", on)}, []int{on}
		}
		all = append(all, one)
	}
	return all
}

// calls are those that touch the files.
func (one touching) calls() string {
	var calls strings.Builder
	for _, f := range one.touches {
		if one.writes {
			calls.WriteString(called("write_file", map[string]any{"path": f, "content": one.Text}))
		} else {
			calls.WriteString(called("read_file", map[string]any{"path": f}))
		}
	}
	return calls.String()
}

// touched makes the files that are touched, and the agents that do it.
func (w *world) touched() {
	w.definition("writing", "---\ndescription: writes\ntools: [write_file, run_pty_cmd]\n---\nWrite.\n")
	w.definition("reading", "---\ndescription: reads\ntools: [read_file]\n---\nRead.\n")
	for i := range 30 {
		for j := range 4 {
			w.file(fmt.Sprintf("d%d/f%d", i, j), "old\n")
		}
		require.NoError(w.t, os.Symlink(fmt.Sprint("d", i), filepath.Join(w.dir, fmt.Sprint("link", i))))
	}
}

// marks are files that the model writes when a task begins and ends.
type marks struct {
	t   *testing.T
	dir string
}

func (m marks) write(what string, i int) {
	assert.NoError(m.t, os.WriteFile(filepath.Join(m.dir, fmt.Sprintf("%s-%d", what, i)), nil, 0o600))
}

// seen are the times of n tasks.
func (m marks) seen(n int) []seen {
	at := make([]seen, n)
	for i := range at {
		begin, err := os.Stat(filepath.Join(m.dir, fmt.Sprint("begin-", i)))
		if err != nil {
			continue
		}
		end, err := os.Stat(filepath.Join(m.dir, fmt.Sprint("end-", i)))
		require.NoError(m.t, err, "%d", i)
		at[i] = seen{begin.ModTime(), end.ModTime()}
	}
	return at
}

// seen is what the kernel saw of the tasks: the times at which the files begin-N and end-N were written. Both are of
// one clock.
type seen struct{ begin, end time.Time }

// overlaps are the pairs of tasks that were at work at once though both touch one file and one of them writes it. It
// compares each with each, by the files that they touched: it knows nothing of targets and plans.
func overlaps(all []touching, at []seen) (pairs [][2]int, peak int) {
	for i, one := range all {
		now := 0
		for j, other := range all {
			a, b := at[i], at[j]
			if a.begin.IsZero() || b.begin.IsZero() {
				continue
			}
			if !b.begin.After(a.begin) && a.begin.Before(b.end) {
				now++
			}
			if j > i && (one.writes || other.writes) && a.begin.Before(b.end) && b.begin.Before(a.end) &&
				slices.ContainsFunc(one.touches, func(f string) bool { return slices.Contains(other.touches, f) }) {
				pairs = append(pairs, [2]int{i, j})
			}
		}
		peak = max(peak, now)
	}
	return pairs, peak
}

// touchTasks runs n random tasks, each in a process of its own.
func touchTasks(t *testing.T, seed, n int, args ...string) (all []touching, results []task.Result, at []seen) {
	all = touchingTasks(seed, n)
	m := marks{t, t.TempDir()}
	// A task says that it begins, touches its files, and says that it ends. A moment passes before that.
	w, _ := newServedWorld(t, standin.Reply(func(p standin.Prompt) string {
		first := slices.IndexFunc(p.Messages, func(m standin.Message) bool { return m.Role == "user" })
		text, _, _ := strings.Cut(p.Messages[first].Content, "\n")
		i, err := strconv.Atoi(strings.TrimPrefix(text, "touch "))
		assert.NoError(t, err)
		if p.Last("tool") != "" {
			time.Sleep(time.Duration(i*7919%20) * time.Millisecond)
			m.write("end", i)
			return "done"
		}
		m.write("begin", i)
		return all[i].calls()
	}))
	w.touched()
	var tasks []task.Task
	for _, one := range all {
		if one.fails {
			one.Check = "false"
		}
		tasks = append(tasks, one.Task)
	}
	w.tasks(tasks...)
	e := w.run(append([]string{"batch", "--no-bar", "--auto-approve", "-j", "12", "--json", "tasks.jsonl"}, args...)...)
	results = e.results(t)
	return all, results, m.seen(n)
}

// TestThousandTasks: of 1,000 tasks with random targets and needs, each in a process, no two that touch one file are at
// work at once if one of them writes it, as the kernel saw it; each starts after what it needs, and each has one
// result.
func TestThousandTasks(t *testing.T) {
	seeds, err := strconv.Atoi(os.Getenv(planSeeds))
	if err != nil {
		seeds = 1
	}
	n := 1000
	if testing.Short() {
		n = 100
	}
	for seed := range seeds {
		all, results, at := touchTasks(t, seed, n)
		require.Len(t, results, n, "seed %d", seed)
		counts := map[task.Status]int{}
		for i, r := range results {
			counts[r.Status]++
			assert.Equal(t, i, r.Index)
			assert.Equal(t, all[i].ID, r.ID)
			ran, want := !at[i].begin.IsZero(), task.Completed
			for _, on := range all[i].needs {
				if !results[on].Success {
					want = task.Skipped
				} else if ran {
					assert.False(t, at[i].begin.Before(at[on].end), "seed %d: %d began before %d ended", seed, i, on)
				}
			}
			assert.Equal(t, want != task.Skipped, ran, "seed %d: %d: %s", seed, i, r.Err())
			if !all[i].fails || want == task.Skipped {
				assert.Equal(t, want, r.Status, "seed %d: %d: %s", seed, i, r.Err())
			} else {
				assert.False(t, r.Success, "seed %d: %d", seed, i)
			}
		}
		pairs, peak := overlaps(all, at)
		assert.Empty(t, pairs, "seed %d", seed)
		assert.Greater(t, peak, 3, "seed %d: what may be at work at once is", seed)
		t.Logf("seed %d: %v, %d at once", seed, counts, peak)
		if t.Failed() {
			break
		}
	}
}

// TestOverlapsAreSeen: what TestThousandTasks looks for can be found: without a plan, tasks do meet.
func TestOverlapsAreSeen(t *testing.T) {
	all, _, at := touchTasks(t, 1, 150, "--plan", "off")
	pairs, _ := overlaps(all, at)
	assert.NotEmpty(t, pairs)
	t.Log(len(pairs), "pairs")
}

// treeSeeds is how many seeds TestTreesAsTheKernelSeesThem tries; it tries two without it.
const treeSeeds = "TREE_SEEDS"

// growing makes random trees of tasks.
type growing struct {
	*rand.Rand
	all   []touching
	waits map[int][]int // for those that it delegates, and for those in the background
	backs map[int][]int
}

// grow makes a task, and those that it hands on. It returns its number.
func (g *growing) grow(depth int) int {
	i := len(g.all)
	one := touching{index: i, writes: g.IntN(2) == 0}
	one.Text, one.Agent = fmt.Sprint("touch ", i), "reading"
	if one.writes {
		one.Agent = "writing"
	}
	leads := depth < 2 && g.IntN(3) > 0
	for range 1 + g.IntN(2) {
		target, file := somewhere(g.Rand, 6)
		one.Targets, one.touches = append(one.Targets, target), append(one.touches, file)
	}
	switch {
	case leads && one.writes:
		one.Agent, one.Targets = "changer", []string{"."}
	case leads:
		one.Agent, one.Targets = "lead", nil
	}
	g.all = append(g.all, one)
	if leads {
		for range 1 + g.IntN(3) {
			g.waits[i] = append(g.waits[i], g.grow(depth+1))
		}
		for range 1 + g.IntN(2) {
			g.backs[i] = append(g.backs[i], g.grow(depth+1))
		}
	}
	return i
}

// answer is what the model says to the task i in that turn.
func (g *growing) answer(m marks, i, turn int) string {
	one := g.all[i]
	switch turn {
	case 0:
		m.write("begin", i)
		return one.calls()
	case 1:
		time.Sleep(time.Duration(i*7919%40) * time.Millisecond)
		m.write("end", i)
		if len(g.waits[i]) == 0 {
			return "done"
		}
		var calls strings.Builder
		var waits []task.Task
		for _, child := range g.backs[i] {
			c := g.all[child]
			calls.WriteString(called("spawn_agent", map[string]any{"instructions": c.Text, "agent": c.Agent,
				"targets": c.Targets, "background": true}))
		}
		for _, child := range g.waits[i] {
			waits = append(waits, g.all[child].Task)
		}
		return calls.String() + called("run_parallel_tasks", map[string]any{"tasks": waits})
	case 2:
		if len(g.backs[i]) > 0 {
			return called("wait_children", map[string]any{})
		}
	}
	return "done"
}

// touchTrees runs random trees.
func touchTrees(t *testing.T, seed int, args ...string) (all []touching, at []seen) {
	g := &growing{rand.New(rand.NewPCG(uint64(seed), 1014)), nil, map[int][]int{}, map[int][]int{}}
	m := marks{t, t.TempDir()}
	w, _ := newServedWorld(t, standin.Reply(func(p standin.Prompt) string {
		first := slices.IndexFunc(p.Messages, func(m standin.Message) bool { return m.Role == "user" })
		text, _, _ := strings.Cut(p.Messages[first].Content, "\n")
		i, err := strconv.Atoi(strings.TrimPrefix(text, "touch "))
		assert.NoError(t, err)
		turn := 0
		for _, m := range p.Messages {
			if m.Role == "assistant" {
				turn++
			}
		}
		return g.answer(m, i, turn)
	}))
	w.touched()
	w.set("QQ_MAX_DEPTH=5")
	const hands = "delegate_task, run_parallel_tasks, spawn_agent, wait_children]\n---\nLead.\n"
	w.definition("lead", "---\ndescription: leads\ntools: [read_file, "+hands)
	w.definition("changer", "---\ndescription: leads\ntools: [write_file, "+hands)
	var tasks []task.Task
	for range 8 {
		tasks = append(tasks, g.all[g.grow(0)].Task)
	}
	w.tasks(tasks...)
	e := w.run(append([]string{"batch", "--no-bar", "--auto-approve", "-j", "12", "--json", "tasks.jsonl"}, args...)...)
	for _, r := range e.results(t) {
		assert.True(t, r.Success, "seed %d: %s", seed, r.Err())
	}
	return g.all, m.seen(len(g.all))
}

// TestTreesAsTheKernelSeesThem: of jobs of random trees, with two levels below the tasks of a batch and with children
// in the background, no two that touched one file were at work at once if one of them wrote it. Each of them has run.
func TestTreesAsTheKernelSeesThem(t *testing.T) {
	seeds, err := strconv.Atoi(os.Getenv(treeSeeds))
	if err != nil {
		seeds = 2
	}
	for seed := range seeds {
		all, at := touchTrees(t, seed)
		for i := range all {
			assert.False(t, at[i].begin.IsZero(), "seed %d: %d has not run", seed, i)
		}
		pairs, peak := overlaps(all, at)
		assert.Empty(t, pairs, "seed %d", seed)
		assert.Greater(t, peak, 1, "seed %d", seed)
		t.Logf("seed %d: %d jobs, %d at once", seed, len(all), peak)
		if t.Failed() {
			break
		}
	}
	all, at := touchTrees(t, 0, "--plan", "off") // so it is seen if they meet
	pairs, _ := overlaps(all, at)
	assert.NotEmpty(t, pairs)
	t.Log(len(pairs), "pairs without a plan")
}
