package ledger

import (
	"database/sql"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/record/ledger/schema"
	"qq/pkg/money"
	"qq/pkg/task"
)

// spend is a success that used u.
func spend(u task.Usage) task.Result {
	r := task.Task{Text: "t"}.Ended(task.Completed, "")
	r.Usage = u
	return r
}

// TestShares: what a run or a batch used, with all below it, by agent and depth. The sums are exact, and say how many
// tokens have a price. What extract did costs nothing, and that is known.
func TestShares(t *testing.T) {
	home := t.TempDir()
	r := NewRecorder(home, Root{ID: "root", Dir: "/d"}, Options{})
	require.NoError(t, r.Begin(Batch{ID: "b", Root: "root", Dir: "/d", Count: 1}))
	run := func(id, parent, batch, agent, model string, depth int, u task.Usage) {
		require.NoError(t, r.Claim(Execution{ID: id, Parent: parent, Batch: batch, Root: "root", Agent: agent,
			Model: model, Depth: depth, Key: id}))
		r.Attempt(id, 1, time.Now(), spend(u))
		require.NoError(t, r.Finish("", id, spend(u)))
	}
	big := task.Usage{InputTokens: 100, OutputTokens: 10, CachedTokens: 60, Cost: 1_000_000_000_000_001,
		PricedTokens: 110}
	run("lead", "", "b", "lead", "oa:m", 1, big)
	run("one", "lead", "", "helper", "oa:m", 2, big)
	run("two", "one", "", "lead", "ollama:x", 3, task.Usage{InputTokens: 5, OutputTokens: 2})
	run("three", "lead", "", "helper", "extract", 2, task.Usage{InputTokens: 7, OutputTokens: 1})
	run("other", "", "", "lead", "oa:m", 0, big)
	all := big.Add(big).Add(task.Usage{InputTokens: 12, OutputTokens: 3, PricedTokens: 8})
	require.NoError(t, r.End("b", task.Completed, all))
	require.NoError(t, r.Close())
	l, err := Open(home, Options{})
	require.NoError(t, err)
	defer l.Close()

	want := []Share{
		{"lead", 1, 1, big},
		{"helper", 2, 2, big.Add(task.Usage{InputTokens: 7, OutputTokens: 1, PricedTokens: 8})},
		{"lead", 3, 1, task.Usage{InputTokens: 5, OutputTokens: 2}},
	}
	for _, id := range []string{"lead", "b"} {
		got, err := l.Shares(id)
		require.NoError(t, err)
		assert.Equal(t, want, got, id)
	}
	got, err := l.Shares("none")
	require.NoError(t, err)
	assert.Empty(t, got)

	top, attempts, _, err := l.Show("lead")
	require.NoError(t, err)
	assert.Equal(t, big, top.Usage)
	assert.Equal(t, all, top.TotalUsage)
	require.Len(t, attempts, 1)
	assert.Equal(t, big, attempts[0].Usage)
	batches, err := l.Batches(Filter{})
	require.NoError(t, err)
	assert.Equal(t, all, batches[0].Usage)
	assert.Equal(t, money.Amount(2_000_000_000_000_002), batches[0].Usage.Cost)
}

// TestCostOfAnOlderLedger: a ledger without cost is read as one whose costs are not known.
func TestCostOfAnOlderLedger(t *testing.T) {
	home := t.TempDir()
	require.NoError(t, os.WriteFile(Path(home), nil, 0o600))
	db, err := sql.Open("sqlite", Path(home))
	require.NoError(t, err)
	for _, step := range []string{"001", "002", "003", "004"} {
		script, err := os.ReadFile("schema/" + step + ".sql")
		require.NoError(t, err)
		_, err = db.Exec(string(script))
		require.NoError(t, err)
	}
	_, err = db.Exec(`PRAGMA user_version = 4;
INSERT INTO executions (id, parent, batch, root, session, agent, model, key, dir, nth, idx, depth, queued, claimed, task)
VALUES ('e', '', '', 'r', '', 'default', 'oa:m', 'k', '/d', 0, 0, 0, 1, 1, 'what');
INSERT INTO results (execution, status, attempts, ended, duration_ms, queued_ms, input_tokens, output_tokens, error,
record, output) VALUES (1, 'completed', 1, 2, 1, 0, 70, 7, '', '{}', 'that')`)
	require.NoError(t, errors.Join(err, db.Close()))
	l, err := Open(home, Options{})
	require.NoError(t, err)
	defer l.Close()
	runs, err := l.List(Filter{})
	require.NoError(t, err)
	require.Len(t, runs, 1)
	assert.Equal(t, task.Usage{InputTokens: 70, OutputTokens: 7}, runs[0].TotalUsage)
	assert.Equal(t, 6, schema.Latest())
	slots, err := l.Slots("r")
	require.NoError(t, err)
	assert.Zero(t, slots, "not known")
}
