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
	// maxLinked is how many places the links of one target may lead to.
	maxLinked = 1000
)

// Resolver makes targets. It remembers the folders that it has seen, so it is for one plan. Only one
// goroutine may use it at a time.
type Resolver struct {
	root  string // absolute, with links followed
	fold  bool
	seen  map[string]string      // real paths
	kinds map[string]kind        // of what was looked at
	links *targets.Index[string] // below root; nil means not searched yet
}

// kind says what is at a path.
type kind uint8

const (
	missing kind = iota
	file         // or a link, or anything else that is no folder
	folder
)

// New returns a Resolver for tasks in root and its folders. fold says that the file system does not tell
// upper from lower case: see [Folds].
func New(root string, fold bool) (*Resolver, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	r := &Resolver{fold: fold, seen: map[string]string{"": ""}, kinds: map[string]kind{"": folder}}
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
	if i := strings.IndexAny(text, `*?[{\`); i >= 0 && (strings.ContainsAny(text, "*?") || !exists(text)) {
		// A file may be called a*, and then a* is still meant as a glob: it matches that file too.
		i = strings.LastIndexByte(text[:i], '/')
		fixed, rest = text[:i], text[i:]
	}
	clean := filepath.Clean(fixed)
	own := r.real(filepath.Dir(clean), 0) + "/" + filepath.Base(clean)
	if clean == "/" {
		own = ""
	}
	paths := []string{own, r.real(clean, 0), r.real(fixed, 0)} // a/../b is not b if a is a link
	var found []targets.Target
	for i, path := range paths {
		if i > 0 && slices.Contains(paths[:i], path) {
			continue
		}
		t := targets.Parse(path+rest, r.fold)
		if rest == "" {
			t = targets.Literal(path, r.fold)
			if r.kinds[path] == file {
				t = t.AsFile()
			}
		}
		if !slices.Contains(found, t) {
			found = append(found, t)
		}
	}
	return r.follow(found)
}

// follow returns found with what the links in it lead to, and the links in that. If these are many, it returns what
// may be anything.
func (r *Resolver) follow(found []targets.Target) []targets.Target {
	links, own := r.below(), len(found)
	for k := 0; k < len(found); k++ {
		for _, ref := range links.Overlapping(found[k], nil) {
			at, link := links.At(ref)
			if targets.Contains(at, found[k]) {
				continue
			}
			to := targets.Literal(r.real(link, 0), r.fold)
			if slices.ContainsFunc(found, func(t targets.Target) bool { return targets.Contains(t, to) }) {
				continue
			}
			if found = append(found, to); len(found)-own > maxLinked {
				return []targets.Target{{}}
			}
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
		if to := r.look(parent, found); to != "" && links < maxLinks {
			if !filepath.IsAbs(to) {
				to = parent + "/" + to
			}
			found = r.real(to, links+1)
		}
	}
	r.seen[path] = found
	return found
}

// look looks at path, which is in the folder parent. It returns where it leads to if it is a link. What is below a path
// that is no folder is missing.
func (r *Resolver) look(parent, path string) (to string) {
	if at, known := r.kinds[parent]; known && at != folder {
		return ""
	}
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		r.kinds[path] = missing
	case info.IsDir():
		r.kinds[path] = folder
	default:
		r.kinds[path] = file
		if info.Mode()&fs.ModeSymlink != 0 {
			to, _ = os.Readlink(path)
		}
	}
	return to
}

// below returns the links in the root. Those of Git and of installed packages are left out.
func (r *Resolver) below() *targets.Index[string] {
	if r.links != nil {
		return r.links
	}
	r.links = &targets.Index[string]{}
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
			r.links.Add(targets.Literal(path, r.fold), path)
		}
		return nil
	})
	return r.links
}
