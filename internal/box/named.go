package box

import (
	"cmp"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"qq/internal/approval/rules/gitconfig"
	"qq/internal/sandbox"
	"qq/internal/tools/tree"
)

// maxChain bounds how many items are followed of which each names the next one.
const maxChain = 8

// kind says why an item is obeyed. The zero kind is that of an item with a name that programs know.
type kind struct {
	bare bool   // a folder that git takes for a repository by what is in it, or that a .git file or link leads to
	by   string // the item that names it; empty means none
}

// repository reports whether item is that in which git keeps a repository, or leads there.
func (s snapshot) repository(item string) bool { return isRepository(item) || s.kinds[item].bare }

// protected reports whether commands may not write the item of s: it was there when the agent began, or has a name
// that programs know at the top of the working directory, or such an item names it. A bare repository counts as the
// .git in it would.
func (w *watch) protected(s snapshot, item string) bool {
	for range maxChain {
		k := s.kinds[item]
		if _, ok := w.began[item]; ok {
			return true
		}
		if k.by == "" {
			return !k.bare && !strings.Contains(item, "/")
		}
		item = k.by
	}
	return false
}

// writable reports whether a person allowed commands to write the item of s. Who allows that of a .git file or link
// means the repository.
func (w *watch) writable(s snapshot, item string) bool {
	k := s.kinds[item]
	return w.exempt(w.full(item)) || k.bare && k.by != "" && w.exempt(w.full(k.by))
}

// name adds to kinds what its items name in the working directory, also if it does not exist yet.
func (w *watch) name(kinds map[string]kind) {
	found := func(abs string, k kind) {
		rel, err := filepath.Rel(w.dir, abs)
		rel = filepath.ToSlash(rel)
		if err != nil || rel == "." || !sandbox.Within(abs, w.dir) || covered(kinds, rel, k) {
			return
		}
		if was, ok := kinds[rel]; !ok || was == (kind{bare: true}) && k.bare {
			kinds[rel] = k
		}
	}
	var finder gitconfig.Finder
	settings := func(item, top, dir string) {
		for _, path := range finder.Named(top, dir) {
			place := filepath.Join(resolve(filepath.Dir(path)), filepath.Base(path))
			found(place, kind{by: item})
			found(resolve(place), kind{by: item})
		}
	}
	if _, ok := kinds["HEAD"]; ok { // the working directory is a bare repository
		for _, name := range append(tree.RepositoryFolders(), gitFiles...) {
			found(w.full(name), kind{by: "HEAD"})
		}
		settings("HEAD", w.dir, w.dir)
	}
	for _, item := range slices.SortedFunc(maps.Keys(kinds), byDepth(kinds)) {
		full := w.full(item)
		info, err := os.Lstat(full)
		if err != nil {
			continue
		}
		to := full
		if info.Mode().Type() == fs.ModeSymlink {
			if to, err = filepath.EvalSymlinks(full); err != nil {
				continue
			}
		}
		if !isRepository(item) {
			if to != full {
				found(to, kind{by: item})
			}
		} else if dir, ok := gitconfig.Folder(full, to); ok {
			if dir != to {
				found(to, kind{by: item})
			}
			if !sandbox.Within(full, dir) {
				found(dir, kind{bare: true, by: item})
			}
			settings(item, filepath.Dir(full), dir)
		}
		if kinds[item].bare {
			settings(item, full, full)
		}
	}
}

// byDepth returns an order of items, the shallow ones first. A bare repository counts as the .git in it would.
func byDepth(kinds map[string]kind) func(a, b string) int {
	depth := func(item string) int {
		if kinds[item].bare {
			return strings.Count(item, "/") + 1
		}
		return strings.Count(item, "/")
	}
	return func(a, b string) int { return cmp.Or(depth(a)-depth(b), cmp.Compare(a, b)) }
}

// covered reports whether the relative path rel is looked at as a part of another item.
func covered(kinds map[string]kind, rel string, k kind) bool {
	for at := path.Dir(rel); at != "."; at = path.Dir(at) {
		above, ok := kinds[at]
		if inside := strings.TrimPrefix(rel, at+"/"); ok {
			return !above.bare && !isRepository(at) || gitObeys(inside, true) || k.bare && gitLeads(inside)
		}
	}
	return false
}
