package ledger

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/record/ledger/schema"
	"qq/pkg/task"
)

// tells checks that err is of that state and that its text is a problem and a hint.
func tells(t *testing.T, err, state error, words ...string) {
	t.Helper()
	require.ErrorIs(t, err, state)
	problem, hint, two := strings.Cut(err.Error(), "\nhint: ")
	assert.True(t, two, err.Error())
	assert.NotContains(t, problem+hint, "\n")
	for _, w := range words {
		assert.Contains(t, err.Error(), w)
	}
}

func TestFullDatabase(t *testing.T) {
	l := open(t, t.TempDir())
	claim(t, l, Execution{ID: "e"})
	l.db.SetMaxOpenConns(1) // the limit is one of a connection
	limit := func(pages int) {
		require.NoError(t, l.db.QueryRow(fmt.Sprintf("PRAGMA max_page_count = %d", pages)).Scan(new(int)))
	}
	limit(1)
	r := done("", strings.Repeat("x", 1<<20))
	by := NewRecorder(l.home, Root{ID: "r"}, Options{})
	by.Attempt("e", 1, time.Now(), task.Task{}.Ended(task.Broken, "x"))
	require.NoError(t, by.Finish("", "e", r), "the journal has room")
	require.NoError(t, by.Close())
	tells(t, l.fault("read the journals", l.refresh()), ErrFull, "read the journals", "free some space on it",
		"then repeat the command")
	_, _, got, err := l.Show("e")
	require.NoError(t, err)
	assert.Zero(t, got)

	limit(1 << 30)
	require.NoError(t, l.refresh(), "it goes on when there is room")
	_, attempts, got, err := l.Show("e")
	require.NoError(t, err)
	assert.Equal(t, r, got)
	assert.Len(t, attempts, 1)
	sound(t, l)
}

func TestDiskThatCannotBeUsed(t *testing.T) {
	p := placeIn(t.TempDir(), Options{Wait: 3 * time.Second})
	tells(t, p.fault("act", &os.PathError{Op: "open", Path: "x", Err: syscall.EACCES}), ErrDenied, "act: ",
		"--no-ledger")
	tells(t, p.fault("act", syscall.EROFS), ErrReadOnly, "--no-ledger")
	tells(t, p.fault("act", syscall.EDQUOT), ErrFull)
	other := p.fault("act", errors.New("odd"))
	assert.Equal(t, "act: odd\nhint: see whether "+filepath.Dir(p.file)+" can be used, or go on without a record: "+
		"--no-ledger", other.Error())
	assert.NoError(t, p.fault("act", nil))

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := Open(file, Options{})
	require.ErrorIs(t, err, syscall.ENOTDIR)
	tells(t, err, ErrNoFolder, "let QQ_HOME name a folder", "--no-ledger")
	assert.Equal(t, task.Misused, task.StatusOf(err))
	if os.Getuid() == 0 {
		t.Skip("root may write anywhere")
	}
	locked := t.TempDir()
	require.NoError(t, os.Chmod(locked, 0o500))
	_, err = Open(locked, Options{})
	tells(t, err, ErrDenied)
}

func TestLockedForLong(t *testing.T) {
	home := t.TempDir()
	l, err := openBook(home, Options{Wait: 100 * time.Millisecond})
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	other, err := sql.Open("sqlite", l.dsn())
	require.NoError(t, err)
	defer other.Close()
	tx, err := other.Begin() // immediate: nobody else writes
	require.NoError(t, err)
	tells(t, l.Claim(Execution{ID: "e"}), ErrLocked, "100ms", "fuser")
	require.NoError(t, tx.Rollback())
	require.NoError(t, l.Claim(Execution{ID: "e"}))

	alone, err := l.roots.Alone(openingName)
	require.NoError(t, err)
	_, err = Open(home, Options{Wait: 50 * time.Millisecond})
	tells(t, err, ErrLocked, "opening", "50ms")
	require.NoError(t, alone.Release())
}

func TestDamagedDatabase(t *testing.T) {
	t.Run("no database", func(t *testing.T) {
		home := t.TempDir()
		text := []byte(strings.Repeat("this is a letter to my bank. ", 500))
		require.NoError(t, os.WriteFile(Path(home), text, 0o600))
		_, err := Open(home, Options{})
		tells(t, err, ErrDamaged, "move it away", "--no-ledger")
		left, err := os.ReadFile(Path(home))
		require.NoError(t, err)
		assert.Equal(t, text, left, "it is left as it is")
	})
	t.Run("malformed", func(t *testing.T) {
		home := t.TempDir()
		l, err := openBook(home, Options{})
		require.NoError(t, err)
		require.NoError(t, l.Enter(Root{ID: "r"}))
		for i := range 200 {
			claim(t, l, Execution{ID: fmt.Sprint(i), Root: "r", Task: strings.Repeat("x", 500)})
		}
		require.NoError(t, l.Close())
		whole, err := os.ReadFile(Path(home))
		require.NoError(t, err)
		for i := 4096; i < len(whole); i++ { // all but the first page, which is right
			whole[i] = 0xee
		}
		require.NoError(t, os.WriteFile(Path(home), whole, 0o600))
		l, err = openBook(home, Options{})
		if err == nil {
			defer l.Close()
			_, err = l.List(Filter{})
		}
		tells(t, err, ErrDamaged)
	})
	t.Run("of another program", func(t *testing.T) {
		home := t.TempDir()
		require.NoError(t, os.WriteFile(Path(home), nil, 0o600))
		db, err := sql.Open("sqlite", Path(home))
		require.NoError(t, err)
		_, err = db.Exec("CREATE TABLE accounts (n)")
		require.NoError(t, errors.Join(err, db.Close()))
		_, err = Open(home, Options{})
		tells(t, err, ErrDamaged, "another program")
	})
	t.Run("schema below none", func(t *testing.T) {
		home := t.TempDir()
		require.NoError(t, os.WriteFile(Path(home), nil, 0o600))
		db, err := sql.Open("sqlite", Path(home))
		require.NoError(t, err)
		for _, made := range []string{"PRAGMA user_version = -1",
			fmt.Sprintf("PRAGMA application_id = %d; CREATE TABLE runs (n)", schema.ApplicationID)} {
			_, err = db.Exec(made)
			require.NoError(t, err)
			_, err = Open(home, Options{})
			tells(t, err, ErrDamaged, "no schema -1", "move it away", "--no-ledger")
		}
		require.NoError(t, db.Close())
	})
}

// TestBeginReadsTheHeader: a batch does not begin on a database that nobody could read
// afterwards. One that can be read is not refused.
func TestBeginReadsTheHeader(t *testing.T) {
	home := t.TempDir()
	require.NoError(t, filled(t, home, Options{}).Close())
	whole, err := os.ReadFile(Path(home))
	require.NoError(t, err)
	require.Greater(t, len(whole), 9000)
	with := func(at int, b ...byte) []byte {
		return append(append(slices.Clone(whole[:at]), b...), whole[at+len(b):]...)
	}
	for name, c := range map[string]struct {
		file  []byte
		state error
		says  string
	}{
		"whole":       {whole, nil, ""},
		"empty":       {nil, nil, ""},
		"first bytes": {whole[:50], ErrDamaged, "not a database"},
		"no header": {
			append(slices.Clone(whole[:16]), bytes.Repeat([]byte{0xee}, 9000)...), ErrDamaged, "not a database",
		},
		"cut":             {whole[:9000], ErrDamaged, "its end is missing"},
		"newer":           {with(60, 0, 0, 0, 99), ErrNewer, "schema 99"},
		"another program": {with(68, 1, 2, 3, 4), ErrDamaged, "another program"},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			require.NoError(t, os.WriteFile(Path(home), c.file, 0o600))
			r := NewRecorder(home, Root{ID: "r"}, Options{})
			err := r.Begin(Batch{ID: "b", Root: "r", Dir: "/d"})
			require.NoError(t, r.Close())
			if c.state == nil {
				assert.NoError(t, err)
				return
			}
			tells(t, err, c.state, Path(home), c.says, "--no-ledger")
		})
	}
}

// TestBrokenCheckpoint: when copying pages from the write-ahead log was broken off, as by a full disk or a kill, the
// database is shorter than its header says. The log has the rest: nothing is damaged.
func TestBrokenCheckpoint(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	by := NewRecorder(from, Root{ID: "r"}, Options{})
	require.NoError(t, by.Begin(Batch{ID: "b", Root: "r", Dir: "/d"}))
	require.NoError(t, by.Claim(Execution{ID: "e", Root: "r", Batch: "b", Key: "k", Task: strings.Repeat("x", 500)}))
	require.NoError(t, by.Finish("k", "e", done("", "that")))
	require.NoError(t, by.Close())
	l, err := openBook(from, Options{})
	require.NoError(t, err)
	want, err := l.Known("b", "k", 0)
	require.NoError(t, err)
	require.True(t, want.Ended)
	log, err := os.ReadFile(Path(from) + "-wal")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	whole, err := os.ReadFile(Path(from))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(Path(to), whole[:4096], 0o600)) // the first page is copied first
	require.NoError(t, os.WriteFile(Path(to)+"-wal", log, 0o600))

	r := NewRecorder(to, Root{ID: "r"}, Options{})
	require.NoError(t, r.Begin(Batch{ID: "other", Root: "r", Dir: "/d"}))
	require.NoError(t, r.Close())
	l, err = openBook(to, Options{})
	require.NoError(t, err)
	defer l.Close()
	got, err := l.Known("b", "k", 0)
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

// TestSchemaStepsStay: a step that somebody may have taken is not changed any more.
func TestSchemaStepsStay(t *testing.T) {
	for name, want := range map[string]string{
		"001.sql": "8dbc249cff3beb19f62fb013e7676345a1e872381160c6fbf23f7e84f38b258a",
		"002.sql": "a9ce2369ee56b97f2c0dd1973e3c015bfda5873d408bc209985e4c25e49dc55f",
	} {
		step, err := os.ReadFile("schema/" + name)
		require.NoError(t, err)
		assert.Equal(t, want, fmt.Sprintf("%x", sha256.Sum256(step)), "add a step: the ledgers of others have this one")
	}
}

// TestOlderSchema: what an older qq wrote is brought up to date, and nothing is lost.
func TestOlderSchema(t *testing.T) {
	home := t.TempDir()
	require.NoError(t, os.WriteFile(Path(home), nil, 0o600))
	db, err := sql.Open("sqlite", Path(home))
	require.NoError(t, err)
	first, err := os.ReadFile("schema/001.sql")
	require.NoError(t, err)
	_, err = db.Exec(string(first) + ";PRAGMA user_version = 1")
	require.NoError(t, err)
	_, err = db.Exec(`INSERT INTO batches (id, root, dir, joblog, count, started) VALUES ('b', 'r', '/d', '', 1, 1);
INSERT INTO executions (id, parent, batch, root, session, agent, model, key, dir, nth, idx, depth, queued, claimed, task)
VALUES ('e', '', 'b', 'r', '', 'default', '', 'k', '/d', 0, 0, 1, 1, 1, 'what');
INSERT INTO results VALUES (1, 'completed', 1, 2, 1, 0, 0, 0, NULL, '', NULL, '{"status":"completed","success":true}', 'that')`)
	require.NoError(t, errors.Join(err, db.Close()))

	for _, want := range []task.Status{task.Interrupted, task.Completed} {
		l, err := openBook(home, Options{})
		require.NoError(t, err)
		rows, err := l.Batches(Filter{})
		require.NoError(t, err)
		require.Len(t, rows, 1)
		assert.Equal(t, want, rows[0].Status)
		past, err := l.Known("b", "k", 0)
		require.NoError(t, err)
		assert.True(t, past.Ended)
		assert.Equal(t, "that", past.Result.Output)
		var version int
		require.NoError(t, l.db.QueryRow("PRAGMA user_version").Scan(&version))
		assert.Equal(t, schema.Latest(), version)
		require.NoError(t, l.End("b", "r", task.Completed, task.Usage{InputTokens: 2, OutputTokens: 1}))
		require.NoError(t, l.Close())
	}
}

func TestNewerSchema(t *testing.T) {
	home := t.TempDir()
	l, err := Open(home, Options{})
	require.NoError(t, err)
	_, err = l.db.Exec("PRAGMA user_version = 99")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	_, err = Open(home, Options{})
	tells(t, err, ErrNewer, "schema 99", "newer qq")
}

// asked asks everything of a ledger with the run 7 of the batch b.
func asked(l *book) map[string]error {
	errs := map[string]error{}
	_, errs["List"] = l.List(Filter{})
	_, _, _, errs["Show"] = l.Show("7")
	_, errs["Tree"] = l.Tree("b")
	_, errs["Batches"] = l.Batches(Filter{})
	_, errs["Last"] = l.Last("/d", "")
	_, errs["Find"] = l.Find("b")
	_, errs["ByJoblog"] = l.ByJoblog("/j")
	_, errs["Known"] = l.Known("b", "7", 0)
	_, _, errs["Recall"] = l.Recall("7")
	_, _, errs["Owner"] = l.Owner("7")
	return errs
}

// filled is a ledger with 200 runs, all of whose pages are in the one file.
func filled(t *testing.T, home string, o Options) *book {
	t.Helper()
	by := NewRecorder(home, Root{ID: "r"}, o)
	require.NoError(t, by.Begin(Batch{ID: "b", Root: "r", Dir: "/d", Joblog: "/j"}))
	for i := range 200 {
		id := fmt.Sprint(i)
		require.NoError(t, by.Claim(Execution{ID: id, Root: "r", Batch: "b", Key: id, Task: strings.Repeat("x", 500)}))
		r := done("", strings.Repeat("x", 500))
		r.Reads = []task.Read{}
		require.NoError(t, by.Finish(id, id, r))
	}
	require.NoError(t, by.Close())
	l, err := openBook(home, o)
	require.NoError(t, errors.Join(err, l.Close())) // all pages are in the one file
	l, err = openBook(home, o)
	require.NoError(t, err)
	return l
}

func TestDamagedWhileOpen(t *testing.T) {
	home := t.TempDir()
	l := filled(t, home, Options{Keep: time.Nanosecond})
	whole, err := os.ReadFile(Path(home))
	require.NoError(t, err)
	for i := range whole {
		if i >= 4096 {
			whole[i] = 0xee
		}
	}
	require.NoError(t, os.WriteFile(Path(home), whole, 0o600))
	errs := asked(l)
	_, errs["Clear"] = l.Clear(Filter{})
	_, errs["Prune"] = l.Prune()
	errs["Claim"] = l.Claim(Execution{ID: "new"})
	errs["Begin"] = l.Begin(Batch{ID: "new"})
	errs["Finish"] = l.Finish("8", done("", "x"))
	for name, err := range errs {
		t.Run(name, func(t *testing.T) { tells(t, err, ErrDamaged, Path(home), "--no-ledger") })
	}
	if err := l.Close(); err != nil {
		tells(t, err, ErrDamaged)
	}
}

// Another program that has the database for itself.
func TestLockedForReaders(t *testing.T) {
	home := t.TempDir()
	require.NoError(t, filled(t, home, Options{}).Close())
	p := placeIn(home, Options{Wait: 30 * time.Millisecond})
	other, err := sql.Open("sqlite", p.dsn())
	require.NoError(t, err)
	defer other.Close()
	other.SetMaxOpenConns(1)
	_, err = other.Exec("PRAGMA locking_mode = exclusive; BEGIN EXCLUSIVE; DELETE FROM attempts; COMMIT")
	require.NoError(t, err)

	l := &book{Ledger: &Ledger{place: p, statements: map[string]*sql.Stmt{}}}
	l.db, err = sql.Open("sqlite", l.dsn())
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	for name, err := range asked(l) {
		t.Run(name, func(t *testing.T) { tells(t, err, ErrLocked, "30ms", "fuser") })
	}
	require.NoError(t, other.Close())
	for name, err := range asked(l) {
		if name != "Owner" {
			assert.NoError(t, err, name)
		}
	}
}
