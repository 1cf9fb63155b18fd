// Package scratch holds the private files of a run: the folder of a root process,
// results that wait in a spill file for slower ones, and long outputs of commands.
//
// Not promised: that a folder is gone after a SIGKILL. The next root that needs one
// removes the folders whose lock nobody holds.
package scratch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"qq/internal/box/placeholder"
	"qq/internal/tools/tree"
	"qq/pkg/task"
)

// Folder is the private folder of one root process. It is created when it is first needed
// and removed at the end. A root that is killed leaves its folder behind; the next root
// that needs one removes it, because nobody holds its lock.
type Folder struct {
	Dir string // the parent of the folders of all roots

	mu   sync.Mutex
	own  string
	lock *os.File
}

// Path returns the path of the folder, which it creates if necessary. If somebody has removed it or
// f.Dir, Path creates both again, but not the folder around f.Dir, which may have moved only for a
// while. The error is then a fault of the machine.
func (f *Folder) Path() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.own == "":
		err := os.MkdirAll(f.Dir, 0o700)
		if err == nil {
			err = f.create()
		}
		if err != nil {
			return "", hinted(err, "QQ_HOME names a folder that you may write to, on a disk with some room",
				"make the folder for running children")
		}
	case !same(f.lock, filepath.Join(f.own, "lock")):
		_ = os.Mkdir(f.Dir, 0o700) // it may be there; else create says why not
		if err := f.create(); err != nil {
			return "", task.Machine("", "make the folder for running children again: %w", err)
		}
	}
	return f.own, nil
}

// same reports whether name is still the name of the file f.
func same(f *os.File, name string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	its, err := os.Stat(name)
	return err == nil && os.SameFile(mine, its)
}

// create creates the folder in f.Dir, with its lock. The caller holds f.mu.
func (f *Folder) create() error {
	f.sweep()
	own, lock, err := f.make()
	for try := 0; try < 3 && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EWOULDBLOCK)); try++ {
		own, lock, err = f.make() // a process that does not see ours, in a container, has swept it
	}
	if err != nil {
		return err
	}
	if f.lock != nil {
		f.lock.Close()
	}
	f.own, f.lock = own, lock
	return nil
}

// make creates the folder and locks it. It gets its name when it is locked, so that no other process removes it
// before. No process waits for another one's lock: any program that can read the file could hold that forever.
func (f *Folder) make() (own string, lock *os.File, err error) {
	hidden, err := os.MkdirTemp(f.Dir, fmt.Sprintf("%s%d-", unnamed, os.Getpid()))
	if err != nil {
		return "", nil, err
	}
	own = filepath.Join(f.Dir, strings.TrimPrefix(filepath.Base(hidden), unnamed))
	lock, err = os.OpenFile(filepath.Join(hidden, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err == nil {
		err = os.Rename(hidden, own)
	}
	if err != nil {
		lock.Close() // nil is no harm
		_ = os.RemoveAll(hidden)
	}
	return own, lock, err
}

// unnamed begins the name of a folder that is not locked yet.
const unnamed = ".new-"

// Made returns the path of the folder, or "" if the folder was not created.
func (f *Folder) Made() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.own
}

// sweep removes the folders of root processes that were killed.
func (f *Folder) sweep() {
	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || making(e.Name()) && time.Since(info.ModTime()) < time.Minute {
			continue // its process is about to lock it
		}
		dir := filepath.Join(f.Dir, e.Name())
		lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			continue // not the folder of a root
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = discard(dir) // what stays is tried again
		}
		lock.Close()
	}
}

// making reports whether name is that of a folder that is not locked yet, of a process that lives.
func making(name string) bool {
	rest, ok := strings.CutPrefix(name, unnamed)
	if !ok {
		return false
	}
	digits, _, _ := strings.Cut(rest, "-")
	pid, err := strconv.Atoi(digits)
	return err == nil && pid > 0 && syscall.Kill(pid, 0) != syscall.ESRCH
}

// Placeholders returns the path of the file in the folder own that lists the folders with placeholders of commands.
func Placeholders(own string) string { return filepath.Join(own, "placeholders") }

// discard removes the folder own of a root with everything in it, and the placeholders that its commands left in
// working directories. While another program keeps one of those locked, the list of placeholders stays, and the next
// root that needs a folder tries again.
func discard(own string) error {
	if sweepPlaceholders(own) {
		return removeAll(own)
	}
	entries, err := os.ReadDir(own)
	for _, e := range entries {
		if path := filepath.Join(own, e.Name()); path != Placeholders(own) {
			err = errors.Join(err, removeAll(path))
		}
	}
	return err
}

// removeAll removes the file or folder at path with everything in it. Folders that a command has closed to their owner
// are opened.
func removeAll(path string) error {
	if err := os.RemoveAll(path); err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if parent, err := os.OpenRoot(filepath.Dir(path)); err == nil { // no link leads out of it
		open(parent, filepath.Base(path), 0)
		parent.Close()
	}
	return os.RemoveAll(path)
}

// maxDepth is how deep open goes. Each folder is looked up from the top, so that depth costs time.
const maxDepth = 100

// open lets the owner into the folder at path in root and the folders below. What cannot be changed, or is too deep, is
// left out.
func open(root *os.Root, path string, depth int) {
	info, err := root.Lstat(path)
	if err != nil || !info.IsDir() || depth > maxDepth {
		return
	}
	if info.Mode().Perm()&0o700 != 0o700 {
		_ = root.Chmod(path, 0o700)
	}
	dir, err := root.Open(path)
	if err != nil {
		return
	}
	entries, _ := dir.ReadDir(-1)
	dir.Close()
	for _, e := range entries {
		if e.IsDir() {
			open(root, path+"/"+e.Name(), depth+1)
		}
	}
}

// sweepPlaceholders removes the placeholders that a root with the folder own left in working directories. It returns
// false if some stay.
func sweepPlaceholders(own string) bool {
	list, err := os.ReadFile(Placeholders(own))
	if err != nil {
		return true
	}
	all := true
	for dir := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		if filepath.IsAbs(dir) {
			all = placeholder.Sweep(dir, append(tree.ObeyedNames(), tree.RepositoryFolders()...)) && all
		}
	}
	return all
}

// Remove removes the folder with everything in it, and the placeholders of commands that have ended. The error says
// what stays.
func (f *Folder) Remove() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.own == "" {
		return nil
	}
	err := discard(f.own)
	f.lock.Close()
	f.own = ""
	f.sweep() // a process that a killed root was starting may have had the lock of its folder
	return err
}

// hinted returns err as the error of the operation act, with a hint for the user. Unless it is a
// fault of the machine, a setting is wrong.
func hinted(err error, hint, act string) error {
	status := task.Misused
	if task.MachineFault(err) {
		status = task.Unavailable
	}
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		err = fmt.Errorf("%s: %w", pe.Path, pe.Err)
	}
	return &task.Error{Status: status, Problem: fmt.Sprintf("%s: %v", act, err), Hint: hint, Err: err}
}
