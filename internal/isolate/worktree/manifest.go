package worktree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"

	"qq/internal/box/filestate"
)

// Manifest has the files of a worktree as they were copied, and their folders.
type Manifest struct {
	entries map[string]entry
	below   map[string][]string // the names in a folder
}

type entry struct {
	stamp   filestate.Stamp
	settled bool        // an equal stamp later means that nothing changed
	mode    fs.FileMode // in the checkout
	sum     string
}

// Unchanged reports whether the file at path, about which info is, is certainly as it was copied.
func (m *Manifest) Unchanged(path string, info fs.FileInfo) bool {
	e, ok := m.entries[path]
	return ok && e.settled && e.stamp == filestate.StampOf(info)
}

// Base returns the file at path as it was in the checkout: its mode, and the checksum of its content or the target of
// the link. ok is false if it was not copied.
func (m *Manifest) Base(path string) (mode fs.FileMode, sum string, ok bool) {
	e, ok := m.entries[path]
	return e.mode, e.sum, ok
}

// Names returns the names in the folder dir that were copied.
func (m *Manifest) Names(dir string) []string { return m.below[dir] }

// add adds a path.
func (m *Manifest) add(name string, mode fs.FileMode, sum string) {
	if _, ok := m.entries[name]; !ok {
		m.entries[name] = entry{mode: mode, sum: sum}
		m.below[path.Dir(name)] = append(m.below[path.Dir(name)], path.Base(name))
	}
}

// duplicate copies the named files from one folder to another. Names that are gone are left out.
func duplicate(ctx context.Context, from, to string, names []string) (*Manifest, error) {
	d := duplication{m: &Manifest{map[string]entry{}, map[string][]string{}}}
	var err error
	if d.from, err = os.OpenRoot(from); err != nil {
		return nil, err
	}
	defer d.from.Close()
	if d.to, err = os.OpenRoot(to); err != nil {
		return nil, err
	}
	defer d.to.Close()
	for _, name := range names {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err := d.copy(path.Clean(name)); err != nil {
			return nil, err
		}
	}
	now := time.Now()
	for name, e := range d.m.entries {
		info, err := d.to.Lstat(name)
		if err != nil {
			return nil, err
		}
		e.stamp = filestate.StampOf(info)
		e.settled = e.stamp.Settled(now)
		d.m.entries[name] = e
	}
	return d.m, nil
}

type duplication struct {
	from, to *os.Root
	m        *Manifest
}

// copy copies a file or link, or a folder with all but repositories.
func (d duplication) copy(name string) error {
	info, err := d.from.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || path.Base(name) == ".git" {
		return nil
	}
	if err != nil {
		return err
	}
	if err := d.folder(path.Dir(name)); err != nil {
		return err
	}
	switch {
	case info.IsDir(): // a submodule, or a repository in a folder
		if err := d.folder(name); err != nil {
			return err
		}
		return d.all(name)
	case info.Mode().Type() == fs.ModeSymlink:
		target, err := d.from.Readlink(name)
		if err == nil {
			err = d.to.Symlink(target, name)
		}
		d.m.add(name, info.Mode(), target)
		return err
	case info.Mode().IsRegular():
		sum, err := d.file(name, info)
		d.m.add(name, info.Mode(), sum)
		return err
	}
	return nil // a socket or device
}

func (d duplication) all(name string) error {
	f, err := d.from.Open(name)
	if err != nil {
		return err
	}
	entries, err := f.ReadDir(-1)
	f.Close()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := d.copy(path.Join(name, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// folder makes the folder name as it is in the checkout.
func (d duplication) folder(name string) error {
	if _, ok := d.m.entries[name]; ok || name == "." {
		return nil
	}
	if err := d.folder(path.Dir(name)); err != nil {
		return err
	}
	info, err := d.from.Stat(name)
	if err != nil {
		return err
	}
	d.m.add(name, info.Mode(), "")
	if err := d.to.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return d.to.Chmod(name, info.Mode().Perm()|0o300) // what is in it is copied next
}

// file copies a file and returns its checksum.
func (d duplication) file(name string, info fs.FileInfo) (sum string, err error) {
	from, err := d.from.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer from.Close()
	to, err := d.to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(to, h), from)
	err = errors.Join(err, to.Chmod(info.Mode().Perm()), to.Close())
	return hex.EncodeToString(h.Sum(nil)), errors.Join(err, d.to.Chtimes(name, info.ModTime(), info.ModTime()))
}
