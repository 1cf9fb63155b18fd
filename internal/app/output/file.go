package output

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"qq/internal/fifo"
)

// ErrInUse is the error about an output file or folder that another qq has locked.
var ErrInUse = errors.New("another qq writes its results there")

// OpenFile opens or creates the output file at path, without truncating it. A regular file
// stays locked until it is closed, because two writers would mix their results. If another
// qq has locked it, the error is [ErrInUse]. Until ctx is done it waits for the reader of a named pipe.
// Writes append: if somebody cuts the file meanwhile, it stays shorter than what was written.
func OpenFile(ctx context.Context, path string) (*os.File, error) {
	f, err := fifo.OpenFile(ctx, path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return f, err
	}
	return lock(f)
}

// lock locks f, or closes it and returns [ErrInUse] if another qq has locked it.
func lock(f *os.File) (*os.File, error) {
	// Any other error means that the file system has no locks.
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == syscall.EWOULDBLOCK {
		return nil, errors.Join(fmt.Errorf("%s: %w", f.Name(), ErrInUse), f.Close())
	}
	return f, nil
}
