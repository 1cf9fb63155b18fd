// Package store changes files below an [os.Root], so that every reader sees the
// old content or the new one, and never a part.
//
// A change is made under an exclusive lock on the file (flock), which works between goroutines and between
// processes that use this package: so a change never overwrites content that it was not made from. The new content
// is written to a temporary file in the same folder, synced, and renamed into place; then the folder is synced.
//
// A path is relative to the root and leads through no link: callers resolve
// links first, and one that appears later is refused. A file that is replaced
// keeps its permissions; what makes it run as somebody else is dropped.
//
// Not promised: the owner, extended attributes and other hard links of a file
// that is replaced; that programs which take no lock are kept out (their change
// is noticed up to the moment before the rename); that nothing is left of a
// process that was killed: that is a temporary file, named .qq-*.tmp.
package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// MaxSize bounds a file that is replaced or created, in bytes.
const MaxSize = 64 << 20

// ErrNotDurable says that a change is in place, but that the folder could not be
// synced: it may not survive a power failure.
var ErrNotDurable = errors.New("the change is made, but may not survive a power failure")

// errAgain says that a file or folder is no longer the one that was opened. The operation can be tried again.
var errAgain = errors.New("it was replaced meanwhile: try again")

// Sum returns a checksum of content (SHA-256): equal contents have equal sums.
func Sum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// Replace changes the content of the file rel to what change returns for it. change must not keep
// or modify old; it is called again if the file was replaced meanwhile. If it fails or changes
// nothing, nothing is written. While others change the file, Replace waits until ctx ends.
func Replace(ctx context.Context, root *os.Root, rel string, change func(old []byte) ([]byte, error)) error {
	return locked(ctx, root, rel, func(h *held) error {
		old, err := h.read()
		if err != nil {
			return err
		}
		content, err := change(old)
		if err != nil || bytes.Equal(old, content) {
			return err
		}
		if err := checkSize(rel, int64(len(content))); err != nil {
			return err
		}
		perm := h.info.Mode().Perm()
		kept := keep(ctx, Change{Path: rel, Old: old, New: append([]byte{}, content...), Mode: perm})
		return kept(h.replace(ctx, content, perm))
	})
}

// replace puts a new file with the content in the place of the locked one.
func (h *held) replace(ctx context.Context, content []byte, perm fs.FileMode) error {
	temp, err := writeTemp(h.dir, content, perm, true)
	if err != nil {
		return failed("write", h.rel, err)
	}
	err = h.commit(ctx, func() error { return h.dir.Rename(temp, h.name) })
	if err != nil {
		h.dir.Remove(temp)
	}
	return err
}

// Remove deletes the file rel. It refuses folders. If check is not nil, it gets the content of the file; if it
// fails, nothing is deleted.
func Remove(ctx context.Context, root *os.Root, rel string, check func(old []byte) error) error {
	return locked(ctx, root, rel, func(h *held) error {
		c := Change{Path: rel, Mode: h.info.Mode().Perm()}
		if check != nil || keeps(ctx) {
			var err error
			if c.Old, err = h.read(); err == nil && check != nil {
				err = check(c.Old)
			}
			if err != nil && check != nil {
				return err
			}
			c.Large = err != nil
		}
		kept := keep(ctx, c)
		return kept(h.commit(ctx, func() error { return unlink(h.dir, h.name) }))
	})
}

// Create creates the file rel and the missing folders above it. The error is [fs.ErrExist] if rel
// exists.
func Create(ctx context.Context, root *os.Root, rel string, content []byte, perm fs.FileMode) error {
	return create(ctx, root, rel, content, perm, false)
}

// create is Create. If exact is set, the umask does not change perm.
func create(ctx context.Context, root *os.Root, rel string, content []byte, perm fs.FileMode, exact bool) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := checkSize(rel, int64(len(content))); err != nil {
		return err
	}
	c := Change{Path: rel, New: content}
	if keeps(ctx) {
		c.Made = Missing(root, rel)
	}
	dir, err := folder(root, filepath.Dir(rel), true)
	if err != nil {
		return err
	}
	defer dir.Close()
	name := filepath.Base(rel)
	if _, err := dir.Lstat(name); err == nil {
		return failed("create", rel, fs.ErrExist)
	}
	temp, err := writeTemp(dir, content, perm, exact)
	if err != nil {
		return failed("write", rel, err)
	}
	defer dir.Remove(temp)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	kept := keep(ctx, c)
	if err := dir.Link(temp, name); err != nil {
		return kept(failed("create", rel, err))
	}
	return kept(syncFolder(dir))
}

func checkSize(rel string, size int64) error {
	if size > MaxSize {
		return fmt.Errorf("%s is too large: %d bytes, at most %d can be changed", rel, size, MaxSize)
	}
	return nil
}

// failed wraps err with the act and the file, without the name of the system call.
func failed(act, rel string, err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		err = e.Err
	}
	return fmt.Errorf("%s %s: %w", act, rel, err)
}

// folder opens the folder dir of root without following links. With create set it makes missing
// folders.
func folder(root *os.Root, dir string, create bool) (*os.Root, error) {
	at, err := root.OpenRoot(".")
	if err != nil {
		return nil, failed("open", dir, err)
	}
	if dir == "." {
		return at, nil
	}
	if !filepath.IsLocal(dir) {
		at.Close()
		return nil, fmt.Errorf("%s is outside the working directory", dir)
	}
	for name := range parts(dir) {
		next, err := enter(at, name, create)
		at.Close()
		if err != nil {
			return nil, failed("open", dir, err)
		}
		at = next
	}
	return at, nil
}

// enter opens the folder name in at. With create set it makes the folder if it is missing.
func enter(at *os.Root, name string, create bool) (*os.Root, error) {
	info, err := at.Lstat(name)
	if create && errors.Is(err, fs.ErrNotExist) {
		if err := at.Mkdir(name, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if err := syncFolder(at); err != nil {
			return nil, err
		}
		info, err = at.Lstat(name)
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s: %w", name, unix.ENOTDIR)
	}
	next, err := at.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	// A link may have been put in its place meanwhile.
	if opened, err := next.Stat("."); err != nil || !os.SameFile(info, opened) {
		next.Close()
		return nil, fmt.Errorf("%s: %w", name, errAgain)
	}
	return next, nil
}

// syncFolder makes new names in dir durable, on systems that can sync folders.
func syncFolder(dir *os.Root) error {
	f, err := dir.Open(".")
	if err == nil {
		defer f.Close()
		err = f.Sync()
	}
	if err == nil || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrNotDurable, err)
}

// unlink removes a file, but unlike os.Root never a folder.
func unlink(dir *os.Root, name string) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Unlinkat(int(f.Fd()), name, 0)
}

// writeTemp writes content to a new temporary file in dir and returns its name. Its permissions
// are perm if exact is set, else perm reduced by the umask. On an error it removes the file.
func writeTemp(dir *os.Root, content []byte, perm fs.FileMode, exact bool) (name string, err error) {
	f, name, err := openTemp(dir, perm)
	if err != nil {
		return "", err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
		if err != nil {
			dir.Remove(name)
		}
	}()
	if exact {
		if err := f.Chmod(perm); err != nil {
			return name, err
		}
	}
	if _, err := io.Copy(f, bytes.NewReader(content)); err != nil {
		return name, err
	}
	return name, f.Sync()
}
