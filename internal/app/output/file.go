package output

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrInUse is the error about an output file that another qq has locked.
var ErrInUse = errors.New("another qq writes its results there")

// OpenFile opens or creates the output file at path, without truncating it. A regular file
// stays locked until it is closed, because two writers would mix their results. If another
// qq has locked it, the error is [ErrInUse].
func OpenFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return f, err
	}
	// Any other error means that the file system has no locks.
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == syscall.EWOULDBLOCK {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, ErrInUse), f.Close())
	}
	return f, nil
}
