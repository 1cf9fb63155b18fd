package app

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/runs"
	"qq/internal/record/ledger"
)

// TestRunsAreNotCutInSilence: a shortened list of runs says so, and how to see all of
// them.
func TestRunsAreNotCutInSilence(t *testing.T) {
	w, _ := newServedWorld(t)
	var tasks strings.Builder
	const n = runs.MaxShown + 1
	for i := range n {
		fmt.Fprintf(&tasks, "task %d\n", i)
	}
	w.file("tasks.txt", tasks.String())
	require.Zero(t, w.run("batch", "-q", "tasks.txt").code)
	for range runs.DefaultLimit - 1 {
		require.Zero(t, w.run("prompt").code)
	}
	e := w.run("runs")
	assert.Equal(t, 1+runs.DefaultLimit, strings.Count(e.out, "\n"))
	assert.Empty(t, e.errors, "that is all")
	require.Zero(t, w.run("prompt").code)
	for _, args := range [][]string{{"runs"}, {"runs", "list"}} {
		e := w.run(args...)
		assert.Equal(t, 1+runs.DefaultLimit, strings.Count(e.out, "\n"))
		assert.Equal(t, "qq: there are more (--limit is 20): --limit 0 shows all\n", e.errors)
		assert.Empty(t, w.run(append(args, "-q")...).errors)
		e = w.run(append(args, "--json")...)
		assert.Empty(t, e.errors)
		var rows []any
		require.NoError(t, json.Unmarshal([]byte(e.out), &rows))
		assert.Len(t, rows, runs.DefaultLimit)
		e = w.run(append(args, "--limit", "0")...)
		assert.Equal(t, 1+runs.DefaultLimit+1, strings.Count(e.out, "\n"))
		assert.Empty(t, e.errors)
	}

	var rows []ledger.BatchRow
	require.NoError(t, json.Unmarshal([]byte(w.run("runs", "--json", "--limit", "0").out), &rows))
	id := rows[len(rows)-1].ID
	e = w.run("runs", "show", id)
	assert.Equal(t, 2+1+runs.MaxShown, strings.Count(e.out, "\n"))
	assert.Contains(t, e.out, "101/101 done")
	assert.Regexp(t, `^qq: only the newest 100 are shown: qq runs list --batch \w+ --limit 0 shows all\n$`, e.errors)
	e = w.run("runs", "show", id, "--json")
	assert.Empty(t, e.errors)
	var doc struct{ Runs []ledger.Run }
	require.NoError(t, json.Unmarshal([]byte(e.out), &doc))
	assert.Len(t, doc.Runs, n)
}

// TestRunsOfFailedTasks: from a failed task there is a way to its run, and to the batch that can be resumed.
func TestRunsOfFailedTasks(t *testing.T) {
	w, _ := newServedWorld(t, batchScripts())
	w.file("tasks.txt", "one\n[[failing]]\n")
	e := w.run("batch", "--no-bar", "tasks.txt")
	require.Contains(t, e.out, "[task 2 failed: ")
	e = w.run("runs", "--status", "failed")
	require.Regexp(t, `^RUN       BATCH  .*\n(\w{8}) .* failed +\(batch\) .* 2/2 done, 1 failed in .*\n`+
		`\w{8}  \w{8} #2  .* failed .*\[\[failing\]\]\n$`, e.out)
	id := e.out[strings.Index(e.out, "\n")+1:][:8]
	assert.Contains(t, e.out, "  "+id+" #2  ")
	for _, args := range [][]string{{"show", id}, {"list", "--batch", id}} {
		e = w.run(append([]string{"runs"}, args...)...)
		assert.Regexp(t, `(?m)^RUN       #  STARTED .*\n\w{8}  [12]  .*\n`, e.out)
		assert.Regexp(t, `(?m)^\w{8}  2  .* failed .*\[\[failing\]\]$`, e.out)
	}
	assert.NotContains(t, w.run("runs", "--status", "completed").out, "(batch)")
	var rows []struct{ Type string }
	require.NoError(t, json.Unmarshal([]byte(w.run("runs", "--status", "failed", "--json").out), &rows))
	assert.Equal(t, []struct{ Type string }{{"batch"}, {"run"}}, rows)
}

// TestRunsClear: qq runs clear deletes only the chosen runs, and all of them only with
// --all.
func TestRunsClear(t *testing.T) {
	w, _ := newServedWorld(t, batchScripts())
	w.file("tasks.txt", "one\n[[failing]]\n")
	require.Equal(t, 4, w.run("batch", "-q", "tasks.txt").code)
	assert.Equal(t, 2, w.run("runs", "clear").code)
	assert.Equal(t, "1 run cleared\n", w.run("runs", "clear", "--status", "failed").out)
	assert.Contains(t, w.run("runs").out, "1/2 done, 1 not started")
	assert.Equal(t, "1 run cleared\n", w.run("runs", "clear", "--all").out)
	assert.Equal(t, "qq: no runs\n", w.run("runs").errors)
}
