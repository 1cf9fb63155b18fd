// Package locate finds the files in the working directory that the inputs of a batch name.
package locate

import (
	"os"
	"path/filepath"
	"strings"
)

// Finder finds files. It is not safe for concurrent use.
type Finder struct {
	Base string // the working directory, without symbolic links

	dir   string            // as the caller has named it
	inner map[string]bool   // folders, and whether they are inside
	known map[string]string // results of Find
}

const (
	maxKnown = 10_000  // names that a Finder remembers: lists have each value in many tasks
	maxName  = 4 << 10 // bytes of a name that may be a file
)

// In returns a finder for a working directory; empty means that of the process.
func In(dir string) (*Finder, error) {
	base, err := Real(dir)
	return &Finder{Base: base, dir: dir, inner: map[string]bool{}, known: map[string]string{}}, err
}

// Path returns where the file of a relative name is.
func (f *Finder) Path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(f.dir, name)
}

// Find returns the path of a regular file in the working directory, or "" if name is none.
func (f *Finder) Find(name string) string {
	if len(name) > maxName {
		return ""
	}
	path, ok := f.known[name]
	if !ok {
		path = f.Path(name)
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || !f.Inside(path) {
			path = ""
		}
		if len(f.known) == maxKnown {
			clear(f.known)
		}
		f.known[strings.Clone(name)] = path
	}
	return path
}

// Inside reports whether a path leads to a place in the working directory.
func (f *Finder) Inside(path string) bool { return inside(f.Base, path, f.inner) }

// Real returns the absolute path of a folder without symbolic links.
func Real(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

// inside reports whether a path leads to a place in the folder base. It keeps in known which folders do.
func inside(base, path string, known map[string]bool) bool {
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
		dir := filepath.Dir(path)
		is, ok := known[dir]
		if !ok {
			is = inside(base, dir, known)
			known[dir] = is
		}
		return is
	}
	real, err := Real(path)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(base, real)
	return err == nil && filepath.IsLocal(rel)
}
