package box

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"qq/internal/approval/rules/gitconfig"
	"qq/internal/sandbox"
	"qq/internal/tools/tree"
)

const (
	maxNamed = 50 // files and folders that the settings of one repository name
	maxChain = 8  // items of which each names the next one
)

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
		if rel = filepath.ToSlash(rel); err != nil || rel == "." || !sandbox.Within(abs, w.dir) || covered(kinds, rel, k) {
			return
		}
		if was, ok := kinds[rel]; !ok || was == (kind{bare: true}) && k.bare {
			kinds[rel] = k
		}
	}
	if _, ok := kinds["HEAD"]; ok { // the working directory is a bare repository
		for _, name := range append(tree.RepositoryFolders(), gitFiles...) {
			found(w.full(name), kind{by: "HEAD"})
		}
		w.settings(found, "HEAD", w.dir, w.dir)
	}
	for _, item := range slices.Sorted(maps.Keys(kinds)) {
		full := w.full(item)
		to, err := filepath.EvalSymlinks(full)
		if err != nil {
			continue
		}
		if !isRepository(item) {
			found(to, kind{by: item})
		} else if dir, ok := repositoryOf(full, to); ok {
			if dir != to {
				found(to, kind{by: item})
			}
			if !sandbox.Within(full, dir) {
				found(dir, kind{bare: true, by: item})
			}
			w.settings(found, item, filepath.Dir(full), dir)
		}
		if kinds[item].bare {
			w.settings(found, item, full, full)
		}
	}
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

// repositoryOf returns the folder of git for the .git at the absolute path full, which is to without links.
func repositoryOf(full, to string) (dir string, ok bool) {
	info, err := os.Lstat(to)
	if err != nil || info.IsDir() {
		return to, err == nil
	}
	text, err := readFile(to)
	if err != nil {
		return "", false
	}
	if dir, ok = gitDir(text); !ok {
		return "", false
	}
	dir, err = filepath.EvalSymlinks(under(filepath.Dir(full), dir))
	return dir, err == nil
}

// settings reports what the settings of a repository name: further files with settings, and the folders with hooks.
// top is the folder with the files that are checked out, dir that of git.
func (w *watch) settings(found func(abs string, k kind), item, top, dir string) {
	shared := dir
	if text, err := readFile(filepath.Join(dir, "commondir")); err == nil {
		shared = under(dir, strings.TrimRight(string(text), "\r\n"))
	}
	files := []string{filepath.Join(shared, "config"), filepath.Join(dir, ofWorktree)}
	tops, hooks := []string{top}, []string{}
	for i := 0; i < len(files); i++ {
		for _, s := range w.config(files[i]) {
			switch value := s.Text(); {
			case len(files)+len(tops)+len(hooks) > maxNamed:
			case s.Key == "path":
				if file := under(filepath.Dir(files[i]), value); !slices.Contains(files, file) {
					files = append(files, file)
				}
			case s.Key == "worktree":
				tops = append(tops, under(dir, value))
			default:
				hooks = append(hooks, value)
			}
		}
	}
	named := files[2:]
	for _, hook := range hooks {
		for _, top := range tops {
			named = append(named, under(top, hook))
		}
	}
	for _, path := range named {
		place := filepath.Join(resolve(filepath.Dir(path)), filepath.Base(path))
		found(place, kind{by: item})
		found(resolve(place), kind{by: item})
	}
}

// under returns the path that value means in a setting that is about dir. The home of another user is not looked up.
func under(dir, value string) string {
	if rest, ok := strings.CutPrefix(value, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	if filepath.IsAbs(value) {
		return filepath.Clean(value)
	}
	return filepath.Join(dir, value)
}

// config is what was read in a file with settings of git.
type config struct {
	stamp    stamp
	settled  bool                // an equal stamp means that the settings still hold
	settings []gitconfig.Setting // that name files
}

// config returns the settings in a file that name files and folders.
func (w *watch) config(file string) []gitconfig.Setting {
	file, err := filepath.EvalSymlinks(file)
	if err != nil {
		return nil
	}
	now := time.Now()
	info, err := os.Lstat(file)
	if err != nil {
		return nil
	}
	c := config{stamp: stampOf(info)}
	if known := w.configs[file]; known.settled && known.stamp == c.stamp {
		return known.settings
	}
	text, _ := readFile(file)
	leads := func(s gitconfig.Setting) bool {
		switch s.Section {
		case "include", "includeif":
			return s.Key == "path" && s.Value != ""
		case "core":
			return s.Name == "" && s.Value != "" && (s.Key == "hookspath" || s.Key == "worktree")
		}
		return false
	}
	c.settled = now.Sub(c.stamp.changed) > racy
	c.settings = slices.DeleteFunc(gitconfig.Read(text), func(s gitconfig.Setting) bool { return !leads(s) })
	if w.configs == nil {
		w.configs = map[string]config{}
	}
	w.configs[file] = c
	return c.settings
}
