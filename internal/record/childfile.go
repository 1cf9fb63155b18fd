package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"go.uber.org/zap/zapcore"
)

// childFile is a log file that several processes append to and rotate.
type childFile struct {
	path string
	size int64 // limit in bytes at which the file is rotated
	keep int   // number of old files

	mu   sync.Mutex
	f    *os.File    // nil before the first line
	info fs.FileInfo // identifies f, to notice that path is another file
	torn bool        // the last write left an incomplete line
	done bool        // closed, or given up after an error
	err  error       // the first error
	lost int         // number of lines that were not written
}

var _ zapcore.WriteSyncer = (*childFile)(nil)

// newChildFile returns the log file in dir. size is the limit at which it is rotated, and
// keep the number of old files.
func newChildFile(dir string, size int64, keep int) *childFile {
	return &childFile{path: filepath.Join(dir, childName+".log"), size: size, keep: keep}
}

// Write writes one line. It does not wait until the line is on the disk, so a crash of the
// machine may lose it.
func (l *childFile) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ready(); err != nil {
		l.failed(err)
		l.done = true // a folder that cannot be written is not tried again for each line
		return 0, err
	}
	if l.torn {
		line = append([]byte("\n"), line...)
	}
	n, err := l.f.Write(line)
	l.torn = n > 0 && n < len(line) || l.torn && n == 0
	if err != nil {
		l.failed(err)
	}
	return n, err
}

// failed counts a lost line and keeps the first error.
func (l *childFile) failed(err error) {
	l.lost++
	if l.err == nil {
		l.err = err
	}
}

// Sync does nothing, because the log need not survive a crash of the machine.
func (l *childFile) Sync() error { return nil }

// Close closes the file. It returns the first error, with the number of lost lines.
func (l *childFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = true
	if l.f != nil {
		if err := l.f.Close(); err != nil && l.err == nil {
			l.err = err
		}
		l.f = nil
	}
	if l.err == nil {
		return nil
	}
	err := fmt.Errorf("write the log of child processes: %w (%d lines lost)", l.err, l.lost)
	l.err, l.lost = nil, 0
	return err
}

// ready makes sure that l.f is the file at l.path and is below its size limit.
//
// Another process may still rotate the file before the caller writes its line. The line
// then goes to the end of the rotated file (.1): it is in order and not lost.
func (l *childFile) ready() error {
	if l.done {
		return fs.ErrClosed
	}
	if l.f == nil {
		if err := os.MkdirAll(filepath.Dir(l.path), 0o700); err != nil {
			return err
		}
		return l.open()
	}
	there, err := os.Lstat(l.path)
	if err == nil && os.SameFile(there, l.info) {
		if there.Size() < l.size || !l.rotate() {
			return nil
		}
	}
	return l.open()
}

// open opens the file at path. A symbolic link or a pipe is an error: a link could lead
// anywhere, and a pipe would wait for a reader.
func (l *childFile) open() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", l.path)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if l.f != nil {
		_ = l.f.Close() // every line in it was a write that has returned
	}
	l.f, l.info = f, info
	return nil
}

// rotate renames the file to .1 and older ones accordingly. It returns true if the caller
// must open the file at l.path again: there is none now, or another one. It returns false
// if it cannot rename, or if another process is about to; the caller then continues to
// write to the same file.
func (l *childFile) rotate() bool {
	lock, err := os.OpenFile(l.path+".lock", os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return false
	}
	defer lock.Close()
	// Without the lock there is no need to wait: another process is rotating the file.
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return false
	}
	there, err := os.Lstat(l.path)
	if err != nil || !os.SameFile(there, l.info) {
		return true // somebody was faster
	}
	for i := l.keep; i > 0; i-- {
		older, newer := fmt.Sprintf("%s.%d", l.path, i), fmt.Sprintf("%s.%d", l.path, i-1)
		if i == 1 {
			newer = l.path
		}
		// Stop at a failure: the next rename would overwrite a file.
		if err := os.Rename(newer, older); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}
