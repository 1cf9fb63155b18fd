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
)

// What may be wrong, for errors.Is. Their texts are two lines: the problem and
// what to do.
var (
	ErrNone      = errors.New("not in the ledger")
	ErrAmbiguous = errors.New("ambiguous id")
	ErrAtWork    = errors.New("at work elsewhere")
	ErrEnded     = errors.New("not running any more")

	ErrFull     = errors.New("disk full")
	ErrReadOnly = errors.New("read-only disk")
	ErrDenied   = errors.New("permission denied")
	ErrLocked   = errors.New("locked")
	ErrDamaged  = errors.New("damaged")
	ErrNewer    = errors.New("written by a newer version")
)

var errClosed = errors.New("the ledger is closed")

// hintDamaged is what to do about [ErrDamaged].
const hintDamaged = "move it away together with its -wal and -shm and start anew, or go on without a record: --no-ledger"

// noRoom is the free space below which a failed write is blamed on the disk.
const noRoom = 1 << 20

// fault is an error that a person can do something about.
type fault struct {
	problem, hint string
	state         error // one of the variables above
	cause         error
}

func (f *fault) Error() string        { return f.problem + "\nhint: " + f.hint }
func (f *fault) Is(target error) bool { return target == f.state }
func (f *fault) Unwrap() error        { return f.cause }

// fault says what is wrong when act failed with err.
func (p place) fault(act string, err error) error {
	if known := (*fault)(nil); err == nil || errors.As(err, &known) {
		return err
	}
	if held := (*alive.LockedError)(nil); errors.As(err, &held) {
		return &fault{problem: fmt.Sprintf("%s has been locked by another qq for %s", held.Name, held.Wait), state: ErrLocked, cause: err,
			hint: "see who holds it (fuser " + held.Name + "), end that, and try again, or go on without a record: --no-ledger"}
	}
	say := func(state error, problem, hint string) error {
		problem = strings.ReplaceAll(problem, "\n", "; ") // of several errors
		return &fault{problem: act + ": " + problem, hint: hint, state: state, cause: err}
	}
	switch state := p.state(err); state {
	case ErrFull:
		return say(state, "the disk of "+p.file+" is full",
			"free some space on it, then go on where it ended with --resume") // to clear runs needs room too
	case ErrReadOnly:
		return say(state, p.file+" is on a disk that cannot be written",
			"let QQ_HOME name a folder that can, or go on without a record: --no-ledger")
	case ErrDenied:
		return say(state, p.file+" may not be written by this user",
			"see who owns it and its folder, or let QQ_HOME name another one, or go on without a record: --no-ledger")
	case ErrLocked:
		return say(state, fmt.Sprintf("%s has been locked by another program for %s", p.file, p.wait.Round(10*time.Millisecond)),
			"see who holds it (fuser "+p.file+"), end that, and try again, or go on without a record: --no-ledger")
	case ErrDamaged:
		return say(state, p.file+" is damaged: "+err.Error(), hintDamaged)
	}
	if errors.Is(err, errClosed) || errors.Is(err, ErrAtWork) {
		return fmt.Errorf("%s: %w", act, err)
	}
	return say(nil, err.Error(), "see whether "+filepath.Dir(p.file)+" can be used, or go on without a record: --no-ledger")
}

// state finds which of the faults err is, nil when it is none.
func (p place) state(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return ErrFull
	case errors.Is(err, syscall.EROFS):
		return ErrReadOnly
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

// disk looks for the cause of an error of which SQLite does not tell it.
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

// primary is the result code of SQLite in err, without what refines it; 0 when
// there is none.
func primary(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}
