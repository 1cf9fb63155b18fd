// Package schema has the steps of the database schema of the ledger, and reads from the header of a database file which
// of them it has.
package schema

import (
	"database/sql"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ApplicationID marks an SQLite database as a ledger of qq. The first step sets it.
const ApplicationID = 1903258727

//go:embed *.sql
var steps embed.FS

// names returns the files of the steps, in their order.
func names() []string {
	all, _ := fs.Glob(steps, "*.sql") // the pattern is right
	return all
}

// Latest is the number of the last step.
func Latest() int { return len(names()) }

// Migrate brings a database from the step with the number from to the latest. After an error the caller closes db,
// which rolls the failed step back.
func Migrate(db *sql.DB, from int) error {
	for i, name := range names() {
		if i < from {
			continue
		}
		script, err := steps.ReadFile(name)
		if err == nil {
			_, err = db.Exec(fmt.Sprintf("BEGIN IMMEDIATE;\n%s;\nPRAGMA user_version = %d;\nCOMMIT", script, i+1))
		}
		if err != nil {
			return fmt.Errorf("bring it to schema %d: %w", i+1, err)
		}
	}
	return nil
}

// Header is what the header of a database file says: see https://sqlite.org/fileformat.html#the_database_header.
type Header struct {
	Version     int // number of the last step that the database has
	Application int
	Used        bool   // it has tables
	Damage      string // why the file is no whole database; empty if it seems to be one
}

// ReadHeader reads the header of the database in f, whose file info that is.
func ReadHeader(f *os.File, info os.FileInfo) (Header, error) {
	h := make([]byte, 100)
	n, err := io.ReadFull(f, h)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return Header{}, err
	}
	number := func(at int) int { return int(int32(binary.BigEndian.Uint32(h[at:]))) }
	page := int(h[16])<<8 | int(h[17])<<16        // a power of two; 1 stands for 65536
	switch counted := number(24) == number(92); { // else an old program wrote the number of pages
	case n < len(h), string(h[:16]) != "SQLite format 3\x00", page < 512, page&(page-1) != 0,
		string(h[21:24]) != "\x40\x20\x20":
		return Header{Damage: "file is not a database"}, nil
	case counted && info.Size() < int64(page)*int64(number(28)) && !hasLog(f.Name()):
		return Header{Damage: "its end is missing"}, nil
	}
	return Header{Version: number(60), Application: number(68), Used: number(40) != 0}, nil
}

// hasLog reports whether a write-ahead log is beside the database. Pages that the database lacks, because copying them
// from the log was broken off, by a full disk or a kill, are in the log then: SQLite reads them there.
func hasLog(file string) bool {
	info, err := os.Stat(file + "-wal")
	return err == nil && info.Size() > 0
}
