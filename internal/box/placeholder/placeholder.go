// Package placeholder makes empty folders and sockets, so that a mount can be put on a name that does not exist.
//
// A placeholder has the sticky bit, which no other program sets on an empty folder or a socket. Those who use
// placeholders in a folder hold a shared lock on that folder. The last one removes them, but for those that have
// something in them by then. When a process is killed, its placeholders stay, without a lock: the next user of the
// folder, or [Sweep], removes them.
package placeholder

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// patience bounds the time that Hold waits for a process which removes placeholders, and pause is the time between
// two attempts to get the lock. Without the lock, Hold makes placeholders that only a later user removes.
const (
	patience = time.Second
	pause    = 100 * time.Microsecond
)

// Held are placeholders in use. The zero value has none.
type Held struct {
	Paths []string // of the placeholders

	lock *os.File // the locked folder; nil if it could not be locked
}

// Hold makes placeholders for those of names that do not exist in dir, and uses those that others have made. They are
// folders, but for the name socket: programs cannot open a socket, and do not take it for a folder. A name that
// cannot be made is left out.
func Hold(dir string, names []string, socket string) (h Held) {
	f, err := open(dir)
	if err != nil {
		return h
	}
	for until := time.Now().Add(patience); ; time.Sleep(pause) {
		if lock(f, syscall.LOCK_SH) {
			h.lock = f
			break
		}
		if time.Now().After(until) {
			f.Close()
			break
		}
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if name == socket {
			err = syscall.Mknod(path, syscall.S_IFSOCK|syscall.S_ISVTX|0o644, 0)
		} else {
			err = os.Mkdir(path, fs.ModeSticky|0o755)
		}
		if errors.Is(err, fs.ErrExist) {
			if info, missing := os.Lstat(path); missing == nil && Is(path, info) {
				err = nil
			}
		}
		if err == nil {
			h.Paths = append(h.Paths, path)
		}
	}
	return h
}

// Is reports whether the file at path is a placeholder. info is what Lstat says of it.
func Is(path string, info fs.FileInfo) bool {
	switch info.Mode() & (fs.ModeType | fs.ModeSticky) {
	case fs.ModeSocket | fs.ModeSticky:
		return true
	case fs.ModeDir | fs.ModeSticky:
		f, err := open(path)
		if err != nil {
			return false
		}
		defer f.Close()
		names, _ := f.Readdirnames(1)
		return len(names) == 0
	}
	return false
}

func open(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
}

func lock(f *os.File, how int) bool { return syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB) == nil }

// Release ends the use of the placeholders, and removes those that nobody else uses.
func (h Held) Release() {
	if h.lock == nil {
		return
	}
	defer h.lock.Close()
	if lock(h.lock, syscall.LOCK_EX) {
		for _, path := range h.Paths {
			remove(path)
		}
	}
}

// remove removes the placeholder at path, or makes it a folder like others if something is in it.
func remove(path string) {
	info, err := os.Lstat(path)
	switch {
	case err != nil || info.Mode()&fs.ModeSticky == 0:
	case info.Mode().Type() == fs.ModeSocket:
		_ = os.Remove(path)
	case info.IsDir():
		if err := syscall.Rmdir(path); errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) {
			_ = os.Chmod(path, 0o755)
		}
	}
}

// Sweep removes the placeholders of those names in dir, unless somebody uses placeholders there.
func Sweep(dir string, names []string) {
	f, err := open(dir)
	if err != nil {
		return
	}
	h := Held{lock: f}
	for _, name := range names {
		h.Paths = append(h.Paths, filepath.Join(dir, name))
	}
	h.Release()
}
