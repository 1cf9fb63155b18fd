package session

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"qq/pkg/task"
)

// Archive is a folder with the transcripts of children. The children of one root are in a [Store]
// of their own, in a folder with the id of the root. The id of a transcript is that of the execution.
type Archive struct{ Dir string }

// Of returns the store of the children of a root.
func (a Archive) Of(root string) *Store { return Open(filepath.Join(a.Dir, root)) }

// roots returns the ids of the roots with transcripts, the latest first. If there is no archive,
// there are none.
func (a Archive) roots() ([]string, error) {
	entries, err := os.ReadDir(a.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list transcripts: %w", err)
	}
	var roots []string
	for _, e := range entries {
		if e.IsDir() && valid(e.Name()) {
			roots = append(roots, e.Name())
		}
	}
	slices.Reverse(roots) // ids of executions begin with their time
	return roots, nil
}

// List returns a summary of each transcript, but at most limit of them; 0 means no limit. Those of the
// root that began last come first, the last begun first. more says that there are others. It opens only
// the files that it returns, because an archive may have very many.
func (a Archive) List(limit int) (list []Summary, more bool, err error) {
	roots, err := a.roots()
	if err != nil {
		return nil, false, err
	}
	for _, root := range roots {
		st := a.Of(root)
		ids, err := st.ids()
		if err != nil {
			return nil, false, err
		}
		slices.Sort(ids)
		for _, id := range slices.Backward(ids) {
			if limit > 0 && len(list) >= limit {
				return list, true, nil
			}
			info, err := os.Lstat(st.path(id))
			if err != nil || !info.Mode().IsRegular() {
				continue // it was removed meanwhile, or is none
			}
			s, err := st.summarize(file{id, info.ModTime()})
			if errors.Is(err, ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, false, err
			}
			list = append(list, s)
		}
	}
	return list, false, nil
}

// Find returns the full id of the only transcript whose id is id, or begins or ends with it, and the
// store that it is in. The error wraps [ErrNotFound] if there is none.
func (a Archive) Find(id string) (in *Store, whole string, err error) {
	roots, err := a.roots()
	if err != nil {
		return nil, "", err
	}
	var found []string
	for _, root := range roots {
		st := a.Of(root)
		ids, err := st.ids()
		if err != nil {
			return nil, "", err
		}
		if slices.Contains(ids, id) {
			return st, id, nil
		}
		for _, one := range ids {
			if id != "" && (strings.HasPrefix(one, id) || strings.HasSuffix(one, id)) {
				in, found = st, append(found, one)
			}
		}
	}
	switch len(found) {
	case 0:
		return nil, "", task.Hinted("`qq sessions list --children` shows them", "%w: %s", ErrNotFound, id)
	case 1:
		return in, found[0], nil
	}
	return nil, "", task.Hinted("write more of the id: "+strings.Join(found[:min(3, len(found))], " ")+" …",
		"transcript %s is several", id)
}

// Prune removes the transcripts to which nobody has appended for longer than olderThan, and returns
// their ids. It does not remove those that are in use, nor those of the roots that are at work, whose children are not
// lost when they have ended.
func (a Archive) Prune(olderThan time.Duration, atWork map[string]bool) (removed []string, err error) {
	roots, err := a.roots()
	for _, root := range roots {
		if atWork[root] {
			continue
		}
		st := a.Of(root)
		gone, pruneErr := st.Prune(olderThan)
		removed, err = append(removed, gone...), cmp.Or(err, pruneErr)
		_ = os.Remove(st.dir) // only works if it is empty
	}
	return removed, err
}
