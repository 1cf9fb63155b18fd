package ledger

import (
	"database/sql"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qq/internal/record/ledger/selection"
	"qq/pkg/task"
)

// recount counts the tasks of a batch from the executions alone.
func recount(t require.TestingT, l *Ledger, batch string) map[task.Status]int {
	counts := map[task.Status]int{}
	live, err := l.roots.Live()
	require.NoError(t, err)
	err = selection.Each(l.db, `SELECT status, alive, count(*) FROM (
  SELECT coalesce(r.status, '') AS status, e.`+amongLive+` AS alive,
    max(e.n + (CASE WHEN r.status IS NOT NULL THEN 1 WHEN e.`+amongLive+` THEN 2 ELSE 0 END << 60))
  FROM executions e LEFT JOIN results r ON r.execution = e.n
  WHERE e.batch = ? AND e.batch <> '' GROUP BY e.key, e.nth)
GROUP BY status, alive`, []any{selection.List(live), selection.List(live), batch}, func(rows *sql.Rows) error {
		var status task.Status
		var alive bool
		var n int
		err := rows.Scan(&status, &alive, &n)
		if status == "" {
			status = statusOf(alive)
		}
		counts[status] += n
		return err
	})
	require.NoError(t, err)
	return counts
}

// The counts that triggers keep are those of a count from the beginning, whatever happens to a batch: tasks with
// the same key, results out of order, other roots, resumed batches, dead roots, cleared runs, and journals that are
// indexed now or later.
func TestCountsAreKept(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long, and has one goroutine")
	}
	dir := t.TempDir()
	checks := flag.Lookup("rapid.checks")
	defer func(old string) { require.NoError(t, checks.Value.Set(old)) }(checks.Value.String())
	require.NoError(t, checks.Value.Set("25")) // each of them has many steps, with a database of its own
	rapid.Check(t, func(t *rapid.T) {
		home, err := os.MkdirTemp(dir, "")
		require.NoError(t, err)
		l, err := Open(home, Options{})
		require.NoError(t, err)
		defer func() { require.NoError(t, l.Close()) }()
		roots := map[string]*Recorder{}
		var live []string
		defer func() {
			for _, r := range roots {
				require.NoError(t, r.Close())
			}
		}()
		open := map[string][]string{} // executions of a root that have no result
		batches := rapid.SampledFrom([]string{"b1", "b2"})
		next := 0
		enter := func(t *rapid.T) {
			next++
			id := fmt.Sprint("root", next)
			r := NewRecorder(home, Root{ID: id}, Options{})
			for _, b := range []string{"b1", "b2"} {
				begin := &begun{Batch: Batch{ID: b, Root: id, Started: time.Now()}}
				require.NoError(t, r.append(line{Begin: begin}, false))
			}
			roots[id], live = r, append(live, id)
		}
		enter(t)
		some := func(t *rapid.T) string {
			if len(live) == 0 {
				t.Skip("no root")
			}
			return rapid.SampledFrom(live).Draw(t, "root")
		}
		t.Repeat(map[string]func(*rapid.T){
			"enter": enter,
			"claim": func(t *rapid.T) {
				root := some(t)
				next++
				id := fmt.Sprint("run", next)
				key := rapid.SampledFrom([]string{"k1", "k2", "k3"}).Draw(t, "key")
				require.NoError(t, roots[root].Claim(Execution{ID: id, Root: root, Batch: batches.Draw(t, "batch"),
					Key: key, Nth: rapid.IntRange(0, 1).Draw(t, "nth")}))
				open[root] = append(open[root], id)
			},
			"finish": func(t *rapid.T) {
				root := some(t)
				if len(open[root]) == 0 {
					t.Skip("nothing runs")
				}
				id := rapid.SampledFrom(open[root]).Draw(t, "run") // maybe once more: that is ignored
				ends := []task.Status{task.Completed, task.Failed, task.Cancelled}
				status := rapid.SampledFrom(ends).Draw(t, "status")
				require.NoError(t, roots[root].Finish("", id, task.Task{ID: id}.Ended(status, "x")))
			},
			"die": func(t *rapid.T) {
				root := some(t)
				require.NoError(t, roots[root].Close())
				delete(roots, root)
				live = live[:0]
				for id := range roots {
					live = append(live, id)
				}
			},
			"index": func(t *rapid.T) { require.NoError(t, l.refresh()) },
			"clear": func(t *rapid.T) {
				_, err := l.Clear(Filter{Limit: rapid.IntRange(0, 3).Draw(t, "limit")})
				require.NoError(t, err)
			},
			"": func(t *rapid.T) {
				rows, err := l.Batches(Filter{})
				require.NoError(t, err)
				for _, b := range rows {
					require.Equal(t, recount(t, l, b.ID), b.Counts, b.ID)
				}
				var wrong int
				require.NoError(t, l.db.QueryRow(`SELECT count(*) FROM executions e
WHERE (e.n IN (SELECT execution FROM unfinished)) = (e.n IN (SELECT execution FROM results))`).Scan(&wrong))
				require.Zero(t, wrong)
			},
		})
	})
}

// A ledger of the last released version is counted when it is brought up to date.
func TestCountsOfAnOlderLedger(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long, and has one goroutine")
	}
	home := t.TempDir()
	old, err := Open(home, Options{})
	require.NoError(t, err)
	steps := []string{"DROP VIEW runs", "CREATE VIEW runs AS SELECT 1"}
	for _, table := range []string{"attempts", "results", "ends"} { // step 5
		for _, column := range []string{"cached_tokens", "cost", "priced_tokens"} {
			steps = append(steps, "ALTER TABLE "+table+" DROP COLUMN "+column)
		}
	}
	steps = append(steps, "ALTER TABLE roots DROP COLUMN slots") // step 6
	for _, step := range append(steps,                           // step 4
		"DROP TRIGGER claimed; DROP TRIGGER finished_task; DROP TRIGGER cleared_result; DROP TRIGGER cleared_execution",
		"DROP INDEX executions_prompts; DROP VIEW moves; DROP VIEW finished; DROP TABLE counts; DROP TABLE unfinished",
		"PRAGMA user_version = 3",
		`INSERT INTO executions (id, parent, batch, root, session, agent, model, key, dir, nth, idx, depth, queued, claimed,
task) SELECT value, '', 'b', 'dead', '', 'a', '', substr(value, 1, 1), '', 0, 0, 0, 0, 0, 't'
FROM json_each('["x1","x2","x3","y1","z1"]')`,
		`INSERT INTO results (execution, status, attempts, ended, duration_ms, queued_ms, input_tokens, output_tokens, error,
record, output) SELECT n, iif(id = 'x1', 'failed', 'completed'), 1, 0, 0, 0, 0, 0, '', '{}', '' FROM executions
WHERE id IN ('x1', 'x2', 'y1')`,
	) {
		_, err := old.db.Exec(step)
		require.NoError(t, err, step)
	}
	require.NoError(t, old.Close())
	again, err := Open(home, Options{})
	require.NoError(t, err)
	defer again.Close()
	counts, err := again.counts("b", nil)
	require.NoError(t, err)
	assert.Equal(t, map[task.Status]int{task.Completed: 2, task.Interrupted: 1}, counts)
	assert.Equal(t, recount(t, again, "b"), counts)
}
