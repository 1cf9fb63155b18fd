package isolate

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"qq/internal/box/filestate"
	"qq/internal/isolate/files"
)

// maxText is the size of the largest file that is joined by lines, and of which an old content is kept.
const maxText = 1 << 20

// version is a file as it was before a join changed it.
type version struct {
	join  int // the number of the join
	state files.State
	data  []byte // of a file that can be joined by lines
}

// history has the files that joins changed, for the bases of copies that were made before.
type history struct {
	mu       sync.Mutex
	joins    int
	versions map[string][]version // by path, in the order of joins; only those that a copy needs
	marks    map[string]mark      // of files, as the last join left them
}

// mark is a file as a join left it.
type mark struct {
	stamp filestate.Stamp // of no file if it was removed
	by    []joiner        // the tasks that were joined
}

// joiner is a task that was joined.
type joiner struct {
	join int // its number
	task string
}

// version returns the file as it was before the first join after the one with that number that changed it.
func (h *history) version(after int, path string) (version, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, v := range h.versions[path] {
		if v.join > after {
			return v, true
		}
	}
	return version{}, false
}

// add adds the files that a join is about to change, for copies that were made before.
func (h *history) add(versions map[string]version) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.joins++
	for name, v := range versions {
		v.join = h.joins
		h.versions[name] = append(h.versions[name], v)
	}
}

// below returns the names in the folder dir that joins changed.
func (h *history) below(dir string) (names []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name := range h.versions {
		if path.Dir(name) == dir {
			names = append(names, path.Base(name))
		}
	}
	return names
}

// ours reports whether a file is as the last join left it.
func (h *history) ours(path string, info fs.FileInfo) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	mark, ok := h.marks[path]
	return ok && mark.stamp == filestate.StampOf(info)
}

// left notes that the join of a task left a file as it is in the tree now. The oldest copy was made after the join with
// that number.
func (h *history) left(live *os.Root, path, task string, oldest int) {
	by := slices.DeleteFunc(h.marks[path].by, func(j joiner) bool { return j.join <= oldest }) // nobody asks for it
	m := mark{by: append(by, joiner{h.joins, task})}
	if info, err := live.Lstat(path); err == nil {
		m.stamp = filestate.StampOf(info)
	}
	h.marks[path] = m
}

// who returns who changed a file of the tree after the join with that number. The file is as info says, nil if there is
// none.
func (h *history) who(after int, path string, info fs.FileInfo) string {
	const most = 3
	h.mu.Lock()
	defer h.mu.Unlock()
	var stamp filestate.Stamp
	if info != nil {
		stamp = filestate.StampOf(info)
	}
	var all []string
	if m := h.marks[path]; m.stamp == stamp {
		for _, by := range m.by {
			if by.join > after && by.task != "" && !slices.Contains(all, by.task) {
				all = append(all, by.task)
			}
		}
	}
	if more := len(all) - most; more > 0 {
		all = append(all[:most], fmt.Sprintf("%d more", more))
	}
	return cmp.Or(strings.Join(all, ", "), "somebody else")
}

// forget drops what no copy needs, after gone was removed: each needs the first version after it was made. The caller
// holds h.mu.
func (h *history) forget(gone *Copy, copies map[*Copy]struct{}) {
	var made []int // after which joins copies were made
	for c := range copies {
		if made = append(made, c.joins); c.joins == gone.joins {
			return
		}
	}
	slices.Sort(made)
	for name, versions := range h.versions {
		before := 0
		left := slices.DeleteFunc(versions, func(v version) bool {
			i, _ := slices.BinarySearch(made, before)
			before = v.join
			return i == len(made) || made[i] >= v.join
		})
		if h.versions[name] = left; len(left) == 0 {
			delete(h.versions, name)
		}
	}
}

// base returns the state of a file when the copy was made. sure is false if somebody else changed it since.
func (c *Copy) base(path string) (s files.State, sure bool, err error) {
	t := c.tree
	if v, ok := t.history.version(c.joins, path); ok {
		return v.state, true, nil
	}
	if m := c.manifest; m != nil {
		if mode, sum, ok := m.Base(c.prefix + path); ok {
			return files.State{Mode: files.PlainMode(mode), Sum: sum}, true, nil
		}
		s, _, err := files.Look(t.live, path, false)
		return s, s.None(), err // the task did not see it
	}
	s, info, err := files.Look(t.live, path, false)
	if err != nil || info == nil || info.IsDir() || t.history.ours(path, info) {
		return s, true, err
	}
	return s, files.Before(filestate.StampOf(info).Changed, c.began), nil
}

// baseNames returns the names in a folder when the copy was made.
func (c *Copy) baseNames(dir string) ([]string, error) {
	names, err := files.List(c.tree.live, dir, false)
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
		if s.None() || files.Temporary(names[i]) {
			names = slices.Delete(names, i, i+1)
			i--
		}
	}
	return names, nil
}
