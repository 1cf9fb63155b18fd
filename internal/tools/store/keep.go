package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Change is a change of one file. Old and New are its contents; nil means that there is no file.
type Change struct {
	Path     string // relative to the root
	Old, New []byte
	Large    bool        // Old is there, and was not read
	Mode     fs.FileMode // permissions of the old file
	Made     string      // the topmost folder that is made for a new file; empty if none is
}

// Keeper is told of each change of a file, so that it can be undone.
type Keeper interface {
	// Keep is called right before a change, while the file is locked. It must not keep the contents of c.
	Keep(c Change)
	// Failed is called if that change of the file was not made.
	Failed(path string)
}

type keeperKey struct{}

// WithKeeper returns a context in which k is told of all changes.
func WithKeeper(ctx context.Context, k Keeper) context.Context {
	return context.WithValue(ctx, keeperKey{}, k)
}

// keeps reports whether somebody is told of changes.
func keeps(ctx context.Context) bool { return ctx.Value(keeperKey{}) != nil }

// keep tells of a change. The returned function takes the error of the change, which it returns.
func keep(ctx context.Context, c Change) (kept func(error) error) {
	k, ok := ctx.Value(keeperKey{}).(Keeper)
	if !ok {
		return func(err error) error { return err }
	}
	k.Keep(c)
	return func(err error) error {
		if err != nil && !errors.Is(err, ErrNotDurable) {
			k.Failed(c.Path)
		}
		return err
	}
}

// Missing returns the topmost folder above rel that does not exist, or "".
func Missing(root *os.Root, rel string) string {
	made := ""
	for i, c := range rel {
		if c != filepath.Separator {
			continue
		}
		if _, err := root.Lstat(rel[:i]); errors.Is(err, fs.ErrNotExist) {
			made = rel[:i]
			break
		}
	}
	return made
}

// ErrChanged says that a file is not as it was expected to be.
var ErrChanged = errors.New("it was changed since")

// State is what a file is to become, or what it is expected to be.
type State struct {
	Sum     string // of the content; "" means that there is no file
	Content []byte
	Mode    fs.FileMode // permissions; 0 means those that the file has
}

// Restore gives the file rel the content of to, if its content still has the checksum is; "" means that there is no
// file. Otherwise the error is [ErrChanged].
func Restore(ctx context.Context, root *os.Root, rel, is string, to State) error {
	var err error
	switch {
	case is == "" && to.Sum == "":
		return nil
	case is == "":
		if err = create(ctx, root, rel, to.Content, to.Mode, true); errors.Is(err, fs.ErrExist) {
			err = ErrChanged
		}
		return err
	case to.Sum == "":
		err = Remove(ctx, root, rel, func(old []byte) error { return unchanged(old, is) })
	default:
		err = locked(ctx, root, rel, func(h *held) error {
			old, err := h.read()
			if err == nil {
				err = unchanged(old, is)
			}
			if err != nil {
				return err
			}
			perm := to.Mode
			if perm == 0 {
				perm = h.info.Mode().Perm()
			}
			return h.replace(ctx, to.Content, perm)
		})
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrChanged
	}
	return err
}

func unchanged(content []byte, sum string) error {
	if Sum(content) != sum {
		return ErrChanged
	}
	return nil
}

// Read returns the content and the permissions of the file rel, which could be changed; a nil content if there is no
// file.
func Read(root *os.Root, rel string) (content []byte, perm fs.FileMode, err error) {
	dir, err := folder(root, filepath.Dir(rel), false)
	if err == nil {
		defer dir.Close()
		h := &held{root: root, rel: rel, dir: dir, name: filepath.Base(rel)}
		if err = h.open(); err == nil {
			defer h.file.Close()
			if h.info, err = h.file.Stat(); err == nil {
				content, err = h.read()
				return content, h.info.Mode().Perm(), err
			}
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return nil, 0, err
}

// RemoveEmpty removes the folder dir and those above it up to top, as far as they are empty.
func RemoveEmpty(root *os.Root, dir, top string) {
	for dir == top || strings.HasPrefix(dir, top+string(filepath.Separator)) {
		above, err := folder(root, filepath.Dir(dir), false)
		if err != nil {
			return
		}
		f, err := above.Open(".")
		if err == nil {
			err = unix.Unlinkat(int(f.Fd()), filepath.Base(dir), unix.AT_REMOVEDIR)
			f.Close()
		}
		above.Close()
		if err != nil {
			return
		}
		dir = filepath.Dir(dir)
	}
}
