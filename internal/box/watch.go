package box

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"qq/internal/box/filestate"
	"qq/internal/box/placeholder"
	"qq/internal/sandbox"
	"qq/internal/tools/tree"
)

// Bounds of what is looked at in a working directory.
const (
	maxFolders = 1000     // of those that are searched for obeyed files, the shallow ones first
	maxEntries = 100_000  // of one folder
	maxFiles   = 2000     // in one obeyed folder
	maxAll     = 20_000   // obeyed ones
	maxKept    = 16 << 20 // bytes of all contents
)

// watch finds the files in a folder that programs obey, and remembers what it has read.
type watch struct {
	dir     string                // without links
	exempt  func(abs string) bool // what need not be watched
	folders map[string]folder
	files   map[string]filestate.State // of the last snapshot
	began   map[string]kind            // items that were there at the first snapshot
	noted   map[string]bool            // partial items that a person was told of
}

// folder is what was found in a folder.
type folder struct {
	stamp   filestate.Stamp
	below   []string // names of folders to search
	obeyed  []string // names that programs obey
	bare    bool     // git takes it for a repository
	settled bool     // an equal stamp means that the listing still holds
}

// snapshot is the state of all obeyed files at one time.
type snapshot struct {
	states  map[string]filestate.State // by path relative to the folder, with slashes
	items   []string                   // what programs obey, with folders above; states has what is in them too
	kinds   map[string]kind            // of the items, and of those that do not exist but are named by others
	folders map[string]folder          // that were searched
	partial map[string]bool            // items with more files than are looked at
}

// change is a difference between two snapshots.
type change struct {
	path string
	kind string // changed, removed, new or replaced
}

// snapshot looks at all obeyed files. A file that changes at that moment may be missing. kinds are those of the
// snapshot to compare with: its items are looked at too. Without one, these are the items that were there when the
// agent began, and what items name: that is not asked again, as a command may have changed the answer.
func (w *watch) snapshot(kinds map[string]kind) (s snapshot) {
	s.states, s.partial, s.kinds = map[string]filestate.State{}, map[string]bool{}, w.search()
	carried := kinds
	if kinds == nil {
		carried = w.began
	}
	for item, k := range carried {
		dir := filepath.Dir(w.full(item))
		if _, ok := s.kinds[item]; ok || resolve(dir) == dir { // no link was put in its way
			s.kinds[item] = k
		}
	}
	if kinds == nil {
		w.name(s.kinds)
	}
	// What counts most comes first, as there are bounds: repositories and what they name, then what is at the top.
	items := slices.SortedFunc(maps.Keys(s.kinds), byDepth(s.kinds))
	slices.SortStableFunc(items, func(a, b string) int { return s.weight(a) - s.weight(b) })
	kept := 0
	for _, item := range items {
		if w.collect(item, &s, &kept) {
			s.items = append(s.items, item)
		}
	}
	w.files, s.folders = s.states, w.folders
	if w.began == nil {
		w.began = map[string]kind{}
		for _, item := range s.items {
			w.began[item] = s.kinds[item]
		}
	}
	return s
}

// search returns the items that are in the working directory.
func (w *watch) search() map[string]kind {
	known, kinds := w.folders, map[string]kind{}
	w.folders = map[string]folder{}
	for queue := []string{"."}; len(queue) > 0 && len(w.folders) < maxFolders; queue = queue[1:] {
		at := queue[0]
		f, ok := w.list(at, known[at])
		if !ok {
			continue
		}
		w.folders[at] = f
		for _, name := range f.obeyed {
			kinds[path.Join(at, name)] = kind{}
		}
		switch {
		case f.bare && at == ".":
			kinds["HEAD"] = kind{}
		case f.bare:
			kinds[at] = kind{bare: true}
		}
		for _, name := range f.below {
			queue = append(queue, path.Join(at, name))
		}
	}
	return kinds
}

// weight is less for the items that are looked at first.
func (s snapshot) weight(item string) int {
	if s.repository(item) || s.kinds[item].by != "" {
		return 0
	}
	return 1
}

// inPlace reports whether the folders above the relative path file are the same as in the snapshot before.
func (s snapshot) inPlace(before snapshot, file string) bool {
	for at := path.Dir(file); at != "."; at = path.Dir(at) {
		a, was := before.folders[at]
		b, is := s.folders[at]
		if was && (!is || !a.stamp.SameFile(b.stamp)) {
			return false
		}
	}
	return true
}

// same reports whether what c is about is as it was in first.
func (s snapshot) same(first snapshot, c change) bool {
	a, was := first.states[c.path]
	b, is := s.states[c.path]
	return was == is && !a.Differs(b) && (c.kind != "replaced" || a.Inode == b.Inode)
}

// unseen reports whether c, from before to after, only seems to have happened, because not all files were looked at.
func (w *watch) unseen(before, after snapshot, c change) bool {
	in := func(s snapshot) bool {
		return slices.ContainsFunc(s.items, func(item string) bool {
			return s.partial[item] && sandbox.Within(c.path, item)
		})
	}
	switch c.kind {
	case "new":
		return in(before)
	case "removed":
		_, err := os.Lstat(w.full(c.path))
		return err == nil && in(after)
	}
	return false
}

// full returns the absolute path of the relative path rel.
func (w *watch) full(rel string) string { return filepath.Join(w.dir, filepath.FromSlash(rel)) }

// list returns what is in the folder at the relative path at. known is what was found there before.
func (w *watch) list(at string, known folder) (folder, bool) {
	now := time.Now()
	info, err := os.Lstat(w.full(at))
	if err != nil || !info.IsDir() {
		return folder{}, false
	}
	f := folder{stamp: filestate.StampOf(info)}
	if known.settled && known.stamp == f.stamp {
		return known, true
	}
	f.settled = f.stamp.Settled(now)
	entries, _ := entriesOf(w.full(at))
	parts := map[string]bool{} // by which git knows a repository
	for _, e := range entries {
		name := e.Name()
		switch name {
		case "HEAD", "objects", "refs", "commondir":
			parts[name] = true
		}
		switch {
		case tree.Obeyed(name):
			f.obeyed = append(f.obeyed, name)
		case e.IsDir() && name != "node_modules": // which package managers fill and empty
			f.below = append(f.below, name)
		}
	}
	if f.bare = parts["HEAD"] && (parts["objects"] && parts["refs"] || parts["commondir"]); f.bare {
		f.below = slices.DeleteFunc(f.below, func(name string) bool { return parts[name] })
	}
	return f, true
}

// entriesOf returns the first maxEntries entries of a folder.
func entriesOf(dir string) ([]fs.DirEntry, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(maxEntries)
}

// collect adds the file or folder at the relative path item, with all that is in it and programs obey, to s. It
// returns false if there is none, or a placeholder. kept counts the bytes of contents in s.
func (w *watch) collect(item string, s *snapshot, kept *int) bool {
	if info, err := os.Lstat(w.full(item)); err != nil || placeholder.Is(w.full(item), info) {
		return false
	}
	repository := s.repository(item)
	if !repository && w.writable(*s, item) {
		return true
	}
	add := func(rel, name string, info fs.FileInfo) {
		st := filestate.Read(name, info, w.files[rel], *kept < maxKept)
		*kept += len(st.Content)
		s.states[rel] = st
	}
	most := min(len(s.states)+maxFiles, maxAll)
	_ = filepath.WalkDir(w.full(item), func(name string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(w.dir, name)
		if err != nil || relErr != nil {
			return relErr
		}
		rel = filepath.ToSlash(rel)
		if inside, ok := strings.CutPrefix(rel, item+"/"); ok && repository && !gitObeys(inside, d.IsDir()) {
			return skipIf(d.IsDir() && !gitLeads(inside))
		}
		if len(s.states) >= most {
			s.partial[item] = true
			return fs.SkipAll
		}
		if info, err := d.Info(); err == nil { // else it is gone by now
			add(rel, name, info)
		}
		return nil
	})
	if !s.partial[item] {
		return true
	}
	for rel := range w.files { // what was seen once is not lost sight of
		if _, ok := s.states[rel]; ok || !sandbox.Within(rel, item) || len(s.states) >= 2*maxAll {
			continue
		}
		if info, err := os.Lstat(w.full(rel)); err == nil {
			add(rel, w.full(rel), info)
		}
	}
	return true
}

func skipIf(skip bool) error {
	if skip {
		return fs.SkipDir
	}
	return nil
}

// gitObeys reports whether git obeys the file or folder at the path inside of its own folder: settings, hooks, and
// what leads to other folders of git.
func gitObeys(inside string, dir bool) bool {
	for part := range strings.SplitSeq(inside, "/") {
		if part == "hooks" || part == "info" {
			return true
		}
	}
	base := path.Base(inside)
	return !dir && (base == "config" || base == "config.worktree" || base == "commondir" || base == "gitdir")
}

// gitLeads reports whether the folder at the path inside of git's own folder has further folders of git in it.
func gitLeads(inside string) bool {
	first, _, _ := strings.Cut(inside, "/")
	switch path.Base(inside) {
	case "objects", "refs", "logs":
		return false
	}
	return first == "modules" || first == "worktrees"
}

// compare returns what changed between two snapshots, sorted by path. A folder that is new stands for all that is in
// it.
func compare(before, after snapshot) (changes []change) {
	paths := slices.Concat(slices.Collect(maps.Keys(before.states)), slices.Collect(maps.Keys(after.states)))
	slices.Sort(paths)
	for _, p := range slices.Compact(paths) {
		a, was := before.states[p]
		b, is := after.states[p]
		kind := ""
		switch {
		case was && !is:
			kind = "removed"
		case !was && is:
			kind = "new"
		case a.Differs(b):
			kind = "changed"
		case a.Mode.IsDir() && a.Inode != b.Inode && slices.Contains(before.items, p):
			kind = "replaced"
		default:
			continue
		}
		covers := func(c change) bool { return c.kind == "new" && strings.HasPrefix(p, c.path+"/") }
		if kind != "new" || !slices.ContainsFunc(changes, covers) {
			changes = append(changes, change{p, kind})
		}
	}
	return changes
}
