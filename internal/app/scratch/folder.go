// Package scratch is the files of a run that nobody else reads: the private folder of
// a root process, results that wait for slower ones, and what is kept of outputs that
// are too long to be handed on.
//
// Not promised: that a folder is gone after a SIGKILL. The next root that needs one
// removes those whose lock nobody holds.
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

// Folder is the private folder of one root process, made when it is first
// needed and removed at the end. A root that is killed leaves its folder behind;
// the next one that needs a folder removes it, for nobody holds its lock.
type Folder struct {
	Dir string // the folder of all of them

	mu   sync.Mutex
	own  string
	lock *os.File
}

// Path returns the folder of this process.
func (f *Folder) Path() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.own != "" {
		return f.own, nil
	}
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return "", hinted(err, "QQ_HOME names a folder that you may write to, on a disk with some room", "make the folder for running children")
	}
	// Held while a folder is made and while others are looked through, so that
	// nobody takes one that has no lock yet for one that was left behind.
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
		return "", hinted(err, "see whether the disk is full, or set QQ_HOME to another folder", "make the folder for running children")
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

// Made returns the folder if there is one.
func (f *Folder) Made() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.own
}

// sweep removes the folders of processes that were killed.
func (f *Folder) sweep() {
	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		dir := filepath.Join(f.Dir, e.Name())
		lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			continue // no folder of ours
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(dir)
		}
		lock.Close()
	}
}

// Remove removes it.
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

// hinted says what was being done, and what to do about it.
func hinted(err error, hint, act string) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		err = fmt.Errorf("%s: %w", pe.Path, pe.Err)
	}
	return &task.Error{Problem: fmt.Sprintf("%s: %v", act, err), Hint: hint, Err: err}
}
