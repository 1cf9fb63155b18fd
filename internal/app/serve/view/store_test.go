package view

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/serve/timeline"
	"qq/internal/control"
	"qq/internal/record/history"
	"qq/internal/record/ledger"
	"qq/pkg/task"
)

// filled is a store with a long batch that has ended, of a root that could have four jobs at work.
func filled(t *testing.T) *Store {
	t.Helper()
	home := t.TempDir()
	by := ledger.NewRecorder(home, ledger.Root{ID: "root-1", Dir: "/p", Command: "batch", Slots: 4}, ledger.Options{})
	require.NoError(t, by.Begin(ledger.Batch{ID: "batch-1", Root: "root-1", Dir: "/p", Count: longBatch,
		Started: time.Now()}))
	for i := range 3 {
		id := fmt.Sprint("job-", i)
		require.NoError(t, by.Claim(ledger.Execution{ID: id, Batch: "batch-1", Root: "root-1", Key: id, Index: i,
			Agent: "coder", Task: "t", Queued: time.Now()}))
		r := task.Task{}.Ended(task.Completed, "")
		r.DurationMS, r.Away = 100, []task.Span{{From: 20, To: 60}}
		require.NoError(t, by.Finish("", id, r))
	}
	require.NoError(t, by.End("batch-1", task.Completed, task.Usage{}))
	require.NoError(t, by.Close())
	led, err := ledger.Open(home, ledger.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, led.Close()) })
	return &Store{History: history.New(led, home), Hub: New(home), Home: home}
}

// A run is read once, however many pages ask for it at once; what the list shows is at hand before it is opened.
func TestARunIsReadOnce(t *testing.T) {
	s := filled(t)
	_, long := s.Head("batch-1")
	assert.True(t, long, "its jobs are not at hand")
	list, err := s.List(ledger.Filter{Batch: "batch-1", Limit: 1})
	require.NoError(t, err)
	s.Warm(list[0].Batch)
	jobs := make([]*history.Job, 8)
	var reading sync.WaitGroup
	for i := range jobs {
		reading.Go(func() {
			r, err := s.Recorded("batch-1")
			if assert.NoError(t, err) {
				jobs[i] = r.Jobs[0]
			}
		})
	}
	reading.Wait()
	for _, j := range jobs {
		assert.Same(t, jobs[0], j)
	}
	_, long = s.Head("batch-1")
	assert.False(t, long, "they are at hand now")
	s.Forget("batch-1")
	again, err := s.Recorded("batch-1")
	require.NoError(t, err)
	assert.NotSame(t, jobs[0], again.Jobs[0])
}

// The bars of a past run know when each job had its slot, and how many there were.
func TestBarsOfAPastRun(t *testing.T) {
	s := filled(t)
	run, err := s.Whole("batch-1")
	require.NoError(t, err)
	assert.Equal(t, 4, run.Cap())
	bars := View{Root: "/", Now: time.Now(), Store: s}.Bars(run, 0)
	require.Len(t, bars, 3)
	assert.True(t, bars[0].Known)
	begun := run.Items[0].Queued
	at := func(ms int) time.Time { return begun.Add(time.Duration(ms) * time.Millisecond) }
	assert.Equal(t, []timeline.Span{{From: at(0), To: at(20)}, {From: at(60), To: at(100)}}, bars[0].Work)
	run.AtWork, run.Root.Max = true, 7
	assert.Equal(t, 7, run.Cap(), "what it is now")
	assert.Empty(t, worked(begun, 0, nil), "nothing was run")
	assert.Equal(t, []timeline.Span{{From: at(0), To: at(5)}}, worked(begun, 9, []task.Span{{From: 5, To: 9}}))
}

// The time of a question is that at which it was seen first, and its root is found by all of its names.
func TestHubKeepsWhatWasAsked(t *testing.T) {
	h := New(t.TempDir())
	st := State{ID: "root-1", Snapshot: control.Snapshot{Root: control.Root{ExecutionID: "root-1", BatchID: "batch-1"},
		Questions: []control.Question{{QuestionID: "q"}}}}
	h.Publish(st)
	first, ok := h.Of("batch-1")
	require.True(t, ok)
	h.Publish(st)
	second, ok := h.Of("root-1")
	require.True(t, ok)
	assert.Equal(t, first.Asked["q"], second.Asked["q"])
	assert.Equal(t, "asks you", second.Shown().Word)
	_, ok = h.Of("another")
	assert.False(t, ok)
}

// A root that is stopped holds up a page for a moment only, and stays as it was.
func TestSilentRoot(t *testing.T) {
	home := t.TempDir()
	folder := filepath.Join(home, "run", "1")
	require.NoError(t, os.MkdirAll(folder, 0o700))
	l, err := net.Listen("unix", filepath.Join(folder, "root-1.sock"))
	require.NoError(t, err)
	h := New(home)
	asked := make(chan struct{})
	h.Publish(State{ID: "root-1", Path: filepath.Join(folder, "root-1.sock"),
		Snapshot: control.Snapshot{Root: control.Root{ExecutionID: "root-1"}, AtWork: 3}})
	go func() {
		defer close(asked)
		_ = h.Steer("root-1", func(c *control.Client) error { return c.Pause(true) }) // there is no reply
	}()
	h.Refresh()
	select {
	case <-asked:
		t.Error("it has waited as long as one who steers the root")
	default:
	}
	st, ok := h.Of("root-1")
	require.True(t, ok)
	assert.Equal(t, 3, st.AtWork)
	<-asked
	require.NoError(t, l.Close())
}
