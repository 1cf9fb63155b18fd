package ledger

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"qq/internal/record/ledger/alive"
	"qq/internal/record/ledger/appendfile"
	"qq/internal/record/ledger/cause"
	"qq/pkg/task"
)

// The causes of errors that callers tell apart with errors.Is. The first group is about
// runs and batches, the second about the files of the ledger.
var (
	ErrNone      = errors.New("not in the ledger")
	ErrAmbiguous = errors.New("ambiguous id")
	ErrAtWork    = errors.New("at work elsewhere")
	ErrEnded     = errors.New("not running any more")

	ErrFull, ErrReadOnly, ErrDenied    = cause.ErrFull, cause.ErrReadOnly, cause.ErrDenied
	ErrNoFolder, ErrLocked, ErrDamaged = cause.ErrNoFolder, cause.ErrLocked, cause.ErrDamaged

	ErrNewer = errors.New("written by a newer version")
)

var errClosed = errors.New("the ledger is closed")

// hintDamaged tells the user what to do about [ErrDamaged].
const hintDamaged = "move it away together with its -wal and -shm and start a new one" + orNone

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
		return "see who holds it (fuser " + name + "), end that or let it go on, and try again" + orNone
	}
	if held := (*alive.LockedError)(nil); errors.As(err, &held) {
		return problem(ErrLocked, err, held.Error(), locked(held.Name))
	}
	state, text := cause.Of(p.file, err), strings.ReplaceAll(err.Error(), "\n", "; ") // one line
	hint := "see whether " + filepath.Dir(p.file) + " can be used" + orNone
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
		text, hint = p.file+" is damaged: "+text, hintDamaged
	}
	return problem(state, err, act+": "+text, hint)
}
