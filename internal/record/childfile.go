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

// childFile is where lines go. Other processes may write to it and put it aside at
// any time.
type childFile struct {
	path string
	size int64 // from which on it is put aside
	keep int   // how many are kept then

	mu   sync.Mutex
	f    *os.File    // nil before the first line
	info fs.FileInfo // of f
	torn bool        // the last write broke off within a line
	done bool        // closed, or given up
	err  error       // the first that happened
	lost int         // lines
}

var _ zapcore.WriteSyncer = (*childFile)(nil)

func newChildFile(dir string, size int64, keep int) *childFile {
	return &childFile{path: filepath.Join(dir, childName+".log"), size: size, keep: keep}
}

// Write writes one line.
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

func (l *childFile) failed(err error) {
	l.lost++
	if l.err == nil {
		l.err = err
	}
}

// Sync does nothing: see [ChildLog].
func (l *childFile) Sync() error { return nil }

// Close closes the file and reports what went wrong since New.
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

// ready makes sure that f is the file that the name leads to and has room.
//
// Between this look and the write another process may put the file aside. The
// line then stands at the end of the file with .1, in order and not lost.
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

// open opens the file that the name leads to. A link or a pipe in its place is
// refused: it could lead anywhere, or wait for a reader.
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

// rotate puts the file aside. It reports whether the name is free now or leads
// to another file. When it cannot, writing goes on where it is.
func (l *childFile) rotate() bool {
	lock, err := os.OpenFile(l.path+".lock", os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return false
	}
	defer lock.Close()
	// Who does not get the lock need not wait: the file is being put aside.
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
		// After a failure the next step would overwrite what stayed in its way.
		if err := os.Rename(newer, older); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}
