// Package placeholder makes empty folders and sockets, so that a mount can be put on a name that does not exist.
//
// A placeholder has the sticky bit, which no other program sets on an empty folder or a socket. Those who use
// placeholders in a folder hold a shared lock on that folder. The last one removes them, but for those that have
// something in them by then. When a process is killed, or another program keeps the folder locked, placeholders stay:
// the next user of the folder, or [Sweep], removes them.
package placeholder

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds the time that Hold waits for a process which removes placeholders, and pause is the time between
// two attempts to get the lock. A process that removes some has the lock for less than a millisecond, so that another
// program must have it when patience is over. Hold then goes on without the lock.
const (
	patience = 200 * time.Millisecond
	pause    = 100 * time.Microsecond
)

// Held are placeholders in use. The zero value has none.
type Held struct {
	Paths []string // of the placeholders

	dir *os.File // the folder, locked if no other program keeps it locked; nil means none
}

// Hold makes placeholders for those of names that do not exist in dir, and uses those that others have made. They are
// folders, but for the name socket: programs cannot open a socket, and do not take it for a folder. A name that
// cannot be made is left out.
func Hold(dir string, names []string, socket string) (h Held) {
	f, err := open(dir)
	if err != nil {
		return h
	}
	h.dir = f // it stays the folder, even if that gets another name
	for until := time.Now().Add(patience); !lock(f, syscall.LOCK_SH) && time.Now().Before(until); {
		time.Sleep(pause)
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

// Release ends the use of the placeholders, and removes those that nobody else uses, even if the folder was moved.
func (h Held) Release() {
	if h.dir == nil {
		return
	}
	defer h.dir.Close()
	if lock(h.dir, syscall.LOCK_EX) {
		for _, path := range h.Paths {
			remove(int(h.dir.Fd()), filepath.Base(path))
		}
	}
}

// remove removes the placeholder name in dir, or makes it a folder like others if something is in it.
func remove(dir int, name string) {
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_ISVTX == 0 {
		return
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFSOCK:
		_ = unix.Unlinkat(dir, name, 0)
	case unix.S_IFDIR:
		err := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
		if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
			_ = unix.Fchmodat(dir, name, 0o755, 0)
		}
	}
}

// Sweep removes the placeholders of those names in dir. It returns false if somebody uses placeholders there, or keeps
// dir locked, so that they stay.
func Sweep(dir string, names []string) bool {
	f, err := open(dir)
	if err != nil {
		return true
	}
	defer f.Close()
	if !lock(f, syscall.LOCK_EX) {
		return false
	}
	for _, name := range names {
		remove(int(f.Fd()), name)
	}
	return true
}
