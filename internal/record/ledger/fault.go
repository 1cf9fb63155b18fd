package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"qq/internal/record/ledger/alive"
	"qq/internal/record/ledger/appendfile"
	"qq/pkg/task"
)

// The causes of errors that callers tell apart with errors.Is. The first group is about
// runs and batches, the second about the files of the ledger.
var (
	ErrNone      = errors.New("not in the ledger")
	ErrAmbiguous = errors.New("ambiguous id")
	ErrAtWork    = errors.New("at work elsewhere")
	ErrEnded     = errors.New("not running any more")

	ErrFull     = errors.New("disk full")
	ErrReadOnly = errors.New("read-only disk")
	ErrDenied   = errors.New("permission denied")
	ErrNoFolder = errors.New("no folder")
	ErrLocked   = errors.New("locked")
	ErrDamaged  = errors.New("damaged")
	ErrNewer    = errors.New("written by a newer version")
)

var errClosed = errors.New("the ledger is closed")

// hintDamaged tells the user what to do about [ErrDamaged].
const hintDamaged = "move it away together with its -wal and -shm and start a new one" + orNone

// noRoom is the free space in bytes below which a failed write is taken for a full disk.
const noRoom = 1 << 20

// orNone is the end of a hint that also offers to run qq without the ledger.
const orNone = ", or go on without a record: --no-ledger"

// statuses are those of commands and tasks that end with an error of that state. The others fail.
var statuses = map[error]task.Status{
	ErrFull: task.Unavailable, ErrReadOnly: task.Misused, ErrDenied: task.Misused, ErrNoFolder: task.Misused,
	ErrNewer: task.Misused,
}

// problem returns an error with a hint for the user. state is one of the variables above,
// or nil; cause may be nil too.
func problem(state, cause error, text, hint string) error {
	return &task.Error{Status: statuses[state], Problem: text, Hint: hint, Err: errors.Join(state, cause)}
}

// fault returns err as the error of the operation act, with a hint for the user. It returns
// nil if err is nil, and err unchanged if it already has a hint.
func (p place) fault(act string, err error) error {
	if known := (*task.Error)(nil); err == nil || errors.As(err, &known) {
		return err
	}
	if gone, ok := errors.AsType[*appendfile.GoneError](err); ok {
		return task.Machine("put it back, then repeat the command", "%w", gone)
	}
	if errors.Is(err, errClosed) || errors.Is(err, ErrAtWork) {
		return fmt.Errorf("%s: %w", act, err)
	}
	locked := func(name string) string {
		return "see who holds it (fuser " + name + "), end that, and try again" + orNone
	}
	if held := (*alive.LockedError)(nil); errors.As(err, &held) {
		return problem(ErrLocked, err, held.Error(), locked(held.Name))
	}
	state, cause := p.state(err), strings.ReplaceAll(err.Error(), "\n", "; ") // one line, even for several errors
	text, hint := cause, "see whether "+filepath.Dir(p.file)+" can be used"+orNone
	switch state {
	case ErrFull: // no hint to clear runs, because that needs space too
		text, hint = "the disk of "+p.file+" is full", "free some space on it, then repeat the command"
	case ErrReadOnly:
		text, hint = p.file+" is on a disk that cannot be written", "let QQ_HOME name a folder that can"+orNone
	case ErrDenied:
		text = p.file + " may not be written by this user"
		hint = "see who owns it and its folder, or let QQ_HOME name another one" + orNone
	case ErrNoFolder:
		hint = "let QQ_HOME name a folder, or a place for one" + orNone
	case ErrLocked:
		text = fmt.Sprintf("%s has been locked by another program for %s", p.file,
			p.roots.Wait.Round(10*time.Millisecond))
		hint = locked(p.file)
	case ErrDamaged:
		text, hint = p.file+" is damaged: "+cause, hintDamaged
	}
	return problem(state, err, act+": "+text, hint)
}

// state classifies err as one of the variables above. It returns nil for any other error.
func (p place) state(err error) error {
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
	switch primary(err) {
	case codes.SQLITE_FULL:
		return ErrFull
	case codes.SQLITE_BUSY, codes.SQLITE_LOCKED, codes.SQLITE_PROTOCOL:
		return ErrLocked
	case codes.SQLITE_CORRUPT, codes.SQLITE_NOTADB:
		return ErrDamaged
	case codes.SQLITE_PERM, codes.SQLITE_AUTH:
		return ErrDenied
	case codes.SQLITE_READONLY, codes.SQLITE_CANTOPEN, codes.SQLITE_IOERR:
		return p.disk(primary(err) == codes.SQLITE_READONLY)
	}
	return nil
}

// disk finds the cause of an I/O error that SQLite does not explain: permissions, a full
// disk or a read-only file system. It returns nil if it finds none.
func (p place) disk(readOnly bool) error {
	for _, name := range []string{p.file, filepath.Dir(p.file)} {
		if state := p.state(unix.Access(name, unix.W_OK)); state != nil {
			return state
		}
	}
	var s syscall.Statfs_t
	if syscall.Statfs(filepath.Dir(p.file), &s) == nil && uint64(s.Bavail)*uint64(s.Bsize) < noRoom {
		return ErrFull
	}
	if readOnly {
		return ErrReadOnly
	}
	return nil
}

// primary returns the primary result code of the SQLite error in err, or 0 if there is
// none.
func primary(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}
