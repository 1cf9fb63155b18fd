package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// scratch is the private folder of one root process, made when it is first
// needed and removed at the end. A root that is killed leaves its folder behind;
// the next one that needs a folder removes it, for nobody holds its lock.
type scratch struct {
	dir string // the folder of all of them

	mu   sync.Mutex
	own  string
	lock *os.File
}

// folder returns the folder of this process.
func (s *scratch) folder() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own != "" {
		return s.own, nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return "", hinted(err, "QQ_HOME names a folder that you may write to, on a disk with some room", "make the folder for running children")
	}
	// Held while a folder is made and while others are looked through, so that
	// nobody takes one that has no lock yet for one that was left behind.
	all, err := os.Open(s.dir)
	if err != nil {
		return "", fmt.Errorf("open the folder for running children: %w", err)
	}
	defer all.Close()
	if err := lockFile(all); err != nil {
		return "", fmt.Errorf("lock the folder for running children: %w", err)
	}
	s.sweep()
	own, err := os.MkdirTemp(s.dir, fmt.Sprintf("%d-", os.Getpid()))
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
	s.own, s.lock = own, lock
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

// made returns the folder if there is one.
func (s *scratch) made() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own
}

// sweep removes the folders of processes that were killed.
func (s *scratch) sweep() {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		dir := filepath.Join(s.dir, e.Name())
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

func (s *scratch) remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own == "" {
		return
	}
	_ = os.RemoveAll(s.own)
	s.lock.Close()
	s.own = ""
}
