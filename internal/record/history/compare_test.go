package history

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/record/ledger"
	"qq/pkg/task"
)

// described are pairs in short: the depth, the two ids and whether the answers are the same.
func described(pairs []Pair) (all []string) {
	for _, p := range pairs {
		one := strings.Repeat(" ", p.Depth)
		for _, s := range []*Side{p.A, p.B} {
			if s == nil {
				one += "- "
			} else {
				one += s.ID + " "
			}
		}
		if p.Same {
			one += "same"
		}
		all = append(all, strings.TrimRight(one, " "))
	}
	return all
}

// TestCompare: the jobs of two runs are paired by their tasks first, then by their number, and those below them too.
func TestCompare(t *testing.T) {
	b := open(t)
	batch := func(id string) {
		require.NoError(t, b.Begin(ledger.Batch{ID: id, Root: "root-1", Count: 3, Started: time.Now()}))
	}
	job := func(batch, id, parent, agent, text string, index int, answer string) {
		b.claim(ledger.Execution{ID: id, Parent: parent, Batch: batch, Key: id, Agent: agent, Task: text, Index: index})
		if answer != "" {
			require.NoError(t, b.Finish("", id, ended(answer, 1)))
		}
	}
	long := strings.Repeat("x", ledger.MaxSummary)
	batch("one")
	job("one", "a0", "", "coder", "first", 0, "yes")
	job("one", "a0x", "a0", "scout", "look here", 0, "seen")
	job("one", "a0y", "a0", "critic", "judge", 0, "good")
	job("one", "a1", "", "coder", "second", 1, long+"1")
	job("one", "a2", "", "coder", "third", 2, "")
	job("one", "a1-again", "", "coder", "second", 1, long+"2")
	batch("two")
	job("two", "b0", "", "coder", "second", 0, long+"3")
	job("two", "b1", "", "coder", "first", 1, "yes")
	job("two", "b1z", "b1", "scout", "look there", 0, "seen")
	job("two", "b2", "", "coder", "other", 2, "no")
	job("two", "b3", "", "coder", "fourth", 3, "more")
	require.NoError(t, b.Refresh())
	run := func(id string) Run {
		r, err := b.Run(id)
		require.NoError(t, err)
		return r
	}
	one := run("one")
	one.Sort()
	assert.Equal(t, []string{"a0", "a0x", "a0y", "a1", "a1-again", "a2"}, ids(one), "as in the batch")
	pairs, err := b.Compare(run("one"), run("two"))
	require.NoError(t, err)
	assert.Equal(t, []string{"a0 b1 same", " a0x b1z same", " a0y -", "a1-again b0", "a2 b2", "- b3"}, described(pairs))
	assert.Equal(t, long+"2", pairs[3].A.Answer, "the whole answer")
	assert.Empty(t, pairs[3].A.Summary)

	pairs, err = b.Compare(run("a0"), run("b2"))
	require.NoError(t, err)
	assert.Equal(t, []string{"a0 b2", " a0x -", " a0y -"}, described(pairs), "two runs belong together")
	pairs, err = b.Compare(run("a0"), run("a0"))
	require.NoError(t, err)
	assert.Equal(t, []string{"a0 a0 same", " a0x a0x same", " a0y a0y same"}, described(pairs))
}

func TestStats(t *testing.T) {
	b := open(t)
	b.fill()
	asked := ended("ok", 100)
	asked.DurationMS, asked.Did = 3000, &task.Did{Model: task.ModelTime{Answers: 2, FirstMS: 300, TookMS: 900}}
	b.claim(ledger.Execution{ID: "job-c", Agent: "coder", Model: "m", Task: "c"})
	require.NoError(t, b.Finish("", "job-c", asked))
	known := asked
	known.Cached, known.DurationMS = true, 0
	for id, r := range map[string]task.Result{
		"job-k": known,                                // its answer was known: it is no run
		"job-s": task.Task{}.Ended(task.Skipped, "x"), // it took no time
	} {
		b.claim(ledger.Execution{ID: id, Agent: "coder", Model: "m", Task: id})
		require.NoError(t, b.Finish("", id, r))
	}
	require.NoError(t, b.Refresh())
	list, err := b.Stats(ledger.Filter{})
	require.NoError(t, err)
	require.Len(t, list, 3)
	coder := list[0]
	assert.Equal(t, "coder", coder.Agent)
	assert.Equal(t, []int{4, 1}, []int{coder.Runs, coder.Cached})
	assert.Equal(t, map[task.Status]int{task.Completed: 2, task.Failed: 1, task.Skipped: 1}, coder.Statuses)
	assert.Equal(t, 3, coder.Ended())
	assert.Equal(t, time.Second, coder.Mean())
	assert.Equal(t, 150*time.Millisecond, coder.Time.First())
	assert.Equal(t, 110, coder.Usage.InputTokens)
	assert.Equal(t, map[task.Status]int{task.Running: 1}, list[1].Statuses, "at work")
	assert.Zero(t, list[1].Ended())
	assert.Equal(t, 1, list[2].Repeated)
	sum := 0
	for _, f := range list {
		sum += f.Usage.InputTokens
	}
	whole, err := b.Run("batch-1")
	require.NoError(t, err)
	assert.Equal(t, whole.Usage().InputTokens+100, sum, "as the runs have it")
	list, err = b.Stats(ledger.Filter{Agent: "coder", Batch: "batch-1", Status: []task.Status{task.Failed}})
	require.NoError(t, err)
	require.Len(t, list, 1)
	assert.Equal(t, 1, list[0].Runs)
	list, err = b.Stats(ledger.Filter{Since: time.Now().Add(time.Hour)})
	require.NoError(t, err)
	assert.Empty(t, list)
}
