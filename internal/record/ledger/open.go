package ledger

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	_ "modernc.org/sqlite" // registers the driver

	"qq/internal/record/ledger/alive"
	"qq/internal/record/ledger/schema"
	"qq/pkg/regular"
)

const (
	defaultWait = 30 * time.Second
	connections = 4
	// openingName is the lock file that a process holds while it opens the ledger or indexes
	// journals.
	openingName = "opening"
)

// Options are the settings of a ledger.
type Options struct {
	Keep time.Duration // how long Prune keeps finished runs; 0 means for ever
	Wait time.Duration // how long to wait for a locked database; 0 means 30 s
}

// Ledger is the open database that indexes the journals. Its methods may be called by
// several goroutines at once.
type Ledger struct {
	place
	now func() time.Time
	db  *sql.DB

	mu         sync.Mutex
	statements map[string]*sql.Stmt // by their text
}

// place is the location of a ledger, with its settings.
type place struct {
	file  string        // path of the database
	keep  time.Duration // see [Options]
	roots alive.Dir     // the folder of the locks and the journals
}

// Path returns the path of the database in the folder home.
func Path(home string) string { return filepath.Join(home, "ledger.db") }

// Journals returns the path of the folder of the journals in the folder home.
func Journals(home string) string { return filepath.Join(home, "ledger") }

// Begun reports whether anything was ever recorded in the folder home.
func Begun(home string) bool {
	_, none := os.Stat(Journals(home))
	_, noIndex := os.Stat(Path(home))
	return !errors.Is(none, fs.ErrNotExist) || !errors.Is(noIndex, fs.ErrNotExist)
}

// placeIn returns the location of the ledger in the folder home.
func placeIn(home string, o Options) place {
	if whole, err := filepath.Abs(home); err == nil { // else opening fails later
		home = whole
	}
	roots := alive.Dir{Path: Journals(home), Wait: cmp.Or(o.Wait, defaultWait)}
	return place{Path(home), o.Keep, roots}
}

// Open opens the ledger in the folder home, and indexes the new lines of all journals. It
// creates a missing database and migrates an older one.
func Open(home string, o Options) (*Ledger, error) { return placeIn(home, o).open() }

// open opens the ledger at p.
func (p place) open() (*Ledger, error) {
	l := &Ledger{place: p, now: time.Now, statements: map[string]*sql.Stmt{}}
	if err := l.load(); err != nil {
		_ = l.Close() // the first error matters more
		return nil, l.fault("open the ledger", err)
	}
	return l, nil
}

// load opens and prepares the database, and indexes the journals.
func (l *Ledger) load() error {
	if err := os.MkdirAll(l.roots.Path, 0o700); err != nil {
		return err
	}
	alone, err := l.roots.Alone(openingName)
	if err != nil {
		return err
	}
	defer alone.Release()
	// The new file is private, and SQLite gives the files beside it the same mode. An existing
	// database is not opened here: closing it would drop the locks that this process has on it
	// elsewhere.
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
	l.db.SetMaxOpenConns(1) // so that closing db rolls back a failed migration
	l.db.SetMaxIdleConns(connections)
	if err := l.prepare(l.db); err != nil {
		return err
	}
	l.db.SetMaxOpenConns(connections)
	return l.indexJournals()
}

// readable returns an error if the database file is not a ledger that this version can open.
// It reads only the header of the file, so that a long batch can check this before it
// starts.
func (p place) readable() error {
	f, info, err := regular.Open(p.file, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if info.Size() == 0 { // an empty file is an empty database
		return nil
	}
	h, err := schema.ReadHeader(f, info)
	if err != nil {
		return err
	}
	if h.Damage != "" {
		return problem(ErrDamaged, nil, "open the ledger: "+p.file+" is damaged: "+h.Damage, hintDamaged)
	}
	return p.known(h.Version, h.Application, h.Used)
}

// known returns an error unless the database is a ledger of this version or an older one.
// version and application come from its header; used tells whether it has tables.
func (p place) known(version, application int, used bool) error {
	const otherFolder = ", or let QQ_HOME name another folder" + orNone
	switch {
	case used && (version == 0 || application != schema.ApplicationID):
		foreign := "open the ledger: " + p.file + " is the database of another program"
		return problem(ErrDamaged, nil, foreign, "move it away"+otherFolder)
	case version < 0:
		damaged := fmt.Sprintf("open the ledger: %s is damaged: there is no schema %d", p.file, version)
		return problem(ErrDamaged, nil, damaged, hintDamaged)
	case version > schema.Latest():
		const newer = "open the ledger: %s was written by a newer qq (schema %d, this one knows %d)"
		return problem(ErrNewer, nil, fmt.Sprintf(newer, p.file, version, schema.Latest()),
			"use the newer qq"+otherFolder)
	}
	return nil
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

// prepare creates the tables of a new database and migrates an older one.
func (p place) prepare(db *sql.DB) error {
	var version, application, tables int
	err := db.QueryRow(`SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema)
FROM pragma_user_version, pragma_application_id`).Scan(&version, &application, &tables)
	if err != nil {
		return err
	}
	if err := p.known(version, application, tables > 0); err != nil {
		return err
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
	return schema.Migrate(db, version)
}

// update runs f in a write transaction, and rolls back if f returns an error.
func (l *Ledger) update(f func(*sql.Tx) error) error {
	tx, err := l.db.Begin()
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback() // the first error matters more
		return err
	}
	return tx.Commit()
}

// prepared returns the prepared statement for query, which is kept until the ledger is
// closed.
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
