package alive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// suffix is the end of the name of a lock file, after the id.
const suffix = ".lock"

// lookTime is how long [Dir] waits for a lock before it looks whether its holder is stopped.
const lookTime = 2 * time.Second

// pause is the time between two attempts to take a lock.
const pause = 2 * time.Millisecond

// Dir is a folder with a lock file for each id. An id is alive while a process holds the
// lock on its file.
type Dir struct {
	Path string
	Wait time.Duration // how long to wait for a lock that another process holds
}

// Lock is a lock on a file, held until it is released or the process ends.
type Lock struct {
	file  *os.File
	leave bool // Release keeps the file
}

// LockedError is the error about a lock that another process held for the whole waiting
// time. Its text names that process if the system tells (see [Holder]), and says if it is stopped.
type LockedError struct {
	Name string // path of the lock file
	Wait time.Duration
}

// Error implements error. The text has no hint for the user, because that depends on the
// lock.
func (e *LockedError) Error() string {
	pid, by := Holder(e.Name)
	if by != "" {
		by = " by " + by
	}
	if stopped(pid) {
		by += ", which is stopped,"
	}
	return fmt.Sprintf("%s has been locked%s for %s", e.Name, by, e.Wait)
}

// Hold takes the lock of id, which makes id alive until [Lock.Release] or the end of this
// process. It creates the folder if necessary, and waits at most d.Wait: then the error is
// a [LockedError].
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
		// Another process swept the file before it was locked: try again.
		if err := k.file.Close(); err != nil {
			return nil, err
		}
	}
}

// Alone takes the lock on the file name, which excludes other processes that call Alone
// with that name. It waits at most d.Wait: then the error is a [LockedError]. Alone makes
// no id alive, and the file stays when the lock is released.
func (d Dir) Alone(name string) (*Lock, error) {
	k, err := d.lock(name)
	if err == nil {
		k.leave = true
	}
	return k, err
}

// lock opens the file name and waits for its lock. After d.Wait, or earlier if the process that holds it is stopped,
// the error is a [LockedError].
func (d Dir) lock(name string) (*Lock, error) {
	f, err := os.OpenFile(filepath.Join(d.Path, name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for waited := time.Duration(0); ; {
		next := min(lookTime, d.Wait-waited)
		waited += next
		err := Wait(context.Background(), f, next)
		held, locked := errors.AsType[*LockedError](err)
		if err == nil {
			return &Lock{file: f}, nil
		}
		if locked {
			held.Wait = waited
		}
		if pid, _ := Holder(f.Name()); !locked || waited >= d.Wait || stopped(pid) {
			return nil, errors.Join(err, f.Close())
		}
	}
}

// Wait takes the exclusive lock on f. It polls, because a blocking wait would end neither with ctx nor after limit.
// When another process has held the lock for limit, the error is a [LockedError].
func Wait(ctx context.Context, f *os.File, limit time.Duration) error {
	for start := time.Now(); ; {
		free, err := try(f, syscall.LOCK_EX)
		if err != nil || free {
			return err
		}
		if time.Since(start) >= limit {
			return &LockedError{f.Name(), limit}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// Release releases the lock. It removes the file of a lock from Hold, but not that of a
// lock from Alone.
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

// try takes the lock on f without waiting. how is LOCK_EX or LOCK_SH. The result is false
// if another process holds the lock.
func try(f *os.File, how int) (bool, error) {
	switch err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); {
	case err == nil:
		return true, nil
	case errors.Is(err, syscall.EWOULDBLOCK), errors.Is(err, syscall.EINTR):
		return false, nil
	default:
		return false, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
}

// same reports whether name is still the name of the file f. It is false if another process
// has removed or replaced the file.
func same(f *os.File, name string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(name)
	return err == nil && os.SameFile(a, b)
}
