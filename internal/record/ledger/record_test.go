package ledger

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/task"
)

func TestResultComesBackWhole(t *testing.T) {
	l := open(t, t.TempDir())
	r := done("mine", "\xff\x00 <é>"+strings.Repeat("long ", 1<<19))
	r.Effects, r.Warnings, r.ChangedFiles, r.Structured = true, []string{"w"}, []string{"f"}, json.RawMessage(`{"a":1}`)
	r.Reads = []task.Read{{Tool: "read_file", Arguments: json.RawMessage(`{"p":1}`), Digest: "d"}}
	claim(t, l, Execution{ID: "e", Batch: "b", Key: "k", Nth: 2, Task: strings.Repeat("é", 20_000)})
	require.NoError(t, l.Finish("e", r))

	past, err := l.Known("b", "k", 2)
	require.NoError(t, err)
	assert.Equal(t, Earlier{Result: r, Ended: true}, past)
	run, _, got, err := l.Show("e")
	require.NoError(t, err)
	assert.Equal(t, r, got)
	assert.Equal(t, strings.Repeat("é", 10_000), run.Task)
	assert.Equal(t, cut(r.Output, 5_000), run.Summary)
	assert.Equal(t, task.Completed, run.Status)
	assert.Equal(t, r.Usage, run.Usage)
	for _, other := range []struct {
		batch, key string
		nth        int
	}{{"b", "k", 1}, {"b", "x", 2}, {"x", "k", 2}, {"", "k", 2}} {
		past, err := l.Known(other.batch, other.key, other.nth)
		require.NoError(t, err)
		assert.Zero(t, past, other)
	}
}

func TestKnownIsTheNewest(t *testing.T) {
	l := open(t, t.TempDir())
	l.now = func() time.Time { return time.Unix(2_000_000_000, 0) }
	claim(t, l, Execution{ID: "old", Batch: "b", Key: "k"})
	require.NoError(t, l.Finish("old", task.Task{}.Ended(task.Failed, "first")))
	l.now = func() time.Time { return time.Unix(1_000_000_000, 0) } // the clock was set back
	claim(t, l, Execution{ID: "new", Batch: "b", Key: "k"})
	require.NoError(t, l.Finish("new", done("", "second")))
	claim(t, l, Execution{ID: "never ended", Batch: "b", Key: "k"})

	known := func(ended, acted bool) {
		t.Helper()
		past, err := l.Known("b", "k", 0)
		require.NoError(t, err)
		assert.Equal(t, "second", past.Result.Output)
		assert.Equal(t, []bool{ended, acted}, []bool{past.Ended, past.Acted})
	}
	require.NoError(t, l.Touch("old"))
	known(true, false)
	require.NoError(t, l.Touch("never ended"))
	known(true, true)
	runs, err := l.List(Filter{})
	require.NoError(t, err)
	assert.Equal(t, []string{"never ended", "new", "old"}, ids(runs))
}

func TestNothingIsRewritten(t *testing.T) {
	l := open(t, t.TempDir())
	claim(t, l, Execution{ID: "e"})
	err := l.Claim(Execution{ID: "e", Agent: "other"})
	require.ErrorIs(t, err, errTwice)
	assert.Equal(t, "claim e: it was claimed already", err.Error())
	require.NoError(t, l.Finish("e", done("", "first")))
	require.NoError(t, l.Finish("e", done("", "second")))
	run, _, r, err := l.Show("e")
	require.NoError(t, err)
	assert.Equal(t, "first", r.Output)
	assert.Empty(t, run.Agent)
	require.ErrorIs(t, l.Finish("nobody", done("", "")), ErrNone)
}

func TestAttempts(t *testing.T) {
	home := t.TempDir()
	l, err := Open(home, Options{})
	require.NoError(t, err)
	claim(t, l, Execution{ID: "e"})
	started := time.Now().Add(-time.Minute).UTC().Truncate(time.Microsecond)
	l.Attempt("e", 1, started, task.Task{}.Ended(task.Broken, "cut"))
	l.Attempt("e", 2, started, task.Task{}.Ended(task.Unavailable, "busy"))
	require.NoError(t, l.Close(), "which writes what waits")
	require.ErrorIs(t, l.Claim(Execution{ID: "late"}), errClosed)

	l = open(t, home)
	run, attempts, r, err := l.Show("e")
	require.NoError(t, err)
	assert.Equal(t, 3, run.Attempts, "two that ended and the one that did not")
	assert.Zero(t, r)
	require.Len(t, attempts, 2)
	assert.Equal(t, task.Broken, attempts[0].Status)
	assert.Equal(t, "busy", attempts[1].Error)
	assert.Equal(t, started, attempts[0].Started)
	assert.Equal(t, 2, attempts[1].Number)
}

func TestRecall(t *testing.T) {
	l := open(t, t.TempDir())
	finish := func(id, key string, change func(*task.Result)) {
		r := done("", id)
		r.Reads = []task.Read{{Tool: "read_file", Arguments: json.RawMessage(`{}`), Digest: "d"}}
		change(&r)
		claim(t, l, Execution{ID: id, Key: key})
		require.NoError(t, l.FinishFor(key, id, r))
	}
	finish("old", "k", func(*task.Result) {})
	finish("new", "k", func(*task.Result) {})
	finish("failed", "k", func(r *task.Result) { r.End(task.Failed, "") })
	finish("wrote", "k", func(r *task.Result) { r.Effects = true })
	finish("not recorded", "k", func(r *task.Result) { r.Reads = nil })
	finish("nothing to read", "other", func(r *task.Result) { r.Reads = []task.Read{} })

	r, ok, err := l.Recall("k")
	require.NoError(t, err)
	require.True(t, ok)
	assert.Equal(t, "new", r.Output)
	assert.Len(t, r.Reads, 1)
	_, ok, err = l.Recall("other")
	require.NoError(t, err)
	assert.True(t, ok)
	claim(t, l, Execution{ID: "not to be recalled", Key: "unknown"})
	require.NoError(t, l.Finish("not to be recalled", task.Result{Status: task.Completed, Reads: []task.Read{}}))
	_, ok, err = l.Recall("unknown")
	require.NoError(t, err)
	assert.False(t, ok)
}

func TestKey(t *testing.T) {
	base := task.Task{Text: "text", ID: "one"}
	same := []task.Task{{Text: "text", ID: "two"}, {Text: "text", Agent: task.DefaultAgent}}
	for _, s := range same {
		assert.Equal(t, Key(base), Key(s))
	}
	assert.Equal(t, Key(task.Task{Schema: json.RawMessage(`{"a": 1}`)}), Key(task.Task{Schema: json.RawMessage(`{"a":1}`)}))
	seen := map[string]int{}
	for i, k := range []string{
		Key(base), Key(base, ""), Key(base, "x"), Key(base, "x", "y"), Key(base, "xy"),
		Key(task.Task{Text: "text", Agent: "coder"}), Key(task.Task{Text: "text", Model: "m"}), Key(task.Task{Text: "text", Context: "c"}),
		Key(task.Task{Text: "text", Context: "c\xff"}), Key(task.Task{Text: "text", Context: "c\xfe"}), Key(task.Task{Text: "textc"}),
		Key(task.Task{Text: "text", Schema: json.RawMessage(`{`)}), Key(task.Task{Text: "text", ReadOnly: true}),
		Key(task.Task{Text: "text", WorkingDir: "d"}), Key(task.Task{Text: "text", Dir: "d"}), Key(task.Task{Text: "text", Targets: []string{"d"}}),
		Key(task.Task{Text: "text", Denied: []string{"d"}}), Key(task.Task{Text: "text", Temporary: &task.Temporary{Prompt: "p"}}),
		Key(task.Task{Text: "text", Idempotent: true}), Key(task.Task{Text: "text", Timeout: 3}), Key(task.Task{Text: "text", RequireFileReferences: true}),
	} {
		j, ok := seen[k]
		assert.False(t, ok, "%d is like %d", i, j)
		seen[k] = i
		assert.Len(t, k, 64)
	}
}

// A result that cannot be written does not take those with it that share its
// transaction.
func TestOneBadEntryFailsAlone(t *testing.T) {
	l := open(t, t.TempDir())
	claim(t, l, Execution{ID: "taken"})
	entered, leave := make(chan struct{}), make(chan struct{})
	errs := make(chan error, 3)
	go func() {
		errs <- l.write.do(false, func(*writer) error { close(entered); <-leave; return nil })
	}()
	<-entered // what comes now waits, and is one group
	go func() { errs <- l.Claim(Execution{ID: "taken"}) }()
	go func() { errs <- l.Claim(Execution{ID: "free"}) }()
	for waiting := 0; waiting < 2; {
		l.write.mu.Lock()
		waiting = len(l.write.queue)
		l.write.mu.Unlock()
		runtime.Gosched()
	}
	close(leave)
	failed := 0
	for range 3 {
		if err := <-errs; err != nil {
			require.ErrorIs(t, err, errTwice)
			failed++
		}
	}
	assert.Equal(t, 1, failed)
	_, _, _, err := l.Show("free")
	require.NoError(t, err)
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{{"", 0, ""}, {"abc", 2, "ab"}, {"abc", 3, "abc"}, {"éé", 1, "é"}, {"éé", 2, "éé"}, {"éé", 3, "éé"}, {"\xffab", 2, "\xffa"}} {
		assert.Equal(t, c.want, cut(c.in, c.n), fmt.Sprintf("%q %d", c.in, c.n))
	}
}
