package ledger

import (
	"bufio"
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
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

	require.NoError(t, r.Claim(Execution{ID: "self", Root: "r", Task: strings.Repeat("x", 20_000)}))
	require.NoError(t, r.Claim(Execution{ID: "child", Parent: "self", Root: "r"}))
	require.NoError(t, r.Touch("child"))
	require.NoFileExists(t, Path(home), "nobody has asked")
	l, err := r.Ledger()
	require.NoError(t, err)
	again, err := r.Ledger()
	require.NoError(t, err)
	assert.Same(t, l, again)

	other := open(t, home)
	run, _, _, err := other.Show("self")
	require.NoError(t, err)
	assert.Equal(t, task.Running, run.Status)
	assert.Len(t, run.Task, 10_000)
	require.NoError(t, r.Finish("", "self", done("", "the answer")))
	require.NoError(t, r.Close())
	require.NoError(t, r.Close())
	require.NoError(t, other.refresh())
	_, _, res, err := other.Show("self")
	require.NoError(t, err)
	assert.Equal(t, "the answer", res.Output)
	run, _, _, err = other.Show("child")
	require.NoError(t, err)
	assert.Equal(t, task.Interrupted, run.Status)
	left, err = os.ReadDir(filepath.Join(home, "ledger"))
	require.NoError(t, err)
	assert.Len(t, left, 2, "neither a lock nor a journal: what opens it, and when it was pruned")
}

// Whoever looks while a root runs reads only what is new, and each line once.
func TestLiveJournalIsReadOn(t *testing.T) {
	home := t.TempDir()
	r := NewRecorder(home, Root{ID: "r"}, Options{})
	require.NoError(t, r.Begin(Batch{ID: "b", Root: "r", Dir: "/d", Started: time.Now()}))
	for i := range 5 {
		id := fmt.Sprint(i)
		require.NoError(t, r.Claim(Execution{ID: id, Root: "r", Batch: "b", Key: id}))
		r.Attempt(id, 1, time.Now(), task.Task{}.Ended(task.Broken, "x"))
		l, err := Open(home, Options{})
		require.NoError(t, err)
		var read int64
		require.NoError(t, l.db.QueryRow("SELECT bytes FROM journals WHERE root = 'r'").Scan(&read))
		info, err := os.Stat(r.journal("r"))
		require.NoError(t, err)
		assert.Equal(t, info.Size(), read)
		runs, err := l.List(Filter{Live: true})
		require.NoError(t, err)
		assert.Len(t, runs, i+1)
		_, attempts, _, err := l.Show(id)
		require.NoError(t, err)
		assert.Len(t, attempts, 1)
		require.NoError(t, l.Close())
	}
	// One that died before it had removed a journal that it had read.
	text, err := os.ReadFile(r.journal("r"))
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.NoError(t, open(t, home).Close())
	require.NoError(t, os.WriteFile(r.journal("r"), text, 0o600))
	l := open(t, home)
	var rows, left int
	require.NoError(t, l.db.QueryRow(`SELECT (SELECT count(*) FROM executions) + (SELECT count(*) FROM attempts) + (SELECT count(*) FROM batches),
(SELECT count(*) FROM journals)`).Scan(&rows, &left))
	assert.Equal(t, 5+5+1, rows)
	assert.Zero(t, left)
}

// Of two that go on with one batch, one does.
func TestOneRootWorksOnABatch(t *testing.T) {
	home := t.TempDir()
	const n = 8
	var all sync.WaitGroup
	var won atomic.Int32
	roots := make([]*Recorder, n)
	for i := range n {
		roots[i] = NewRecorder(home, Root{ID: fmt.Sprint(i)}, Options{})
		all.Go(func() {
			if err := roots[i].Begin(Batch{ID: "b", Root: fmt.Sprint(i)}); err == nil {
				won.Add(1)
			} else {
				assert.ErrorIs(t, err, ErrAtWork)
			}
		})
	}
	all.Wait()
	assert.EqualValues(t, 1, won.Load())
	for _, r := range roots {
		require.NoError(t, r.Close())
	}
	rows, err := open(t, home).Batches(Filter{})
	require.NoError(t, err)
	assert.Len(t, rows, 1)
	again := NewRecorder(home, Root{ID: "again"}, Options{})
	require.NoError(t, again.Begin(Batch{ID: "b", Root: "again"}))
	require.NoError(t, again.Close())
}

// What an earlier root did while this one looked for the batch is known.
func TestBeginKnowsTheLatest(t *testing.T) {
	home := t.TempDir()
	first, second := NewRecorder(home, Root{ID: "1"}, Options{}), NewRecorder(home, Root{ID: "2"}, Options{})
	require.NoError(t, first.Begin(Batch{ID: "b", Root: "1"}))
	l, err := second.Ledger()
	require.NoError(t, err)
	require.NoError(t, first.Claim(Execution{ID: "e", Batch: "b", Key: "k", Root: "1"}))
	require.NoError(t, first.Finish("", "e", done("", "x")))
	require.NoError(t, first.Close())
	require.NoError(t, second.Begin(Batch{ID: "b", Root: "2"}))
	past, err := l.Known("b", "k", 0)
	require.NoError(t, err)
	assert.True(t, past.Ended)
	require.NoError(t, second.Close())
}

// A folder need not have a name in UTF-8.
func TestBatchOfAnOddFolder(t *testing.T) {
	home := t.TempDir()
	r := NewRecorder(home, Root{ID: "r"}, Options{})
	require.NoError(t, r.Begin(Batch{ID: "b", Root: "r", Dir: "/\xff", Joblog: "/\xfe"}))
	require.NoError(t, r.Claim(Execution{ID: "e", Batch: "b", Root: "r"}))
	require.NoError(t, r.Close())
	l := open(t, home)
	last, err := l.Last("/\xff", "")
	require.NoError(t, err)
	assert.Equal(t, "b", last.ID)
	_, err = l.ByJoblog("/\xfe")
	require.NoError(t, err)
}

// A prompt of an older qq.
func TestFirstVersion(t *testing.T) {
	home := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(home, "ledger"), 0o700))
	text := `{"v":1,"time":"2026-01-02T03:04:05Z","claim":{"root":{"id":"r","pid":1,` +
		`"started":"2026-01-02T03:04:05Z","dir":"/d","command":"run"},` +
		`"process":"p","execution":{"ID":"e","Parent":"","Root":"r","Agent":"a","Task":"t","Dir":"/d","Nth":0,` +
		`"Queued":"2026-01-02T03:04:05Z"}}}` + "\n" +
		`{"v":1,"time":"2026-01-02T03:04:06Z","result":{"id":"e","record":{"status":"completed","success":true,` +
		`"reads":null},"output":"/wAg"}}` + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(home, "ledger", "r.journal"), []byte(text), 0o600))
	l := open(t, home)
	run, _, res, err := l.Show("e")
	require.NoError(t, err)
	assert.Equal(t, "\xff\x00 ", res.Output)
	assert.Equal(t, []any{task.Completed, "a", "r"}, []any{run.Status, run.Agent, run.Root})
	var dir string
	require.NoError(t, l.db.QueryRow("SELECT dir FROM roots WHERE id = 'r'").Scan(&dir))
	assert.Equal(t, "/d", dir)
}

// A damaged line costs what is in it, and nothing else.
func TestDamagedJournal(t *testing.T) {
	home := t.TempDir()
	r := NewRecorder(home, Root{ID: "r"}, Options{})
	require.NoError(t, r.Claim(Execution{ID: "self", Root: "r"}))
	_, err := r.out.Append([]byte("\x00\x00\n{\"v\":1}\n{}\n[]\n{\"v\":1,\"result\":{\"id\":\"unknown\"}}\n"))
	require.NoError(t, err)
	require.NoError(t, r.Finish("", "self", done("", "x")))
	_, err = r.out.Append([]byte(`{"v":1,"result":{"id":"se`))
	require.NoError(t, err)
	require.NoError(t, r.Close())
	newer := filepath.Join(home, "ledger", "s.journal")
	require.NoError(t, os.WriteFile(newer, []byte("{\"v\":3,\"more\":1}\n"), 0o600))

	l := open(t, home)
	run, _, _, err := l.Show("self")
	require.NoError(t, err)
	assert.Equal(t, task.Completed, run.Status)
	journals, err := l.roots.Left(journalSuffix)
	require.NoError(t, err)
	assert.Equal(t, []string{"s"}, journals, "what a newer qq wrote is left to it")
}

func FuzzJournal(f *testing.F) {
	f.Add([]byte("{\"v\":1,\"claim\":{\"root\":{\"id\":\"r\"},\"execution\":{\"ID\":\"e\"}}}\n{\"v\":1," +
		"\"result\":{\"id\":\"e\",\"output\":\"eA==\"}}\n"))
	f.Add([]byte("{\"v\":3}\n\x00\n{\"v\":2,\"result\":{\"id\":\"e\",\"record\":{\"reads\":[]}}}\n{"))
	f.Add([]byte("{\"v\":2,\"claim\":{\"execution\":{\"id\":\"e\"}}}\n{\"v\":2,\"touch\":\"e\"}\n{\"v\":2," +
		"\"attempt\":{\"id\":\"e\"}}\n"))
	f.Add([]byte("{\"v\":2,\"begin\":{\"id\":\"b\",\"raw\":[\"/w==\",\"\"]}}\n{\"v\":2," +
		"\"end\":{\"batch\":\"b\"}}\n{\"v\":2,\"root\":{\"id\":\"r\"}}\n"))
	f.Add([]byte("{\"v\":2,\"claim\":{\"execution\":{\"id\":\"cycle\",\"parent\":\"cycle\"}}}\n" +
		"{\"v\":2,\"touch\":\"cycle\"}\n"))
	l := open(f, f.TempDir())
	f.Fuzz(func(t *testing.T, text []byte) {
		in, read := bufio.NewReader(bytes.NewReader(text)), int64(0)
		for {
			e := decodeNext(in, read)
			read = e.end
			if e.err != nil {
				break
			}
			once, err := e.encode()
			require.NoError(t, err, "what was read can be written")
			back := decodeNext(bufio.NewReader(bytes.NewReader(once)), 0)
			require.NoError(t, back.err)
			again, err := back.encode()
			require.NoError(t, err)
			assert.Equal(t, string(once), string(again))
			require.NoError(t, l.update(func(tx *sql.Tx) error {
				return (&indexer{place: l.place, tx: tx, statements: map[string]*sql.Stmt{}}).line(e.line)
			}))
		}
		assert.LessOrEqual(t, read, int64(len(text)))
	})
}

// Who runs nothing but prompts does not fill the disk with journals.
func TestJournalsAreGathered(t *testing.T) {
	home := t.TempDir()
	for i := range maxJournals + 1 {
		id := fmt.Sprintf("prompt-%03d", i)
		r := NewRecorder(home, Root{ID: id, Started: time.Now()}, Options{})
		require.NoError(t, r.Claim(Execution{ID: id, Root: id}))
		require.NoError(t, r.Finish("", id, done(id, "answer")))
		require.NoError(t, r.Close())
	}
	left, err := filepath.Glob(filepath.Join(home, "ledger", "*"+journalSuffix))
	require.NoError(t, err)
	assert.Len(t, left, 1)
	runs, err := open(t, home).List(Filter{})
	require.NoError(t, err)
	assert.Len(t, runs, maxJournals+1)
}

// What cannot be opened is told to all at once, keeps nobody from being recorded, and is
// not opened again to gather journals.
func TestManyThatCannotOpen(t *testing.T) {
	home := t.TempDir()
	require.NoError(t, os.WriteFile(Path(home), []byte(strings.Repeat("no database ", 1000)), 0o600))
	r := NewRecorder(home, Root{ID: "r"}, Options{})
	require.NoError(t, r.Claim(Execution{ID: "self", Root: "r"}))
	for i := range maxJournals {
		require.NoError(t, os.WriteFile(filepath.Join(r.roots.Path, fmt.Sprint(i)+journalSuffix), nil, 0o600))
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
	require.NoError(t, r.Finish("", "self", done("", "x")))
	require.NoError(t, r.Close())
}

// What another holds is waited for once.
func TestRecorderThatCannotOpen(t *testing.T) {
	home := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		dir := placeIn(home, Options{}).roots
		require.NoError(t, os.Mkdir(dir.Path, 0o700))
		other, err := dir.Alone(openingName)
		require.NoError(t, err)
		r := NewRecorder(home, Root{ID: "r"}, Options{Wait: 10 * time.Second})
		require.NoError(t, r.Claim(Execution{ID: "self", Root: "r"}), "the journal needs nobody")
		start := time.Now()
		for range 100 {
			led, err := r.Ledger()
			tells(t, err, ErrLocked, "opening", "10s")
			assert.Nil(t, led)
			assert.Equal(t, 10*time.Second, time.Since(start).Round(time.Second))
		}
		require.NoError(t, other.Release())
		require.NoError(t, r.Finish("", "self", done("", "x")))
		require.NoError(t, r.Close())
	})
}
