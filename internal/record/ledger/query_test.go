package ledger

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/task"
)

// sample is a ledger with two batches and a run with children. Its root is alive.
func sample(t *testing.T) *book {
	t.Helper()
	l := open(t, t.TempDir())
	at := time.Unix(1_700_000_000, 0)
	l.now = func() time.Time { at = at.Add(time.Minute); return at }
	require.NoError(t, l.Enter(Root{ID: "alive", Dir: "/d", Command: "batch"}))
	require.NoError(t, l.Begin(Batch{ID: "0199-b1", Root: "dead", Dir: "/d", Joblog: "/j", Count: 3, Started: at}))
	claim(t, l, Execution{ID: "0199-r1", Root: "dead", Batch: "0199-b1", Key: "k1", Agent: "coder", Depth: 1,
		Dir: "/d"})
	require.NoError(t, l.Finish("0199-r1", done("", "one")))
	claim(t, l, Execution{ID: "0199-r2", Root: "dead", Batch: "0199-b1", Key: "k2", Index: 1, Agent: "coder", Depth: 1,
		Dir: "/d"})
	require.NoError(t, l.Finish("0199-r2", task.Task{}.Ended(task.Failed, "no luck")))
	claim(t, l, Execution{ID: "0199-r3", Root: "dead", Batch: "0199-b1", Key: "k3", Index: 2, Agent: "default",
		Depth: 1, Dir: "/d"})
	require.NoError(t, l.Begin(Batch{ID: "0199-b2", Root: "alive", Dir: "/d", Joblog: "/j", Count: 1, Started: at}))
	claim(t, l, Execution{ID: "0199-p", Root: "alive", Agent: "default", Dir: "/other"})
	claim(t, l, Execution{ID: "0199-c1", Parent: "0199-p", Root: "alive", Batch: "delegated", Depth: 1})
	claim(t, l, Execution{ID: "0199-c2", Parent: "0199-p", Root: "alive", Batch: "delegated", Depth: 1})
	claim(t, l, Execution{ID: "0199-g1", Parent: "0199-c1", Root: "alive", Depth: 2})
	return l
}

func TestList(t *testing.T) {
	l := sample(t)
	first, _, _, err := l.Show("0199-r1")
	require.NoError(t, err)
	for _, c := range []struct {
		name string
		f    Filter
		want string
	}{
		{"all", Filter{}, "g1 c2 c1 p r3 r2 r1"},
		{"limit", Filter{Limit: 2}, "g1 c2"},
		{"roots", Filter{Roots: true}, "p"},
		{"live", Filter{Live: true}, "g1 c2 c1 p"},
		{"agent", Filter{Agent: "coder"}, "r2 r1"},
		{"batch", Filter{Batch: "0199-b1"}, "r3 r2 r1"},
		{"dir", Filter{Dir: "/other"}, "p"},
		{"status", Filter{Status: []task.Status{task.Failed}}, "r2"},
		{"interrupted", Filter{Status: []task.Status{task.Interrupted, task.Completed}}, "r3 r1"},
		{"running", Filter{Status: []task.Status{task.Running}, Roots: true}, "p"},
		{"since", Filter{Since: first.Started.Add(time.Second), Batch: "0199-b1"}, "r3 r2"},
		{"until", Filter{Until: first.Started.Add(time.Second)}, "r1"},
		{"none", Filter{Agent: "nobody"}, ""},
	} {
		runs, err := l.List(c.f)
		require.NoError(t, err, c.name)
		assert.Equal(t, c.want, strings.ReplaceAll(strings.Join(ids(runs), " "), "0199-", ""), c.name)
	}
	text, err := json.Marshal(first)
	require.NoError(t, err)
	assert.Contains(t, string(text), `"duration_ms":0`)
	assert.NotContains(t, string(text), `"queued":`, "a time that there is not is left out")
}

func TestTree(t *testing.T) {
	l := sample(t)
	tree, err := l.Tree("0199-p")
	require.NoError(t, err)
	assert.Equal(t, []string{"0199-p", "0199-c1", "0199-g1", "0199-c2"}, ids(tree))
	tree, err = l.Tree("c1")
	require.NoError(t, err)
	assert.Equal(t, []string{"0199-c1", "0199-g1"}, ids(tree))
	tree, err = l.Tree("b1")
	require.NoError(t, err)
	assert.Equal(t, []string{"0199-r1", "0199-r2", "0199-r3"}, ids(tree))
	_, err = l.Tree("nothing")
	tells(t, err, ErrNone, "qq runs list")
}

func TestIDsMayBeShortened(t *testing.T) {
	l := sample(t)
	for _, id := range []string{"0199-g1", "g1", "0199-g"} {
		run, _, _, err := l.Show(id)
		require.NoError(t, err, id)
		assert.Equal(t, "0199-g1", run.ID)
	}
	_, _, _, err := l.Show("0199-")
	tells(t, err, ErrAmbiguous, "0199-")
	for _, id := range []string{"", "x", "%", "_", "*"} {
		_, _, _, err = l.Show(id)
		tells(t, err, ErrNone)
	}
	claim(t, l, Execution{ID: "g1"})
	run, _, _, err := l.Show("g1")
	require.NoError(t, err)
	assert.Equal(t, "g1", run.ID, "the whole id comes first")
}

func TestBatches(t *testing.T) {
	l := sample(t)
	rows, err := l.Batches(Filter{})
	require.NoError(t, err)
	require.Len(t, rows, 2)
	assert.Equal(t, "0199-b2", rows[0].ID)
	assert.True(t, rows[0].Live)
	assert.Empty(t, rows[0].Counts)
	assert.Equal(t, map[task.Status]int{task.Completed: 1, task.Failed: 1, task.Interrupted: 1}, rows[1].Counts)
	assert.Equal(t, 3, rows[1].Count)
	begun := rows[1].Started
	assert.Equal(t, []task.Status{task.Running, task.Interrupted}, []task.Status{rows[0].Status, rows[1].Status})

	// It is resumed: what was left runs, what failed runs again.
	require.NoError(t, l.Begin(Batch{ID: "0199-b1", Root: "alive", Dir: "/d", Joblog: "/k", Count: 4,
		Started: time.Now()}))
	claim(t, l, Execution{ID: "again2", Root: "alive", Batch: "0199-b1", Key: "k2", Depth: 1})
	claim(t, l, Execution{ID: "again3", Root: "alive", Batch: "0199-b1", Key: "k3", Depth: 1})
	require.NoError(t, l.Finish("again3", done("", "three")))
	rows, err = l.Batches(Filter{Batch: "0199-b1", Live: true, Dir: "/d"})
	require.NoError(t, err)
	require.Len(t, rows, 1)
	assert.Equal(t, map[task.Status]int{task.Completed: 2, task.Running: 1}, rows[0].Counts)
	assert.Equal(t, begun, rows[0].Started, "the first time")
	assert.Equal(t, "alive", rows[0].Root)

	last, err := l.Last("/d", "")
	require.NoError(t, err)
	assert.Equal(t, "0199-b1", last.ID)
	assert.Equal(t, 4, last.Count)
	found, err := l.Find("b2")
	require.NoError(t, err)
	assert.Equal(t, "0199-b2", found.ID)
	_, err = l.Find("0199")
	tells(t, err, ErrAmbiguous)
	found, err = l.ByJoblog("/k")
	require.NoError(t, err)
	assert.Equal(t, "0199-b1", found.ID)
	_, err = l.Last("/nowhere", "")
	tells(t, err, ErrNone)
	_, err = l.Last("/d", "0199-a")
	tells(t, err, ErrNone)
	_, err = l.ByJoblog("")
	tells(t, err, ErrNone)
}

// TestTotalUsage: the tokens of a run are told with and without those of all that it started.
func TestTotalUsage(t *testing.T) {
	l := sample(t)
	used := func(id string, in, out int) {
		r := done("", id)
		r.Usage = task.Usage{InputTokens: in, OutputTokens: out}
		require.NoError(t, l.Finish("0199-"+id, r))
	}
	used("g1", 4000, 400)
	used("c1", 300, 30)
	used("c2", 20, 2)
	totals := func(runs []Run) map[string][2]int {
		m := map[string][2]int{}
		for _, r := range runs {
			m[strings.TrimPrefix(r.ID, "0199-")] = [2]int{r.Usage.InputTokens + r.Usage.OutputTokens,
				r.TotalUsage.InputTokens + r.TotalUsage.OutputTokens}
		}
		return m
	}
	want := map[string][2]int{"p": {0, 4752}, "c1": {330, 4730}, "c2": {22, 22}, "g1": {4400, 4400}}
	tree, err := l.Tree("0199-p")
	require.NoError(t, err)
	assert.Equal(t, want, totals(tree), "it has not ended")
	used("p", 1000, 60)
	roots, err := l.List(Filter{Roots: true})
	require.NoError(t, err)
	assert.Equal(t, map[string][2]int{"p": {1060, 5812}}, totals(roots))
	run, _, result, err := l.Show("0199-c1")
	require.NoError(t, err)
	assert.Equal(t, task.Usage{InputTokens: 4300, OutputTokens: 430}, run.TotalUsage)
	assert.Equal(t, task.Usage{InputTokens: 300, OutputTokens: 30}, result.Usage)
}

// TestBatchEnds: a batch ended as its last root says, or else was interrupted.
func TestBatchEnds(t *testing.T) {
	l := sample(t)
	row := func() BatchRow {
		rows, err := l.Batches(Filter{Batch: "0199-b1"})
		require.NoError(t, err)
		require.Len(t, rows, 1)
		found, err := l.Batches(Filter{Batch: "0199-b1", Status: []task.Status{task.Killed, rows[0].Status}})
		require.NoError(t, err)
		assert.Equal(t, rows, found, "it is found by its status")
		for _, s := range []task.Status{task.Running, task.Interrupted, task.Limit, task.Failed} {
			found, err = l.Batches(Filter{Batch: "0199-b1", Status: []task.Status{s}})
			require.NoError(t, err)
			assert.Equal(t, s == rows[0].Status, len(found) == 1, s)
		}
		return rows[0]
	}
	assert.Equal(t, task.Interrupted, row().Status, "its root died")
	assert.Zero(t, row().Ended)
	begin := func(root string) time.Time {
		at := l.now().UTC()
		require.NoError(t, l.Begin(Batch{ID: "0199-b1", Root: root, Dir: "/d", Count: 3, Started: at}))
		return at
	}
	began := begin("second")
	require.NoError(t, l.End("0199-b1", "second", task.Limit, task.Usage{InputTokens: 2, OutputTokens: 1}))
	assert.Equal(t, task.Limit, row().Status)
	assert.Equal(t, began, row().Latest)
	assert.Equal(t, began.Add(time.Minute), row().Ended)
	assert.EqualValues(t, time.Minute.Milliseconds(), row().DurationMS)
	assert.Equal(t, task.Usage{InputTokens: 2, OutputTokens: 1}, row().Usage)
	require.NoError(t, l.End("0199-b1", "second", task.Failed, task.Usage{InputTokens: 2, OutputTokens: 1}))
	require.NoError(t, l.End("0199-b1", "nobody", task.Failed, task.Usage{InputTokens: 2, OutputTokens: 1}))
	assert.Equal(t, task.Limit, row().Status, "nothing is rewritten")

	begin("third")
	assert.Equal(t, task.Interrupted, row().Status, "what an earlier root said counts no more")
	claim(t, l, Execution{ID: "again", Root: "third", Batch: "0199-b1", Key: "k3", Depth: 1})
	require.NoError(t, l.Finish("again", done("", "three")))
	assert.Equal(t, task.Interrupted, row().Status, "all have ended, but maybe those of another input")
	begin("alive")
	assert.Equal(t, task.Running, row().Status)
	assert.EqualValues(t, time.Minute.Milliseconds(), row().DurationMS, "of what has ended")
}

func TestClear(t *testing.T) {
	l := sample(t)
	require.NoError(t, l.End("0199-b1", "dead", task.Failed, task.Usage{InputTokens: 2, OutputTokens: 1}))
	n, err := l.Clear(Filter{Agent: "coder", Limit: 1})
	require.NoError(t, err)
	assert.Equal(t, 1, n, "the oldest")
	n, err = l.Clear(Filter{})
	require.NoError(t, err)
	assert.Equal(t, 2, n)
	runs, err := l.List(Filter{})
	require.NoError(t, err)
	assert.Equal(t, []string{"0199-g1", "0199-c2", "0199-c1", "0199-p"}, ids(runs), "a live root's are left")
	rows, err := l.Batches(Filter{})
	require.NoError(t, err)
	require.Len(t, rows, 1)
	assert.Equal(t, "0199-b2", rows[0].ID)
	past, err := l.Known("0199-b1", "k1", 0)
	require.NoError(t, err)
	assert.False(t, past.Ended)
	var left int
	require.NoError(t, l.db.QueryRow("SELECT (SELECT count(*) FROM results) + (SELECT count(*) FROM ends)").Scan(&left))
	assert.Zero(t, left)
}

// The transcript of an execution goes with it, and no other.
func TestClearTakesTranscripts(t *testing.T) {
	l := sample(t)
	runs, err := l.List(Filter{})
	require.NoError(t, err)
	folder := Transcripts(filepath.Dir(l.file))
	write := func(root, name string) string {
		path := filepath.Join(folder, root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		return path
	}
	paths := map[string]string{}
	for _, r := range runs[:len(runs)-1] { // one has none
		paths[r.ID] = write(r.Root, r.ID+".jsonl")
	}
	other := write("another", "one.jsonl")
	_, err = l.Clear(Filter{})
	require.NoError(t, err)
	left, err := l.List(Filter{})
	require.NoError(t, err)
	require.NotEmpty(t, left)
	require.Less(t, len(left), len(runs))
	for id, path := range paths {
		if slices.Contains(ids(left), id) {
			assert.FileExists(t, path)
		} else {
			assert.NoFileExists(t, path)
		}
	}
	assert.FileExists(t, other)
	assert.NoDirExists(t, filepath.Join(folder, "dead"))
}

// What others of a batch did is left while a root goes on with it.
func TestClearSparesWhatIsResumed(t *testing.T) {
	l := sample(t)
	require.NoError(t, l.Begin(Batch{ID: "0199-b1", Root: "alive"}))
	n, err := l.Clear(Filter{})
	require.NoError(t, err)
	assert.Zero(t, n)
}

func TestClearGivesSpaceBack(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long, and has one goroutine")
	}
	home := t.TempDir()
	r := NewRecorder(home, Root{ID: "r"}, Options{})
	for i := range 1200 {
		id := fmt.Sprint(i)
		require.NoError(t, r.Claim(Execution{ID: id}))
		f, err := newFinished("", id, done("", strings.Repeat("x", 5000)))
		require.NoError(t, err)
		err = r.append(line{Result: f}, false)
		require.NoError(t, err)
	}
	require.NoError(t, r.Close())
	l := open(t, home)
	n, err := l.Clear(Filter{})
	require.NoError(t, err)
	assert.Equal(t, 1200, n)
	var pages int
	require.NoError(t, l.db.QueryRow("PRAGMA page_count").Scan(&pages))
	assert.Less(t, pages, 50)
	sound(t, l)
}

func TestPrune(t *testing.T) {
	l := open(t, t.TempDir())
	n, err := l.Prune()
	require.NoError(t, err)
	assert.Zero(t, n, "nothing is kept for ever unless told")

	now := time.Now()
	l.keep, l.now = time.Hour, func() time.Time { return now.Add(-2 * time.Hour) }
	claim(t, l, Execution{ID: "old"})
	claim(t, l, Execution{ID: "old, resumed", Batch: "b"})
	claim(t, l, Execution{ID: "old, of a batch", Batch: "c"})
	require.NoError(t, l.Begin(Batch{ID: "c", Started: l.now()}))
	l.now = func() time.Time { return now }
	require.NoError(t, l.Begin(Batch{ID: "b", Started: now}))
	claim(t, l, Execution{ID: "new"})
	n, err = l.Prune()
	require.NoError(t, err)
	assert.Equal(t, 2, n)
	runs, err := l.List(Filter{})
	require.NoError(t, err)
	assert.Equal(t, []string{"new", "old, resumed"}, ids(runs))
}

// The folder may have any name.
func TestOddHome(t *testing.T) {
	home := filepath.Join(t.TempDir(), "50% of what? #1 é")
	l := open(t, home)
	claim(t, l, Execution{ID: "e"})
	again := open(t, home)
	_, _, _, err := again.Show("e")
	require.NoError(t, err)
	modes(t, home)
	assert.Error(t, l.Enter(Root{ID: "../x"}))
}
