package ledger

import (
	"cmp"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver

	"qq/internal/record/ledger/alive"
)

const (
	defaultWait = 30 * time.Second
	connections = 4
	// applicationID marks the database as a ledger; the first step of the schema
	// sets it.
	applicationID = 1903258727
	// openingName is the file whose lock is held by who opens the ledger.
	openingName = "opening"
)

//go:embed schema/*.sql
var schemas embed.FS

// Options are how a ledger is kept.
type Options struct {
	Keep time.Duration // how long Prune keeps what has ended; 0 is for ever
	Wait time.Duration // for a locked database; 0 is 30 s
}

// Ledger is the open record. Its methods may be called by several goroutines at
// once.
type Ledger struct {
	place
	now func() time.Time
	db  *sql.DB

	mu         sync.Mutex
	statements map[string]*sql.Stmt // by their text
}

// place is where a ledger is.
type place struct {
	file  string // the database
	keep  time.Duration
	roots alive.Dir // the folder of the locks and the journals
}

// Path is the database in the folder home.
func Path(home string) string { return filepath.Join(home, "ledger.db") }

func placeOf(home string, o Options) place {
	if whole, err := filepath.Abs(home); err == nil { // else nothing can be opened there
		home = whole
	}
	roots := alive.Dir{Path: filepath.Join(home, "ledger"), Wait: cmp.Or(o.Wait, defaultWait)}
	return place{Path(home), o.Keep, roots}
}

// Open opens the ledger in the folder home. It is made when there is none, brought up to
// date when it is older, and takes in the journals.
func Open(home string, o Options) (*Ledger, error) { return placeOf(home, o).open() }

func (p place) open() (*Ledger, error) {
	l := &Ledger{place: p, now: time.Now, statements: map[string]*sql.Stmt{}}
	if err := l.load(); err != nil {
		_ = l.Close() // the first error is the one to tell
		return nil, l.fault("open the ledger", err)
	}
	return l, nil
}

func (l *Ledger) load() error {
	if err := os.MkdirAll(l.roots.Path, 0o700); err != nil {
		return err
	}
	alone, err := l.roots.Alone(openingName)
	if err != nil {
		return err
	}
	defer alone.Release()
	// SQLite gives the files beside the database the same mode. One that exists is not
	// opened: closing it would take away the locks of whoever has it open in this process.
	f, err := os.OpenFile(l.file, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if l.db, err = sql.Open("sqlite", l.dsn()); err != nil {
		return err
	}
	l.db.SetMaxOpenConns(1) // a failed step is closed with its connection
	l.db.SetMaxIdleConns(connections)
	if err := l.prepare(l.db); err != nil {
		return err
	}
	l.db.SetMaxOpenConns(connections)
	return l.takeIn()
}

// readable returns an error when the file of the database is none. It looks at the first
// bytes only, so it costs next to nothing: nobody should find out after a long batch.
func (p place) readable() error {
	const magic = "SQLite format 3\x00"
	f, err := os.Open(p.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	start := make([]byte, len(magic))
	n, err := f.Read(start)
	if err == io.EOF {
		err = nil // an empty database
	}
	if err == nil && string(start[:n]) != magic[:n] {
		err = problem(ErrDamaged, nil, "open the ledger: "+p.file+" is damaged: file is not a database", hintDamaged)
	}
	return errors.Join(err, f.Close())
}

// dsn is the address of the database, with the settings of its connections.
func (p place) dsn() string {
	return (&url.URL{Scheme: "file", Path: p.file, RawQuery: url.Values{
		"mode":          {"rw"},
		"_txlock":       {"immediate"},
		"_busy_timeout": {fmt.Sprint(p.roots.Wait.Milliseconds())},
		"_pragma": {"cache_size(-8000)", "temp_store(memory)", "wal_autocheckpoint(4000)",
			"journal_size_limit(67108864)"},
	}.Encode()}).String()
}

// prepare brings the database up to date.
func (p place) prepare(db *sql.DB) error {
	steps, err := fs.Glob(schemas, "schema/*.sql") // sorted
	if err != nil {
		return err
	}
	var version, application, tables int
	err = db.QueryRow(`SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema)
FROM pragma_user_version, pragma_application_id`).Scan(&version, &application, &tables)
	if err != nil {
		return err
	}
	const otherFolder = ", or let QQ_HOME name another folder" + orNone
	if tables > 0 && (version == 0 || application != applicationID) {
		foreign := "open the ledger: " + p.file + " is the database of another program"
		return problem(ErrDamaged, nil, foreign, "move it away"+otherFolder)
	}
	if version < 0 {
		damaged := fmt.Sprintf("open the ledger: %s is damaged: there is no schema %d", p.file, version)
		return problem(ErrDamaged, nil, damaged, hintDamaged)
	}
	if version > len(steps) {
		const newer = "open the ledger: %s was written by a newer qq (schema %d, this one knows %d)"
		return problem(ErrNewer, nil, fmt.Sprintf(newer, p.file, version, len(steps)), "use the newer qq"+otherFolder)
	}
	if version == 0 { // before the first page is written
		if _, err := db.Exec("PRAGMA auto_vacuum = incremental"); err != nil {
			return err
		}
	}
	var mode string
	if err := db.QueryRow("PRAGMA journal_mode = wal").Scan(&mode); err != nil {
		return err
	}
	if !strings.EqualFold(mode, "wal") {
		return fmt.Errorf("this file system allows no write-ahead log (journal mode %s)", mode)
	}
	for i := version; i < len(steps); i++ { // each whole or not at all: after an error db is closed
		script, err := schemas.ReadFile(steps[i])
		if err == nil {
			_, err = db.Exec(fmt.Sprintf("BEGIN IMMEDIATE;\n%s;\nPRAGMA user_version = %d;\nCOMMIT", script, i+1))
		}
		if err != nil {
			return fmt.Errorf("bring it to schema %d: %w", i+1, err)
		}
	}
	return nil
}

// update runs f within a transaction that writes.
func (l *Ledger) update(f func(*sql.Tx) error) error {
	tx, err := l.db.Begin()
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback() // the first error is the one to tell
		return err
	}
	return tx.Commit()
}

// prepared is the statement query.
func (l *Ledger) prepared(query string) (*sql.Stmt, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.statements[query]; s != nil {
		return s, nil
	}
	s, err := l.db.Prepare(query)
	if err == nil {
		l.statements[query] = s
	}
	return s, err
}

// Close closes the database.
func (l *Ledger) Close() error {
	if l.db == nil {
		return nil
	}
	return l.fault("close the ledger", l.db.Close()) // with its statements
}
