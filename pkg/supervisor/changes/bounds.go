package changes

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Bound says that a task may change only what its targets cover.
type Bound struct {
	Targets []string `json:"targets"`
	// Below is the working directory that the methods of [Bounds] are about, relative to that of the task, with
	// slashes.
	Below string `json:"below,omitempty"`
}

// Bounds are those of a task and of the tasks above it. Without any, everything may be changed.
type Bounds []Bound

// Bar returns the targets that bar a change of a file, which is relative to the working directory, or nil.
func (b Bounds) Bar(file string) []string {
	for _, one := range b {
		if len(Outside(one.Targets, []string{path.Join(one.Below, file)})) > 0 {
			return one.Targets
		}
	}
	return nil
}

// In returns the bounds for a task that works in the folder below, which is relative to the working directory. targets
// are its own, relative to that folder.
func (b Bounds) In(below string, targets []string) (all Bounds) {
	for _, one := range b {
		all = append(all, Bound{one.Targets, path.Join(one.Below, below)})
	}
	if len(targets) > 0 {
		all = append(all, Bound{Targets: targets})
	}
	return all
}

// Open returns the folders and files in the working directory dir that all bounds cover, a folder with all that is in
// it. The paths are relative to dir. What is a link, or below one, is left out. Files may be made at any time, so it
// looks for those that match a glob each time.
func (b Bounds) Open(dir string) (all []string) {
	seen := map[string]bool{}
	var covers []cover
	for _, one := range b {
		covers = append(covers, newCover(one.Targets))
	}
	for k, one := range b {
		for _, name := range one.named(dir, covers[k]) {
			if seen[name] {
				continue
			}
			seen[name] = true
			mode, ok := plain(dir, name)
			if !ok {
				continue
			}
			held := true
			for k, other := range b {
				held = held && other.holds(name, mode.IsDir(), covers[k])
			}
			if held {
				all = append(all, name)
			}
		}
	}
	return all
}

// plain returns the mode of a file or folder in dir, and false for others and for what is below a link.
func plain(dir, name string) (mode fs.FileMode, ok bool) {
	mode = fs.ModeDir
	for at := name; at != "."; at = path.Dir(at) {
		info, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(at)))
		if err != nil || !info.IsDir() && (at != name || !info.Mode().IsRegular()) {
			return 0, false
		}
		if at == name {
			mode = info.Mode()
		}
	}
	return mode, true
}

// named returns the paths in the folder dir, relative to it, that a target names, and the files that match one.
func (b Bound) named(dir string, c cover) (names []string) {
	below := path.Clean(b.Below)
	add := func(p string) { // p is relative to the folder of the task
		if within(below, p) {
			names = append(names, ".")
		} else if within(p, below) {
			names = append(names, strings.TrimPrefix(strings.TrimPrefix(p, below), "/"))
		}
	}
	top := strings.TrimSuffix(strings.TrimSuffix(dir, filepath.FromSlash(strings.TrimPrefix(below, "."))), "/")
	spelled := map[string]bool{} // they are open with all that is in them
	var globs []string           // the folders in which they are
	for _, t := range b.Targets {
		t = strings.TrimSuffix(path.Clean(t), "/**")
		spelled[t] = true
		add(t)
		if i := strings.IndexAny(t, meta); i >= 0 {
			globs = append(globs, path.Dir(t[:i]+"x"))
		}
	}
	slices.Sort(globs)
	globs = slices.Compact(globs)
	for _, dir := range globs {
		if slices.ContainsFunc(globs, func(other string) bool { return other != dir && within(dir, other) }) {
			continue // it is looked at with the other one
		}
		look := func(file string, e fs.DirEntry, err error) error {
			name, relErr := filepath.Rel(top, file)
			name = filepath.ToSlash(name)
			switch {
			case err != nil, relErr != nil: // what cannot be read, commands cannot write
			case e.IsDir() && spelled[name]:
				return fs.SkipDir
			case e.Type().IsRegular() && c.has(name):
				add(name)
			}
			return nil
		}
		_ = filepath.WalkDir(filepath.Join(top, filepath.FromSlash(dir)), look) // look returns no error
	}
	return names
}

// holds reports whether a target covers the path name, with all below if it is a folder.
func (b Bound) holds(name string, folder bool, c cover) bool {
	at := path.Join(b.Below, name)
	if !folder {
		return c.has(at)
	}
	return slices.ContainsFunc(c.targets, func(t string) bool { return within(at, strings.TrimSuffix(t, "/**")) })
}

// within reports whether a path is dir or below it.
func within(p, dir string) bool { return dir == "." || p == dir || strings.HasPrefix(p, dir+"/") }
