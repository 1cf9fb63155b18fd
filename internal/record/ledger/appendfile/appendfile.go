// Package appendfile writes files that only grow and that one process writes to. Lines become
// durable in groups: those that wait while the disk syncs share the next sync.
package appendfile

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// File is a file of lines that only this process writes to. Several goroutines may use it at once.
type File struct {
	file *os.File

	mu   sync.Mutex
	size atomic.Int64 // of the complete lines, in bytes
	torn bool         // an incomplete line follows the complete ones

	syncing sync.Mutex // held during a sync; callers that wait share the next one
	synced  int64      // bytes that are on the disk
	failed  error      // the first failed sync
}

// Create creates the private file at path, or empties it.
func Create(path string) (*File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return &File{file: f}, nil
}

// Close closes the file.
func (a *File) Close() error { return a.file.Close() }

// GoneError is the error about a file that was removed or replaced, or whose folder was moved: what is
// written to it may be lost.
type GoneError struct{ Path string }

func (e *GoneError) Error() string { return e.Path + " is gone" }

// Append writes text and returns the offset of its end. After an error no part of text stays in the
// file.
func (a *File) Append(text []byte) (end int64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.torn {
		if err := a.file.Truncate(a.size.Load()); err != nil {
			return 0, err
		}
		a.torn = false
	}
	mine, err := a.file.Stat()
	if err != nil {
		return 0, err
	}
	if its, err := os.Stat(a.file.Name()); err != nil || !os.SameFile(mine, its) {
		return 0, &GoneError{a.file.Name()}
	}
	n, err := a.file.Write(text)
	if err != nil {
		a.torn = n > 0 && a.file.Truncate(a.size.Load()) != nil
		return 0, err
	}
	return a.size.Add(int64(n)), nil
}

// Sync returns when the bytes up to the offset end are on the disk. Once a sync has failed, all
// later calls fail too, because the kernel may have dropped the data.
func (a *File) Sync(end int64) error {
	a.syncing.Lock()
	defer a.syncing.Unlock()
	if a.synced >= end || a.failed != nil {
		return a.failed
	}
	size := a.size.Load()
	if a.failed = syncData(a.file); a.failed == nil && a.synced == 0 {
		a.failed = syncDir(filepath.Dir(a.file.Name()))
	}
	if a.failed == nil {
		a.synced = size
	}
	return a.failed
}

// syncDir makes the names of the files in dir durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	return err
}
