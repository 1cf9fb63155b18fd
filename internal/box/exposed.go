package box

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"qq/internal/sandbox"
	"qq/internal/tools/tree"
)

// Exposed returns an item that commands with the working directory own may not write, but those with the working
// directory dir might, or "". It is one that dir is or is below, or one in dir that something outside of dir names.
// Both are real paths, and dir is in own.
func Exposed(own, dir string) string {
	w := &watch{dir: own}
	kinds := w.search()
	w.name(kinds)
	for _, item := range slices.Sorted(maps.Keys(kinds)) {
		full, by := w.full(item), kinds[item].by
		named := by != "" && sandbox.Within(full, dir) && !sandbox.Within(w.full(by), dir)
		if sandbox.Within(dir, full) || named {
			return filepath.ToSlash(item)
		}
	}
	return ""
}

// Obeyed returns those of paths, relative to the working directory with slashes, that commands may not write there, and
// those that programs obey all the same, of which a person is told. It is for changes that were made elsewhere, and
// that are to be made in the working directory.
func (b *Box) Obeyed(paths []string) (held, told []string) {
	w := &watch{dir: b.Dir, exempt: b.exempt}
	s := w.snapshot(nil)
	named := slices.Collect(maps.Keys(s.kinds)) // also what does not exist
	for _, p := range paths {
		kept := func(item string) bool { return sandbox.Within(p, item) && w.protected(s, item) }
		first, _, _ := strings.Cut(p, "/")
		switch {
		case b.exempt(w.full(p)):
		case tree.Obeyed(first), slices.ContainsFunc(named, kept):
			held = append(held, p)
		case slices.ContainsFunc(strings.Split(p, "/"), tree.Obeyed):
			told = append(told, p)
		}
	}
	return held, told
}
