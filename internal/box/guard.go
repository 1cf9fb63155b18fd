package box

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"qq/internal/approval/rules/gitconfig"
	"qq/internal/box/filestate"
	"qq/internal/box/placeholder"
	"qq/internal/sandbox"
	"qq/internal/tools/tree"
)

// maxMounts bounds the files and folders of one command that stay read-only by mounts.
const maxMounts = 200

// guard says which files of a working directory a command cannot write.
type guard struct {
	readOnly, fixed []string // as in [sandbox.View]
	write           []string // further folders that the command may write
	held            []placeholder.Held
}

// guard returns the guard of a command, for which s is the state of the working directory. The caller releases its
// placeholders.
func (b *Box) guard(s snapshot) (g guard) {
	for _, item := range s.items {
		full := b.watch.full(item)
		switch {
		case s.states[item].Mode.Type() == fs.ModeSymlink: // only its target could be mounted
		case b.watch.writable(s, item):
			if s.repository(item) {
				b.repository(&g, full)
			}
		case b.watch.protected(s, item) && len(g.readOnly) < maxMounts:
			// What the commands of this agent made below is theirs: they may remove it too.
			g.readOnly = append(g.readOnly, full)
			if !s.repository(item) {
				continue // programs cannot rename files into or out of a folder that is fixed
			}
			for at := path.Dir(item); at != "."; at = path.Dir(at) {
				g.fixed = append(g.fixed, b.watch.full(at))
			}
		}
	}
	for _, path := range b.exempted {
		if isRepository(path) && !sandbox.Within(path, b.watch.dir) {
			b.repository(&g, path)
		}
	}
	b.hold(&g, b.watch.dir, b.missing(s))
	slices.Sort(g.fixed)
	g.fixed = slices.Compact(g.fixed)
	return g
}

// exempt reports whether a person allowed commands to write to the absolute path. Of a repository, what git runs stays
// as it is.
func (b *Box) exempt(abs string) bool {
	return slices.ContainsFunc(b.exempted, func(dir string) bool {
		return abs == dir || sandbox.Within(abs, dir) && !isRepository(dir)
	})
}

// isRepository reports whether a file or folder is that in which git keeps a repository, by its name.
func isRepository(file string) bool {
	return strings.EqualFold(path.Base(filepath.ToSlash(file)), ".git")
}

// inRepository reports whether a folder above dir is a repository.
func inRepository(dir string) bool {
	for up := filepath.Dir(dir); up != dir; dir, up = up, filepath.Dir(up) {
		if _, err := os.Lstat(filepath.Join(up, ".git")); err == nil {
			return true
		}
	}
	return false
}

// missing returns the names at the top of the working directory that are not there and that commands must not make.
func (b *Box) missing(s snapshot) (names []string) {
	for _, name := range tree.ObeyedNames() {
		if !slices.Contains(s.items, name) && !b.exempt(b.watch.full(name)) {
			names = append(names, name)
		}
	}
	return names
}

// gitFiles are the files in a repository that say what git runs and where it looks. They stay read-only where a
// command may write to the repository, to commit, and so do [tree.RepositoryFolders].
var gitFiles = []string{"config", ofWorktree, "commondir", "gitdir"}

// ofWorktree is the file with the settings of one worktree, if the repository has these.
const ofWorktree = "config.worktree"

// repository adds to g what must stay as it is where commands may write to the repository at the absolute path at. A
// file there belongs to a worktree, see worktree.
func (b *Box) repository(g *guard, at string) {
	info, err := os.Lstat(at)
	if err != nil {
		return
	}
	if info.Mode().IsRegular() {
		g.readOnly = append(g.readOnly, at)
		if own, shared, ok := worktree(at, b.watch.dir); ok {
			g.write = append(g.write, own)
			for _, name := range []string{"objects", "refs", "logs"} {
				if info, err := os.Lstat(filepath.Join(shared, name)); err == nil && info.IsDir() {
					g.write = append(g.write, filepath.Join(shared, name))
				}
			}
			makeSettings(own)
			b.keep(g, own)
		}
		return
	}
	g.fixed = append(g.fixed, at)
	b.keep(g, at)
}

// makeAllSettings makes the file with the settings of the main worktree in the repositories that commands may write to,
// where git reads it. It does so before the snapshot, in which the file is then.
func (b *Box) makeAllSettings() {
	for _, path := range b.exempted {
		info, err := os.Lstat(path)
		if err == nil && info.IsDir() && isRepository(path) && gitconfig.PerWorktree(path) {
			makeSettings(path)
		}
	}
}

// makeSettings makes the file with the settings of a worktree in the folder at, so that no command makes it. It stays:
// git takes an empty one for no settings, and a placeholder for a broken repository.
func makeSettings(at string) {
	if f, err := os.OpenFile(filepath.Join(at, ofWorktree), os.O_CREATE|os.O_EXCL, 0o644); err == nil {
		f.Close()
	}
}

// keep adds to g what says what git runs in the folder at, and holds the folders of these that are missing.
func (b *Box) keep(g *guard, at string) {
	g.add(at, gitFiles)
	g.add(at, tree.RepositoryFolders())
	b.hold(g, at, slices.DeleteFunc(tree.RepositoryFolders(), func(name string) bool {
		return slices.Contains(g.readOnly, filepath.Join(at, name))
	}))
}

// add adds those of names in dir that exist to what stays read-only.
func (g *guard) add(dir string, names []string) {
	for _, name := range names {
		path := filepath.Join(dir, name)
		info, err := os.Lstat(path)
		if err == nil && info.Mode().Type() != fs.ModeSymlink && !placeholder.Is(path, info) {
			g.readOnly = append(g.readOnly, path)
		}
	}
}

// worktree returns the folder of its own and the shared folder of the worktree of git whose .git is the file at the
// absolute path. A file that came with a checkout can name any folder. So the folder must name the file in turn, and
// be outside of dir, where commands can write.
func worktree(at, dir string) (own, shared string, ok bool) {
	if own, ok = gitconfig.Folder(at, at); !ok || sandbox.Within(own, dir) {
		return "", "", false
	}
	back, err := filestate.ReadFile(filepath.Join(own, "gitdir"))
	if err != nil {
		return "", "", false
	}
	named, err := filepath.EvalSymlinks(strings.TrimSuffix(string(back), "\n"))
	shared = filepath.Dir(filepath.Dir(own))
	return own, shared, err == nil && named == at && filepath.Base(filepath.Dir(own)) == "worktrees"
}
