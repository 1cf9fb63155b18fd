package alive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const suffix = ".lock"

// pause is how long is waited before a lock is tried again.
const pause = 2 * time.Millisecond

// Dir is the folder of the locks.
type Dir struct {
	Path string
	Wait time.Duration // for a lock that another process holds
}

// Lock is held until it is released, or the process ends.
type Lock struct {
	file  *os.File
	leave bool // the file, when it is released
}

// LockedError says that another process held the lock on a file for as long as
// was waited.
type LockedError struct {
	Name string // of the file
	Wait time.Duration
}

// Error is for programmers: what to do about it depends on the lock.
func (e *LockedError) Error() string { return fmt.Sprintf("%s has been locked for %s", e.Name, e.Wait) }

// Hold takes the lock of id. The folder is made when there is none.
func (d Dir) Hold(id string) (*Lock, error) {
	if id == "" || strings.HasPrefix(id, ".") || strings.ContainsAny(id, "/\x00") {
		return nil, fmt.Errorf("%q is no id", id)
	}
	if err := os.MkdirAll(d.Path, 0o700); err != nil {
		return nil, err
	}
	for {
		k, err := d.lock(id + suffix)
		if err != nil {
			return nil, err
		}
		if same(k.file, k.file.Name()) {
			return k, nil
		}
		// Somebody took it for that of a dead one, and removed it.
		if err := k.file.Close(); err != nil {
			return nil, err
		}
	}
}

// Alone waits until no other process is alone there, and then is. It is not known
// by it: name is that of a file which stays.
func (d Dir) Alone(name string) (*Lock, error) {
	k, err := d.lock(name)
	if err == nil {
		k.leave = true
	}
	return k, err
}

// lock opens the file name and locks it.
func (d Dir) lock(name string) (*Lock, error) {
	f, err := os.OpenFile(filepath.Join(d.Path, name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for start := time.Now(); ; time.Sleep(pause) {
		free, err := try(f, syscall.LOCK_EX)
		if err == nil && free {
			return &Lock{file: f}, nil
		}
		if err == nil && time.Since(start) >= d.Wait {
			err = &LockedError{f.Name(), d.Wait}
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
}

// Release lets go of the lock. A lock that somebody was known by goes with its
// file.
func (k *Lock) Release() error {
	var err error
	if !k.leave {
		err = os.Remove(k.file.Name())
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, k.file.Close())
}

// try locks f if that can be done at once, and reports whether it could.
func try(f *os.File, how int) (bool, error) {
	switch err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); {
	case err == nil:
		return true, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		return false, nil
	default:
		return false, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
}

func same(f *os.File, name string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(name)
	return err == nil && os.SameFile(a, b)
}
