package isolate

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"qq/internal/box/filestate"
)

// State is what a patch tells of a file: its type, permissions and content. The zero State is no file.
type State struct {
	Mode fs.FileMode // type and permissions
	Sum  string      // of the content of a file; of a link: its target
}

// plainMode returns the type and permissions in a mode. Those of a file let its owner read it, so that no mode is 0; a
// link has none.
func plainMode(mode fs.FileMode) fs.FileMode {
	switch {
	case mode.IsRegular():
		return mode.Perm() | 0o400
	case mode.Type() == fs.ModeSymlink:
		return fs.ModeSymlink
	}
	return mode.Type() | mode.Perm()
}

// none reports whether there is no file, and file whether it is a regular one.
func (s State) none() bool { return s.Mode == 0 }
func (s State) file() bool { return s.Mode != 0 && s.Mode.IsRegular() }

// maxText is the size of the largest file that is joined by lines, and of which an old content is kept.
const maxText = 1 << 20

// look returns the state of the file name. A name below something that is no folder is no file, also below a link. own
// says that the file is in a copy: then it is made readable if it is not.
func look(root *os.Root, name string, own bool) (State, fs.FileInfo, error) {
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
	s := State{Mode: plainMode(info.Mode())}
	switch {
	case info.Mode().Type() == fs.ModeSymlink:
		s.Sum, err = root.Readlink(name)
	case info.Mode().IsRegular():
		var f *os.File
		if f, err = open(root, name, own); err != nil {
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

// open opens a regular file.
func open(root *os.Root, name string, own bool) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if own && errors.Is(err, fs.ErrPermission) && root.Chmod(name, 0o600) == nil {
		f, err = root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	}
	return f, err
}

// list returns the names in a folder. It returns none if there is no such folder.
func list(root *os.Root, dir string, own bool) ([]string, error) {
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

// content returns the content of a file or the target of a link, but not of a large file.
func content(root *os.Root, name string, s State, limit int64) (data []byte, whole bool, err error) {
	if s.Mode.Type() == fs.ModeSymlink {
		return []byte(s.Sum), true, nil
	}
	f, err := open(root, name, false)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	data, err = io.ReadAll(io.LimitReader(f, limit+1))
	return data, int64(len(data)) <= limit, err
}

// version is a file as it was before a join changed it.
type version struct {
	join  int // the number of the join
	path  string
	state State
	data  []byte // of a file that can be joined by lines
}

// history has the files that joins changed, for the bases of copies that were made before.
type history struct {
	mu       sync.Mutex
	joins    int
	versions []version
	stamps   map[string]filestate.Stamp // of files, as the last join left them
}

// version returns the file as it was before the first join after the one with that number that changed it.
func (h *history) version(after int, path string) (version, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.versions, func(v version) bool { return v.join > after && v.path == path })
	if i < 0 {
		return version{}, false
	}
	return h.versions[i], true
}

// below returns the names in the folder dir that joins changed.
func (h *history) below(dir string) (names []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, v := range h.versions {
		if path.Dir(v.path) == dir {
			names = append(names, path.Base(v.path))
		}
	}
	return names
}

// ours reports whether a file is as the last join left it.
func (h *history) ours(path string, info fs.FileInfo) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	stamp, ok := h.stamps[path]
	return ok && stamp == filestate.StampOf(info)
}

// forget drops what no copy needs. The caller holds h.mu.
func (h *history) forget(copies map[*Copy]struct{}) {
	oldest := h.joins
	for c := range copies {
		oldest = min(oldest, c.joins)
	}
	h.versions = slices.DeleteFunc(h.versions, func(v version) bool { return v.join <= oldest })
}

// base returns the state of a file when the copy was made. sure is false if somebody else changed it since.
func (c *Copy) base(path string) (s State, sure bool, err error) {
	t := c.tree
	if v, ok := t.history.version(c.joins, path); ok {
		return v.state, true, nil
	}
	if m := c.manifest; m != nil {
		if mode, sum, ok := m.Base(c.prefix + path); ok {
			return State{plainMode(mode), sum}, true, nil
		}
		s, _, err := look(t.live, path, false)
		return s, s.none(), err // the task did not see it
	}
	s, info, err := look(t.live, path, false)
	if err != nil || info == nil || info.IsDir() || t.history.ours(path, info) {
		return s, true, err
	}
	return s, filestate.StampOf(info).Changed.Before(c.began.Add(-granularity)), nil
}

// granularity is how much older a file may seem that changes at one time with another one.
const granularity = 10 * time.Millisecond

// baseNames returns the names in a folder when the copy was made.
func (c *Copy) baseNames(dir string) ([]string, error) {
	names, err := list(c.tree.live, dir, false)
	if err != nil {
		return nil, err
	}
	names = append(names, c.tree.history.below(dir)...)
	slices.Sort(names)
	names = slices.Compact(names)
	for i := 0; i < len(names); i++ {
		s, _, err := c.base(path.Join(dir, names[i]))
		if err != nil {
			return nil, err
		}
		if s.none() || temporary(names[i]) {
			names = slices.Delete(names, i, i+1)
			i--
		}
	}
	return names, nil
}

// temporary reports whether name is that of a file that a join has not renamed yet.
func temporary(name string) bool { return strings.HasPrefix(name, tempPrefix) }

// tempPrefix begins the names of new files in the tree that a join has not renamed yet.
const tempPrefix = ".qq-join-"
