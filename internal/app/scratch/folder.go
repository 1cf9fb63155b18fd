// Package scratch holds the private files of a run: the folder of a root process,
// results that wait in a spill file for slower ones, and long outputs of commands.
//
// Not promised: that a folder is gone after a SIGKILL. The next root that needs one
// removes the folders whose lock nobody holds.
package scratch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

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

// Path returns the path of the folder, which it creates if necessary.
func (f *Folder) Path() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.own != "" {
		return f.own, nil
	}
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return "", hinted(err, "QQ_HOME names a folder that you may write to, on a disk with some room",
			"make the folder for running children")
	}
	// This lock is held while a folder is created and while others are swept, so that nobody
	// removes a folder that has no lock yet.
	all, err := os.Open(f.Dir)
	if err != nil {
		return "", fmt.Errorf("open the folder for running children: %w", err)
	}
	defer all.Close()
	if err := lockFile(all); err != nil {
		return "", fmt.Errorf("lock the folder for running children: %w", err)
	}
	f.sweep()
	own, err := os.MkdirTemp(f.Dir, fmt.Sprintf("%d-", os.Getpid()))
	if err != nil {
		return "", hinted(err, "see whether the disk is full, or set QQ_HOME to another folder",
			"make the folder for running children")
	}
	lock, err := os.OpenFile(filepath.Join(own, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		return "", fmt.Errorf("lock the folder for running children: %w", err)
	}
	f.own, f.lock = own, lock
	return own, nil
}

// lockFile waits for the lock of f, however often a signal interrupts it.
func lockFile(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err != syscall.EINTR {
			return err
		}
	}
}

// Made returns the path of the folder, or "" if the folder was not created.
func (f *Folder) Made() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.own
}

// sweep removes the folders of root processes that were killed. The caller holds the lock
// of f.Dir.
func (f *Folder) sweep() {
	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		dir := filepath.Join(f.Dir, e.Name())
		lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			continue // not the folder of a root
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(dir)
		}
		lock.Close()
	}
}

// Remove removes the folder with everything in it.
func (f *Folder) Remove() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.own == "" {
		return
	}
	_ = os.RemoveAll(f.own)
	f.lock.Close()
	f.own = ""
}

// hinted returns err as the error of the operation act, with a hint for the user.
func hinted(err error, hint, act string) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		err = fmt.Errorf("%s: %w", pe.Path, pe.Err)
	}
	return &task.Error{Problem: fmt.Sprintf("%s: %v", act, err), Hint: hint, Err: err}
}
