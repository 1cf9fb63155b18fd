package ledger

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/task"
	"qq/pkg/tool"
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
	assert.WithinDuration(t, time.Now(), past.At, time.Minute)
	assert.Equal(t, Earlier{Result: r, Ended: true, At: past.At}, past)
	run, _, got, err := l.Show("e")
	require.NoError(t, err)
	assert.Equal(t, r, got)
	assert.Equal(t, strings.Repeat("é", 10_000), run.Task)
	assert.Equal(t, tool.First(r.Output, 5_000, ""), run.Summary)
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
	claim(t, l, Execution{ID: "e", Agent: "other"})
	require.NoError(t, l.Finish("e", done("", "first")))
	require.NoError(t, l.Finish("e", done("", "second")))
	run, _, r, err := l.Show("e")
	require.NoError(t, err)
	assert.Equal(t, "first", r.Output)
	assert.Empty(t, run.Agent)
	require.NoError(t, l.Finish("nobody", done("", "")))
	_, _, _, err = l.Show("nobody")
	require.ErrorIs(t, err, ErrNone, "what was not claimed")
}

func TestAttempts(t *testing.T) {
	home := t.TempDir()
	rec := NewRecorder(home, Root{ID: "r"}, Options{})
	require.NoError(t, rec.Claim(Execution{ID: "e"}))
	started := time.Now().Add(-time.Minute).UTC().Truncate(time.Microsecond)
	rec.Attempt("e", 1, started, task.Task{}.Ended(task.Broken, "cut"))
	rec.Attempt("e", 2, started, task.Task{}.Ended(task.Unavailable, "busy"))
	require.NoError(t, rec.Close())
	err := rec.Claim(Execution{ID: "late"})
	require.ErrorIs(t, err, errClosed)
	assert.Equal(t, "claim late: the ledger is closed", err.Error())
	require.ErrorIs(t, rec.Finish("", "late", done("", "")), errClosed)

	l := open(t, home)
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

// What the database cannot hold does not keep the rest of a journal away.
func TestOneBadEntryFailsAlone(t *testing.T) {
	home := t.TempDir()
	l := open(t, home)
	require.NoError(t, l.update(func(tx *sql.Tx) error {
		_, err := tx.Exec("CREATE TRIGGER bad BEFORE INSERT ON executions WHEN new.id = 'bad' BEGIN SELECT " +
			"raise(ABORT, 'bad'); END")
		return err
	}))
	r := NewRecorder(home, Root{ID: "r"}, Options{})
	for _, id := range []string{"one", "bad", "two"} {
		require.NoError(t, r.Claim(Execution{ID: id}))
	}
	require.NoError(t, r.Close())
	require.NoError(t, l.refresh())
	runs, err := l.List(Filter{})
	require.NoError(t, err)
	assert.Equal(t, []string{"two", "one"}, ids(runs))
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{{"", 0, ""}, {"abc", 2, "ab"}, {"abc", 3, "abc"}, {"éé", 1, "é"}, {"éé", 2, "éé"}, {"éé", 3, "éé"},
		{"\xffab", 2, "\xffa"}} {
		assert.Equal(t, c.want, tool.First(c.in, c.n, ""), fmt.Sprintf("%q %d", c.in, c.n))
	}
}
