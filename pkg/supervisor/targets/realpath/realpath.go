// Package realpath makes targets of the paths and globs that people and models write: absolute, and with
// symbolic links followed as far as they exist. It reads folders and links, and changes nothing.
package realpath

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"qq/pkg/supervisor/targets"
)

const (
	// maxLinks is how many links one path may lead through, as in the kernel.
	maxLinks = 40
	// maxEntries is how many files and folders are searched for links. Links after that are not known.
	maxEntries = 200_000
)

// Resolver makes targets. It remembers the folders that it has seen, so it is for one plan. Only one
// goroutine may use it at a time.
type Resolver struct {
	root  string // absolute, with links followed
	fold  bool
	seen  map[string]string // real paths
	links []string          // below root; nil means not searched yet
}

// New returns a Resolver for tasks in root and its folders. fold says that the file system does not tell
// upper from lower case: see [Folds].
func New(root string, fold bool) (*Resolver, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	r := &Resolver{fold: fold, seen: map[string]string{"": ""}}
	r.root = r.real(abs, 0)
	return r, nil
}

// Root returns the root as the targets have it.
func (r *Resolver) Root() string { return targets.Literal(r.root, r.fold).String() }

// Folds reports whether the file system of dir finds it under its name in the other case as well.
func Folds(dir string) bool {
	other := strings.Map(func(c rune) rune {
		if unicode.IsUpper(c) {
			return unicode.ToLower(c)
		}
		return unicode.ToUpper(c)
	}, filepath.Base(dir))
	own, err := os.Stat(dir)
	if err != nil || other == filepath.Base(dir) {
		return false
	}
	found, err := os.Stat(filepath.Join(filepath.Dir(dir), other))
	return err == nil && os.SameFile(own, found)
}

// Targets returns the targets for a path or a glob of a task that works in dir, a folder relative to the
// root. They are several if it leads through links: the link and what it leads to can both be changed.
func (r *Resolver) Targets(dir, text string) []targets.Target {
	if !filepath.IsAbs(dir) {
		dir = r.root + "/" + dir
	}
	if !filepath.IsAbs(text) {
		text = dir + "/" + text
	}
	fixed, rest := text, ""
	if i := strings.IndexAny(text, `*?[{\`); i >= 0 && !exists(text) {
		i = strings.LastIndexByte(text[:i], '/')
		fixed, rest = text[:i], text[i:]
	}
	clean := filepath.Clean(fixed)
	own := r.real(filepath.Dir(clean), 0) + "/" + filepath.Base(clean)
	if clean == "/" {
		own = ""
	}
	var found []targets.Target
	add := func(t targets.Target) {
		if !slices.Contains(found, t) {
			found = append(found, t)
		}
	}
	for _, path := range []string{own, r.real(clean, 0), r.real(fixed, 0)} { // a/../b is not b if a is a link
		t := targets.Parse(path+rest, r.fold)
		if rest == "" {
			t = targets.Literal(path, r.fold)
			if info, err := os.Lstat(path); err == nil && !info.IsDir() {
				t = t.AsFile()
			}
		}
		add(t)
	}
	for _, link := range r.below() {
		at := targets.Literal(link, r.fold)
		if slices.ContainsFunc(found, func(t targets.Target) bool {
			return targets.Overlap(t, at) && !targets.Contains(at, t)
		}) {
			add(targets.Literal(r.real(link, 0), r.fold))
		}
	}
	return found
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// real returns path without links, "." and "..", and without a slash at its end. What does not exist stays as it is.
func (r *Resolver) real(path string, links int) string {
	if found, ok := r.seen[path]; ok {
		return found
	}
	i := strings.LastIndexByte(path, '/')
	parent, name := r.real(path[:i], links), path[i+1:]
	found := parent
	switch name {
	case "", ".":
	case "..":
		found = parent[:max(strings.LastIndexByte(parent, '/'), 0)]
	default:
		found = parent + "/" + name
		if to, err := os.Readlink(found); err == nil && links < maxLinks {
			if !filepath.IsAbs(to) {
				to = parent + "/" + to
			}
			found = r.real(to, links+1)
		}
	}
	r.seen[path] = found
	return found
}

// below returns the links in the root. Those of Git and of installed packages are left out.
func (r *Resolver) below() []string {
	if r.links != nil {
		return r.links
	}
	r.links = []string{}
	entries := 0
	_ = filepath.WalkDir(r.root+"/", func(path string, d fs.DirEntry, err error) error {
		entries++
		switch {
		case entries > maxEntries:
			return filepath.SkipAll
		case err != nil: // a folder that cannot be read has no links that a task can follow
			return nil
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case d.Type()&fs.ModeSymlink != 0:
			r.links = append(r.links, path)
		}
		return nil
	})
	return r.links
}
