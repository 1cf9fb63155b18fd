package history

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/record/ledger"
	"qq/pkg/llm"
	"qq/pkg/session"
	"qq/pkg/task"
)

// book is a ledger that a root writes and that a history reads.
type book struct {
	History
	*ledger.Recorder
	t    testing.TB
	home string
}

func open(t testing.TB) *book {
	t.Helper()
	home := t.TempDir()
	by := ledger.NewRecorder(home, ledger.Root{ID: "root-1", Dir: "/d", Command: "batch"}, ledger.Options{})
	led, err := ledger.Open(home, ledger.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, led.Close()); assert.NoError(t, by.Close()) })
	return &book{New(led, home), by, t, home}
}

func (b *book) claim(e ledger.Execution) {
	b.t.Helper()
	e.Root = "root-1"
	require.NoError(b.t, b.Claim(e))
}

func ended(output string, in int) task.Result {
	r := task.Task{}.Ended(task.Completed, "")
	r.Output, r.Attempts, r.Usage = output, 1, task.Usage{InputTokens: in}
	return r
}

// fill records a batch of two tasks, of which the first hands on a task, and a prompt.
func (b *book) fill() {
	b.t.Helper()
	require.NoError(b.t, b.Begin(ledger.Batch{ID: "batch-1", Root: "root-1", Dir: "/d", Count: 2, Started: time.Now()}))
	b.claim(ledger.Execution{
		ID: "job-a", Batch: "batch-1", Key: "a", Agent: "coder", Model: "m", Task: "Fix 100% of it"})
	b.claim(ledger.Execution{ID: "job-a-1", Parent: "job-a", Batch: "batch-1", Agent: "scout", Model: "m", Depth: 1})
	b.Attempt("job-a-1", 1, time.Now(), task.Task{}.Ended(task.Timeout, "slow"))
	sub := ended("found", 5)
	sub.Attempts = 2
	require.NoError(b.t, b.Finish("", "job-a-1", sub))
	top := ended("fixed", 10)
	top.ChangedFiles, top.Did = []string{"a.go"}, &task.Did{Calls: map[string]int{"edit_file": 2}}
	require.NoError(b.t, b.Finish("", "job-a", top))
	b.claim(ledger.Execution{ID: "job-b", Batch: "batch-1", Key: "b", Index: 1, Agent: "coder", Model: "m", Task: "b"})
	require.NoError(b.t, b.Finish("", "job-b", task.Task{}.Ended(task.Failed, "no luck")))
	b.claim(ledger.Execution{ID: "prompt-1", Agent: "default", Session: "s", Task: "hello"})
	require.NoError(b.t, b.Refresh())
}

func ids(r Run) (list []string) {
	for j := range r.All() {
		list = append(list, j.ID)
	}
	return list
}

func TestRun(t *testing.T) {
	b := open(t)
	b.fill()
	r, err := b.Run("batch-1")
	require.NoError(t, err)
	assert.Equal(t, []string{"job-a", "job-a-1", "job-b"}, ids(r))
	require.Len(t, r.Jobs, 2)
	assert.Equal(t, 2, r.Batch.Count)
	assert.True(t, r.Live())
	assert.Equal(t, 15, r.Usage().InputTokens)
	a, below := r.Jobs[0], r.Jobs[0].Jobs[0]
	assert.Equal(t, 10, a.Usage.InputTokens)
	assert.Equal(t, 15, a.TotalUsage.InputTokens)
	assert.Equal(t, []string{"a.go"}, a.Changed)
	assert.Equal(t, 2, a.Did.Calls["edit_file"])
	require.Len(t, below.Earlier, 1)
	assert.Equal(t, task.Timeout, below.Earlier[0].Status)
	assert.Equal(t, 2, below.Attempts)
	assert.Empty(t, a.Earlier)
	assert.Equal(t, "no luck", r.Jobs[1].Error)
	assert.NotZero(t, r.Jobs[1].ExitCode)

	part, err := b.Run("job-a-1")
	require.NoError(t, err)
	assert.Equal(t, []string{"job-a-1"}, ids(part))
	assert.Nil(t, part.Batch)
	for id, want := range map[string]string{"job-a-1": "batch-1", "job-b": "batch-1", "root-1": "batch-1",
		"batch-1": "batch-1", "prompt-1": "prompt-1", "mpt-1": "prompt-1"} {
		whole, err := b.Whole(id)
		require.NoError(t, err)
		assert.Equal(t, want, whole.ID, id)
	}
	_, err = b.Run("nothing")
	assert.ErrorIs(t, err, ledger.ErrNone)
	_, err = b.Run("job-")
	assert.ErrorIs(t, err, ledger.ErrAmbiguous)
	res, ok, err := b.Answer("job-a")
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Equal(t, "fixed", res.Output)
	_, ok, err = b.Answer("prompt-1")
	require.NoError(t, err)
	assert.False(t, ok)
	_, err = json.Marshal(r)
	assert.NoError(t, err)
}

func TestListAndSearch(t *testing.T) {
	b := open(t)
	b.fill()
	list, err := b.List(ledger.Filter{})
	require.NoError(t, err)
	require.Len(t, list, 2)
	assert.Equal(t, "prompt-1", list[0].ID())
	assert.Equal(t, "batch-1", list[1].ID())
	assert.True(t, list[1].Live())
	list, err = b.List(ledger.Filter{Limit: 1})
	require.NoError(t, err)
	assert.Len(t, list, 1)
	for text, want := range map[string]int{"100%": 1, "0% o": 1, "100_": 0, "FOUND": 1, "luck": 1, `\`: 0, "": 4, "zz": 0} {
		found, err := b.Search(ledger.Filter{Text: text})
		require.NoError(t, err)
		assert.Len(t, found, want, text)
	}
}

func TestTranscript(t *testing.T) {
	b := open(t)
	b.fill()
	r, err := b.Run("job-b")
	require.NoError(t, err)
	_, err = b.Transcript(r.Jobs[0].Run)
	assert.ErrorIs(t, err, session.ErrNotFound)
	s, err := session.Archive{Dir: ledger.Transcripts(b.home)}.Of("root-1").Begin(session.Header{ID: "job-b"})
	require.NoError(t, err)
	require.NoError(t, s.Add(llm.Entry{Message: llm.Message{Role: llm.User, Content: "b"}}))
	require.NoError(t, s.Close())
	got, err := b.Transcript(r.Jobs[0].Run)
	require.NoError(t, err)
	require.Len(t, got.Entries, 1)
	assert.Equal(t, "b", got.Entries[0].Content)
}

// A run of 10,000 jobs is read while a person waits.
func BenchmarkRun(b *testing.B) {
	k := open(b)
	require.NoError(b, k.Begin(ledger.Batch{ID: "big", Root: "root-1", Count: 10_000, Started: time.Now()}))
	for i := range 10_000 {
		id := fmt.Sprintf("job-%d", i)
		k.claim(ledger.Execution{ID: id, Batch: "big", Key: id, Index: i, Agent: "coder", Task: "Summarize it."})
	}
	done := make(chan error, 100)
	for i := range 100 {
		go func() {
			var err error
			for n := i; n < 10_000 && err == nil; n += 100 {
				err = k.Finish("", fmt.Sprintf("job-%d", n), ended("An answer of some length.", 100))
			}
			done <- err
		}()
	}
	for range 100 {
		require.NoError(b, <-done)
	}
	require.NoError(b, k.Refresh())
	for b.Loop() {
		r, err := k.Run("big")
		require.NoError(b, err)
		require.Len(b, r.Jobs, 10_000)
	}
}

// The transcript of a job is opened by its name: a folder of thousands is not searched for each.
func TestTranscriptIsNotSearched(t *testing.T) {
	b := open(t)
	folder := filepath.Join(ledger.Transcripts(b.home), "root-1")
	s, err := session.Open(folder).Begin(session.Header{ID: "job-x"})
	require.NoError(t, err)
	require.NoError(t, s.Add(llm.Entry{Message: llm.Message{Role: llm.User, Content: "hello"}}))
	require.NoError(t, s.Close())
	require.NoError(t, os.Chmod(folder, 0o100)) // its names cannot be read
	t.Cleanup(func() { assert.NoError(t, os.Chmod(folder, 0o700)) })
	got, err := b.Transcript(ledger.Run{ID: "job-x", Root: "root-1"})
	require.NoError(t, err)
	assert.Len(t, got.Entries, 1)
	_, err = b.Transcript(ledger.Run{ID: "job", Root: "root-1"})
	assert.ErrorIs(t, err, session.ErrNotFound, "the beginning of an id is not enough")
}
