package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"qq/internal/record/ledger/alive"
)

const (
	// lockWait is how long a change waits for a file that another process has locked.
	lockWait = 30 * time.Second
	// maxAttempts bounds how often a change is tried again because another process was faster;
	// after freeAttempts it pauses before each attempt.
	maxAttempts, freeAttempts = 1000, 10
)

// held is a file that is open and locked, with its open folder.
type held struct {
	root *os.Root
	rel  string
	dir  *os.Root
	name string
	file *os.File
	info fs.FileInfo // when it was locked
}

// locked calls do while the file rel is locked. If the file was replaced meanwhile, it locks the new one and calls
// do again.
func locked(ctx context.Context, root *os.Root, rel string, do func(*held) error) error {
	for n := range maxAttempts {
		err := attempt(ctx, root, rel, do)
		if !errors.Is(err, errAgain) {
			return err
		}
		if n >= freeAttempts {
			err = pause(ctx, time.Millisecond)
		} else {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("%s is replaced again and again: try later", rel)
}

func attempt(ctx context.Context, root *os.Root, rel string, do func(*held) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	dir, err := folder(root, filepath.Dir(rel), false)
	if err != nil {
		return err
	}
	defer dir.Close()
	h := &held{root: root, rel: rel, dir: dir, name: filepath.Base(rel)}
	if err := h.open(); err != nil {
		return err
	}
	defer h.file.Close() // and with it the lock
	if err := alive.Wait(ctx, h.file, lockWait); err != nil {
		return failed("lock", rel, err)
	}
	if h.info, err = h.file.Stat(); err != nil {
		return failed("open", rel, err)
	}
	if !h.current() {
		return errAgain
	}
	return do(h)
}

// open opens the file, which must be regular and writable. It returns errAgain if the file is replaced at that
// moment.
func (h *held) open() error {
	info, err := h.dir.Lstat(h.name)
	switch {
	case err != nil:
		return failed("open", h.rel, err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", h.rel)
	case info.Mode().Perm()&0o222 == 0:
		// Renaming a file over it needs no permission of the file, and root may write to any file: so qq checks.
		return fmt.Errorf("%s is read-only: its permissions do not allow to change it", h.rel)
	}
	h.file, err = h.dir.OpenFile(h.name, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		return failed("open", h.rel, err)
	}
	// A link may have been put in its place meanwhile.
	if opened, err := h.file.Stat(); err != nil || !os.SameFile(info, opened) {
		h.file.Close()
		return errAgain
	}
	return nil
}

// current reports whether the path still names the locked file. The previous holder of the lock
// may have put another file in its place.
func (h *held) current() bool {
	named, err := h.root.Lstat(h.rel)
	return err == nil && named.Mode().IsRegular() && os.SameFile(h.info, named)
}

// read returns the content of the locked file. It returns an error if the file is larger than [MaxSize].
func (h *held) read() ([]byte, error) {
	if err := checkSize(h.rel, h.info.Size()); err != nil {
		return nil, err
	}
	content := make([]byte, h.info.Size())
	n, err := io.ReadFull(h.file, content)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, failed("read", h.rel, err)
	}
	return content[:n], nil
}

// commit calls change, which replaces or removes the file. If a program that takes no lock changed the file first,
// it returns errAgain instead.
func (h *held) commit(ctx context.Context, change func() error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	now, err := h.file.Stat()
	if err != nil {
		return failed("change", h.rel, err)
	}
	if now.Size() != h.info.Size() || !now.ModTime().Equal(h.info.ModTime()) || !h.current() {
		return errAgain
	}
	if err := change(); err != nil {
		return failed("change", h.rel, err)
	}
	return syncFolder(h.dir)
}

// pause waits for d, or returns the cause of ctx if that ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// openTemp creates a temporary file with a new name in dir.
func openTemp(dir *os.Root, perm fs.FileMode) (*os.File, string, error) {
	for range 1000 {
		name := fmt.Sprintf(".qq-%016x.tmp", rand.Uint64())
		f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		if !errors.Is(err, fs.ErrExist) {
			return f, name, err
		}
	}
	return nil, "", errors.New("no free name for a temporary file")
}

// parts yields the names of which a path consists.
func parts(path string) iter.Seq[string] {
	return strings.SplitSeq(filepath.Clean(path), string(filepath.Separator))
}
