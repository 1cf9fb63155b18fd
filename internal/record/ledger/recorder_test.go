package ledger

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/task"
)

func TestRecorderOpensWhenItMust(t *testing.T) {
	home := t.TempDir()
	r := NewRecorder(home, Root{ID: "r", Command: "run", Started: time.Now()}, Options{})
	left, err := os.ReadDir(home)
	require.NoError(t, err)
	assert.Empty(t, left)

	require.NoError(t, r.Self(Execution{ID: "self", Root: "r", Task: strings.Repeat("x", 20_000)}))
	l, err := r.Ledger()
	require.NoError(t, err)
	again, err := r.Ledger()
	require.NoError(t, err)
	assert.Same(t, l, again)
	_, err = os.Stat(filepath.Join(home, "ledger", "r.journal"))
	require.ErrorIs(t, err, os.ErrNotExist, "it has gone into the database")
	claim(t, l, Execution{ID: "child", Parent: "self", Root: "r"})

	other := open(t, home)
	run, _, _, err := other.Show("self")
	require.NoError(t, err)
	assert.Equal(t, task.Running, run.Status)
	assert.Len(t, run.Task, 10_000)
	require.NoError(t, r.SelfEnded("self", done("", "the answer")))
	require.NoError(t, r.Close())
	require.NoError(t, r.Close())
	_, _, res, err := other.Show("self")
	require.NoError(t, err)
	assert.Equal(t, "the answer", res.Output)
	run, _, _, err = other.Show("child")
	require.NoError(t, err)
	assert.Equal(t, task.Interrupted, run.Status)
}

func TestRecorderWithTheDatabaseOpen(t *testing.T) {
	home := t.TempDir()
	r := NewRecorder(home, Root{ID: "r"}, Options{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			_, err := r.Ledger()
			assert.NoError(t, err)
		})
	}
	all.Wait()
	require.NoError(t, r.Self(Execution{ID: "self", Root: "r"}))
	require.NoError(t, r.SelfEnded("self", done("", "x")))
	require.NoError(t, r.Close())
	left, err := os.ReadDir(filepath.Join(home, "ledger"))
	require.NoError(t, err)
	assert.Len(t, left, 2, "neither a lock nor a journal: what opens it, and when it was pruned")
}

// A damaged line costs what is in it, and nothing else.
func TestDamagedJournal(t *testing.T) {
	home := t.TempDir()
	r := NewRecorder(home, Root{ID: "r"}, Options{})
	require.NoError(t, r.Self(Execution{ID: "self", Root: "r"}))
	_, err := r.journal.WriteString("\x00\x00\n{\"v\":1}\n{}\n[]\n{\"v\":1,\"result\":{\"id\":\"unknown\"}}\n")
	require.NoError(t, err)
	require.NoError(t, r.SelfEnded("self", done("", "x")))
	_, err = r.journal.WriteString(`{"v":1,"result":{"id":"se`)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	newer := filepath.Join(home, "ledger", "s.journal")
	require.NoError(t, os.WriteFile(newer, []byte("{\"v\":2,\"more\":1}\n"), 0o600))

	l := open(t, home)
	run, _, _, err := l.Show("self")
	require.NoError(t, err)
	assert.Equal(t, task.Completed, run.Status)
	journals, err := l.roots().Left(journalSuffix)
	require.NoError(t, err)
	assert.Equal(t, []string{"s"}, journals, "what a newer qq wrote is left to it")
}

func FuzzJournal(f *testing.F) {
	f.Add([]byte("{\"v\":1,\"claim\":{\"root\":{\"id\":\"r\"},\"execution\":{\"ID\":\"e\"}}}\n{\"v\":1,\"result\":{\"id\":\"e\",\"output\":\"eA==\"}}\n"))
	f.Add([]byte("{\"v\":2}\n\x00\n{\"v\":1,\"result\":{\"id\":\"e\",\"record\":{\"reads\":[]}}}\n{"))
	f.Fuzz(func(t *testing.T, text []byte) {
		lines, _ := readJournal(text)
		for _, e := range lines {
			once, err := json.Marshal(e)
			require.NoError(t, err, "what was read can be written")
			back, newer := readJournal(append(once, '\n'))
			require.Len(t, back, 1)
			assert.False(t, newer)
			again, err := json.Marshal(back[0])
			require.NoError(t, err)
			assert.Equal(t, string(once), string(again))
			if e.Result != nil {
				_, err := resultRow(e.Result.ID, "", e.Result.Record.Result, e.Time)
				require.NoError(t, err)
			}
		}
	})
}

// Who runs nothing but prompts does not fill the disk with journals.
func TestJournalsAreGathered(t *testing.T) {
	home := t.TempDir()
	for i := range maxJournals + 1 {
		id := fmt.Sprintf("prompt-%03d", i)
		r := NewRecorder(home, Root{ID: id, Started: time.Now()}, Options{})
		require.NoError(t, r.Self(Execution{ID: id, Root: id}))
		require.NoError(t, r.SelfEnded(id, done(id, "answer")))
		require.NoError(t, r.Close())
	}
	left, err := filepath.Glob(filepath.Join(home, "ledger", "*"+journalSuffix))
	require.NoError(t, err)
	assert.Len(t, left, 1)
	runs, err := open(t, home).List(Filter{})
	require.NoError(t, err)
	assert.Len(t, runs, maxJournals+1)
}

// What waited for a lock in vain is not waited for again by each task of a batch.
func TestRecorderThatCannotOpen(t *testing.T) {
	home := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		dir := placeOf(home, Options{}).roots()
		require.NoError(t, os.Mkdir(dir.Path, 0o700))
		other, err := dir.Alone(openingName)
		require.NoError(t, err)
		r := NewRecorder(home, Root{ID: "r"}, Options{Wait: 10 * time.Second})
		require.NoError(t, r.Self(Execution{ID: "self", Root: "r"}), "the journal needs nobody")
		start := time.Now()
		refused := func(want time.Duration, why string) {
			t.Helper()
			led, err := r.Ledger()
			tells(t, err, ErrLocked, "opening", "10s")
			assert.Nil(t, led)
			assert.Equal(t, want, time.Since(start).Round(time.Second), why)
		}
		refused(10*time.Second, "the first waits")
		for range 100 {
			refused(10*time.Second, "the others do not")
		}
		time.Sleep(9 * time.Second)
		refused(19*time.Second, "nor soon after")
		time.Sleep(time.Second)
		refused(30*time.Second, "then it is tried again")

		require.NoError(t, other.Release())
		refused(30*time.Second, "which nobody has tried yet")
		time.Sleep(10 * time.Second)
		l, err := r.Ledger()
		require.NoError(t, err, "it is as if nothing had been")
		run, _, _, err := l.Show("self")
		require.NoError(t, err)
		assert.Equal(t, task.Running, run.Status)
		require.NoError(t, r.Close())
	})
}

// All that begin at once fail at once, and what cannot be opened is not opened
// again to gather journals.
func TestManyThatCannotOpen(t *testing.T) {
	home := t.TempDir()
	require.NoError(t, os.WriteFile(Path(home), []byte(strings.Repeat("no database ", 1000)), 0o600))
	r := NewRecorder(home, Root{ID: "r"}, Options{})
	require.NoError(t, r.Self(Execution{ID: "self", Root: "r"}))
	for i := range maxJournals {
		require.NoError(t, os.WriteFile(filepath.Join(r.dir, fmt.Sprint(i)+journalSuffix), nil, 0o600))
	}
	_, first := r.Ledger()
	tells(t, first, ErrDamaged)
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			_, err := r.Ledger()
			assert.Same(t, first, err)
		})
	}
	all.Wait()
	require.NoError(t, r.Close())
}
