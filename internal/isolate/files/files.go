// Package files tells the state of files in a folder: their type, permissions and content, without following links. It
// orders paths, and removes folders.
package files

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// State is what a patch tells of a file: its type, permissions and content. The zero State is no file.
type State struct {
	Mode fs.FileMode // type and permissions
	Sum  string      // of the content of a file; of a link: its target
}

// PlainMode returns the type and permissions in a mode. A link has no permissions.
func PlainMode(mode fs.FileMode) fs.FileMode {
	if mode.Type() == fs.ModeSymlink {
		return fs.ModeSymlink
	}
	return mode.Type() | mode.Perm()
}

// EmptySum is the Sum of an empty file.
const EmptySum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// None reports whether there is no file.
func (s State) None() bool { return s == State{} }

// File reports whether it is a regular file.
func (s State) File() bool { return s.Mode.IsRegular() && !s.None() }

// unreadable is the sum of a file that its owner may not read.
const unreadable = "unreadable"

// TempPrefix begins the names of new files in the tree that a join has not renamed yet.
const TempPrefix = ".qq-join-"

// Temporary reports whether name is that of a file that a join has not renamed yet.
func Temporary(name string) bool { return strings.HasPrefix(name, TempPrefix) }

// Look returns the state of the file name. A name below something that is no folder is no file, also below a link. own
// says that the file is in a copy: then it is made readable if it is not, and the state has the permissions before.
func Look(root *os.Root, name string, own bool) (State, fs.FileInfo, error) {
	if !folders(root, path.Dir(name)) {
		return State{}, nil, nil
	}
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, nil, nil
	}
	if err != nil {
		return State{}, nil, err
	}
	s := State{Mode: PlainMode(info.Mode())}
	switch {
	case info.Mode().Type() == fs.ModeSymlink:
		s.Sum, err = root.Readlink(name)
	case info.Mode().IsRegular():
		var f *os.File
		f, err = Open(root, name, own)
		if errors.Is(err, fs.ErrPermission) && !own {
			s.Sum = unreadable
			return s, info, nil
		}
		if err != nil {
			return s, info, err
		}
		defer f.Close()
		h := sha256.New()
		_, err = io.Copy(h, f)
		s.Sum = hex.EncodeToString(h.Sum(nil))
	}
	return s, info, err
}

// folders reports whether name and all above it are folders, and not links to some.
func folders(root *os.Root, name string) bool {
	for ; name != "."; name = path.Dir(name) {
		if info, err := root.Lstat(name); err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

// Open opens a regular file.
func Open(root *os.Root, name string, own bool) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if own && errors.Is(err, fs.ErrPermission) && root.Chmod(name, 0o600) == nil {
		f, err = root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	}
	return f, err
}

// List returns the names in a folder. It returns none if there is no such folder.
func List(root *os.Root, dir string, own bool) ([]string, error) {
	if !folders(root, dir) {
		return nil, nil
	}
	f, err := root.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if own && errors.Is(err, fs.ErrPermission) && root.Chmod(dir, 0o700) == nil {
		f, err = root.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// Content returns the content of a file or the target of a link. It is not whole if the file is large, or may not be
// read.
func Content(root *os.Root, name string, s State, limit int64) (data []byte, whole bool, err error) {
	if s.Mode.Type() == fs.ModeSymlink {
		return []byte(s.Sum), true, nil
	}
	f, err := Open(root, name, false)
	if errors.Is(err, fs.ErrPermission) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	data, err = io.ReadAll(io.LimitReader(f, limit+1))
	return data, int64(len(data)) <= limit, err
}

// folder opens the folder of a name, and follows no link. It is there no more if it is a link by now.
func folder(root *os.Root, name string) (*os.File, error) {
	top, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer top.Close()
	fd, err := unix.FcntlInt(top.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	for _, part := range strings.Split(path.Dir(name), "/") {
		if err != nil {
			break
		}
		above := fd
		fd, err = unix.Openat(above, part, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		_ = unix.Close(above)
	}
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		err = unix.ENOENT
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path.Dir(name), Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Folder opens the folder of a name, and follows no link: who replaces a folder by a link meanwhile leads nobody
// elsewhere. The error is [fs.ErrNotExist] if it is no folder. base is the name in it.
func Folder(root *os.Root, name string) (dir *os.Root, base string, err error) {
	f, err := folder(root, name)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	dir, err = os.OpenRoot("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
	return dir, path.Base(name), err
}

// Rename renames a file, and follows no link.
func Rename(root *os.Root, from, to string) error { return both(root, from, to, unix.Renameat) }

// Link gives a file one more name, and follows no link.
func Link(root *os.Root, from, to string) error {
	return both(root, from, to, func(fromDir int, from string, toDir int, to string) error {
		return unix.Linkat(fromDir, from, toDir, to, 0)
	})
}

func both(root *os.Root, from, to string, call func(int, string, int, string) error) error {
	a, err := folder(root, from)
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := folder(root, to)
	if err != nil {
		return err
	}
	defer b.Close()
	if err := call(int(a.Fd()), path.Base(from), int(b.Fd()), path.Base(to)); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// Compare orders paths with slashes so that a folder comes just before what is in it.
func Compare(a, b string) int { return slices.Compare(split(a), split(b)) }

func split(p string) (parts []string) {
	for i := range len(p) {
		if p[i] == '/' {
			parts = append(parts, p[:i+1])
		}
	}
	return append(parts, p+"/")
}

// RemoveAll removes a folder, also what a task made unreadable.
func RemoveAll(folder string) error {
	err := os.RemoveAll(folder)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700) // before it is read
		}
		return nil
	})
	return os.RemoveAll(folder)
}
