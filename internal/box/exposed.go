package box

import (
	"maps"
	"path/filepath"
	"slices"

	"qq/internal/sandbox"
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
