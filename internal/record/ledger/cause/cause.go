// Package cause tells why a database could not be read or written: its disk, its permissions, a lock or damage.
package cause

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
)

// What can be wrong with the files of a ledger. Callers tell them apart with errors.Is.
var (
	ErrFull     = errors.New("disk full")
	ErrReadOnly = errors.New("read-only disk")
	ErrDenied   = errors.New("permission denied")
	ErrNoFolder = errors.New("no folder")
	ErrLocked   = errors.New("locked")
	ErrDamaged  = errors.New("damaged")
)

// noRoom is the free space in bytes below which a failed write is taken for a full disk.
const noRoom = 1 << 20

// Of classifies err, an error of the database in file, as one of the variables above. It returns nil for any other
// error.
func Of(file string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return ErrFull
	case errors.Is(err, syscall.EROFS):
		return ErrReadOnly
	case errors.Is(err, syscall.ENOTDIR):
		return ErrNoFolder
	case errors.Is(err, fs.ErrPermission):
		return ErrDenied
	}
	switch Primary(err) {
	case codes.SQLITE_FULL:
		return ErrFull
	case codes.SQLITE_BUSY, codes.SQLITE_LOCKED, codes.SQLITE_PROTOCOL:
		return ErrLocked
	case codes.SQLITE_CORRUPT, codes.SQLITE_NOTADB:
		return ErrDamaged
	case codes.SQLITE_PERM, codes.SQLITE_AUTH:
		return ErrDenied
	case codes.SQLITE_READONLY, codes.SQLITE_CANTOPEN, codes.SQLITE_IOERR:
		return disk(file, Primary(err) == codes.SQLITE_READONLY)
	}
	return nil
}

// disk finds the cause of an I/O error that SQLite does not explain: permissions, a full
// disk or a read-only file system. It returns nil if it finds none.
func disk(file string, readOnly bool) error {
	for _, name := range []string{file, filepath.Dir(file)} {
		if state := Of(file, unix.Access(name, unix.W_OK)); state != nil {
			return state
		}
	}
	var s syscall.Statfs_t
	if syscall.Statfs(filepath.Dir(file), &s) == nil && uint64(s.Bavail)*uint64(s.Bsize) < noRoom {
		return ErrFull
	}
	if readOnly {
		return ErrReadOnly
	}
	return nil
}

// Primary returns the primary result code of the SQLite error in err, or 0 if there is
// none.
func Primary(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}
