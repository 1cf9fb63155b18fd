// Package changes keeps account of the files that agents have changed: which ones, what they are
// called in another folder, and whether their task named them.
package changes

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Files are the files that an agent or its descendants have changed. The zero value has none. Several
// goroutines may call its methods at once.
type Files struct {
	mu    sync.Mutex
	paths map[string]struct{}
}

// Add adds paths.
func (f *Files) Add(paths []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.paths == nil {
		f.paths = map[string]struct{}{}
	}
	for _, p := range paths {
		f.paths[p] = struct{}{}
	}
}

// With returns the files together with more, sorted and without repetitions. If there are none, it
// returns more as it is.
func (f *Files) With(more []string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.paths) == 0 {
		return more
	}
	all := append(slices.Collect(maps.Keys(f.paths)), more...)
	slices.Sort(all)
	return slices.Compact(all)
}

// Take removes all files and returns them, sorted.
func (f *Files) Take() []string {
	all := f.With(nil)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paths = nil
	return all
}

// Outside returns the changed files that no target covers. Without targets it returns none.
func Outside(targets, changed []string) (strays []string) {
	if len(targets) == 0 {
		return nil
	}
	c := newCover(targets)
	for _, file := range changed {
		if !c.has(file) {
			strays = append(strays, file)
		}
	}
	return strays
}

// OutsideOfTargets stands in each of the Warnings.
const OutsideOfTargets = "outside of the targets"

// Warnings says which files were changed that no target covers: those that tools reported, and those of unsaid, which
// changed while commands ran and which nobody has reported.
func Warnings(targets, changed, unsaid []string) (warnings []string) {
	if strays := Outside(targets, changed); len(strays) > 0 {
		warnings = append(warnings, "files were changed "+OutsideOfTargets+": "+strings.Join(strays, ", "))
	}
	strays := slices.DeleteFunc(Outside(targets, unsaid), func(f string) bool { return slices.Contains(changed, f) })
	if len(strays) > 0 {
		more := ""
		if n := len(strays) - maxStrays; n > 0 {
			strays, more = strays[:maxStrays], fmt.Sprintf(" and %d more", n)
		}
		warnings = append(warnings, "files "+OutsideOfTargets+" were changed while its commands ran, by these or by "+
			"somebody else: "+strings.Join(strays, ", ")+more)
	}
	return warnings
}

// maxStrays is how many files of commands a warning names.
const maxStrays = 20

// Relocate changes the paths in files from relative to the folder to into relative to the folder
// base. It leaves them as they are if it cannot compute the way from base to to.
func Relocate(base, to string, files []string) {
	if to == base || len(files) == 0 {
		return
	}
	from, err := filepath.Abs(base)
	if err != nil {
		return
	}
	if to, err = filepath.Abs(to); err != nil {
		return
	}
	rel, err := filepath.Rel(from, to)
	if err != nil || rel == "." {
		return
	}
	for i, f := range files {
		files[i] = path.Join(filepath.ToSlash(rel), f)
	}
}
