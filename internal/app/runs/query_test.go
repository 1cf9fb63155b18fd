package runs

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/record/ledger"
	"qq/pkg/task"
)

// asked notes what it is asked for.
type asked struct {
	runs, batches []ledger.Filter
	err           error
}

func (a *asked) List(f ledger.Filter) ([]ledger.Run, error) {
	a.runs = append(a.runs, f)
	return some(), a.err
}

func (a *asked) Batches(f ledger.Filter) ([]ledger.BatchRow, error) {
	a.batches = append(a.batches, f)
	return batches(), a.err
}

func (a *asked) Find(id string) (ledger.Batch, error) {
	return ledger.Batch{ID: "whole " + id}, a.err
}

func TestQuery(t *testing.T) {
	a := &asked{}
	runs, rows, err := query(a, ledger.Filter{Live: true, Limit: 20})
	require.NoError(t, err)
	assert.Len(t, runs, 4)
	assert.Len(t, rows, 4)
	assert.Equal(t, &asked{runs: []ledger.Filter{{Live: true, Limit: 20, Roots: true}},
		batches: []ledger.Filter{{Live: true, Limit: 20}}}, a)

	for _, c := range []struct{ f, want ledger.Filter }{
		{ledger.Filter{Batch: "ba01", Limit: 1}, ledger.Filter{Batch: "whole ba01", Limit: 1}},
		{ledger.Filter{Agent: "coder"}, ledger.Filter{Agent: "coder"}},
		{ledger.Filter{Status: []task.Status{task.Idle}, Agent: "coder"},
			ledger.Filter{Status: []task.Status{task.Idle}, Agent: "coder"}},
	} {
		a := &asked{}
		runs, rows, err := query(a, c.f)
		require.NoError(t, err)
		assert.Len(t, runs, 4)
		assert.Empty(t, rows)
		assert.Equal(t, &asked{runs: []ledger.Filter{c.want}}, a)
	}
	a = &asked{}
	f := ledger.Filter{Status: []task.Status{task.Idle}}
	runs, rows, err = query(a, f)
	require.NoError(t, err)
	assert.Len(t, runs, 4)
	assert.Len(t, rows, 4, "a person finds the batch to resume")
	assert.Equal(t, &asked{runs: []ledger.Filter{f}, batches: []ledger.Filter{f}}, a)
	for _, f := range []ledger.Filter{{}, {Batch: "x"}, {Agent: "x"}} {
		boom := errors.New("boom")
		_, _, err := query(&asked{err: boom}, f)
		assert.Equal(t, boom, err)
	}
}

// TestLedger: what a real ledger knows is shown by the ids that are shown.
func TestLedger(t *testing.T) {
	r := ledger.NewRecorder(t.TempDir(), ledger.Root{ID: "root", Started: time.Now(), Dir: "/d", Command: "batch"},
		ledger.Options{})
	t.Cleanup(func() { assert.NoError(t, r.Close()) })
	const prompt, child, batch = "0198a000-0000-7000-8000-0000a1b2c3d4", "0198a000-0000-7000-8000-0000b1b2c3d4",
		"0198a000-0000-7000-8000-00000000ba01"
	require.NoError(t, r.Begin(ledger.Batch{ID: batch, Root: "root", Dir: "/d", Count: 2, Started: time.Now()}))
	for _, e := range []ledger.Execution{
		{ID: prompt, Root: "root", Agent: "default", Task: "ask"},
		{ID: child, Parent: prompt, Root: "root", Agent: "coder", Task: "do", Depth: 1},
		{ID: "0198a000-0000-7000-8000-0000c1b2c3d4", Batch: batch, Root: "root", Agent: "coder", Task: "one of two",
			Key: "k"},
	} {
		require.NoError(t, r.Claim(e))
	}
	r.Attempt(child, 1, time.Now(), task.Task{}.Ended(task.Unavailable, "503"))
	require.NoError(t, r.Finish("", child, task.Task{Text: "do"}.Ended(task.Failed, "no luck")))
	l, err := r.Ledger()
	require.NoError(t, err)
	o := layout{Now: time.Now()}
	list := func(f ledger.Filter) string {
		var b strings.Builder
		runs, batches, err := query(l, f)
		require.NoError(t, err)
		o.Status = len(f.Status) > 0
		require.NoError(t, printRuns(&b, runs, batches, o))
		return b.String()
	}
	all := list(ledger.Filter{Limit: DefaultLimit})
	assert.Equal(t, 3, strings.Count(all, "\n"), all)
	assert.Contains(t, all, "0/2 done in /d")
	assert.Contains(t, all, "a1b2c3d4")
	assert.Contains(t, list(ledger.Filter{Batch: "0000ba01"}), "one of two")
	assert.Contains(t, list(ledger.Filter{Status: []task.Status{task.Failed}}), "b1b2c3d4")
	assert.Regexp(t, `(?m)^RUN       BATCH .*\n0000ba01  +\d.* running \* .* 0/2 done in /d\n`+
		`c1b2c3d4  0000ba01 #1  .* one of two\na1b2c3d4  +\d.* ask\n`, list(ledger.Filter{
		Status: []task.Status{task.Running}}))

	var b strings.Builder
	tree, err := l.Tree("a1b2c3d4")
	require.NoError(t, err)
	require.NoError(t, printTree(&b, tree, o))
	assert.Regexp(t, `^a1b2c3d4     running \*  default  0\.\ds  ask\n└─ b1b2c3d4  failed     coder    0\.\ds  do\n$`,
		b.String())

	b.Reset()
	run, attempts, result, err := l.Show("b1b2c3d4")
	require.NoError(t, err)
	require.NoError(t, printRun(&b, run, attempts, result, o))
	assert.Contains(t, b.String(), "  unavailable  ")
	assert.Contains(t, b.String(), "\n── error\nno luck\n")
}
