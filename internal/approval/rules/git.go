package rules

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"qq/internal/approval/rules/gitconfig"
)

// maxConfig is the largest configuration of a repository that is read, in bytes.
const maxConfig = 256 << 10

// asGit returns the call of git so that nothing which a checkout brings starts a program. git gets
// the repository that was checked and does not look for one itself.
func (c Call) asGit(dir string) (Call, error) {
	if len(c.Args) < 2 || strings.HasPrefix(c.Args[1], "-") {
		return c, errors.New("git gets an option before its subcommand")
	}
	repo, err := findRepository(dir)
	if err != nil {
		return c, err
	}
	o, _ := optionsOf(c.Args)
	remotes, err := repo.check()
	if err == nil && o.transfers {
		err = remotes.check(c.Args[2:])
	}
	if err != nil {
		return c, err
	}
	if o.changes {
		if err := repo.noHooks(); err != nil {
			return c, err
		}
	} else {
		c.Env = append(c.Env, "GIT_OPTIONAL_LOCKS=0") // a written index would run a hook
	}
	c.Env = append(c.Env, "GIT_DIR="+repo.dir, "GIT_WORK_TREE="+repo.tree, "GIT_NO_LAZY_FETCH=1",
		"GIT_ALLOW_PROTOCOL="+networks) // a repository in a folder runs its own hooks and configuration
	args := []string{c.Args[0]}
	for _, setting := range []string{
		"core.fsmonitor=false", "core.hooksPath=/dev/null", "core.pager=cat", "core.editor=true",
		"submodule.recurse=false", "diff.ignoreSubmodules=all", "log.showSignature=false",
		"safe.bareRepository=explicit", "gc.auto=0", "maintenance.auto=false",
	} {
		args = append(args, "-c", setting)
	}
	args = append(append(args, c.Args[1]), o.neutral...)
	c.Args = append(args, c.Args[2:]...)
	return c, nil
}

// repository is what git would find from a folder.
type repository struct {
	tree   string // the top of the files
	dir    string // what GIT_DIR names
	common string // with the configuration; differs from dir in a linked worktree
}

// findRepository returns the repository that the folder dir belongs to.
func findRepository(dir string) (repository, error) {
	for at := dir; ; at = filepath.Dir(at) {
		link := filepath.Join(at, ".git")
		info, err := os.Stat(link)
		switch {
		case err == nil && info.IsDir():
			return linked(repository{tree: at, dir: link})
		case err == nil:
			to, err := firstLine(link)
			to, ok := strings.CutPrefix(to, "gitdir: ")
			if err != nil || !ok {
				return repository{}, fmt.Errorf("%s cannot be read", link)
			}
			return linked(repository{tree: at, dir: absolute(at, to)})
		case exists(link):
			return repository{}, fmt.Errorf("%s cannot be read", link)
		case exists(filepath.Join(at, "HEAD")) && exists(filepath.Join(at, "objects")):
			return repository{}, fmt.Errorf("%s is a repository without files", at)
		case at == filepath.Dir(at):
			return repository{}, errors.New("the folder belongs to no repository of git")
		}
	}
}

// linked returns r with its common folder.
func linked(r repository) (repository, error) {
	r.common = r.dir
	name := filepath.Join(r.dir, "commondir")
	if !exists(name) {
		return r, nil
	}
	to, err := firstLine(name)
	if err != nil {
		return r, fmt.Errorf("%s cannot be read", name)
	}
	r.common = absolute(r.dir, to)
	return r, nil
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// firstLine returns the only line of a file.
func firstLine(name string) (string, error) {
	text, err := readConfig(name)
	line, rest, _ := strings.Cut(string(text), "\n")
	if err == nil && (rest != "" || line == "") {
		err = errors.New("it has not one line")
	}
	return line, err
}

// check returns the remotes of r, and an error if its configuration may start a program, or send git elsewhere.
func (r repository) check() (remotes, error) {
	found := remotes{dir: r.common}
	for _, name := range []string{filepath.Join(r.common, "config"), filepath.Join(r.dir, "config.worktree")} {
		if !exists(name) {
			continue
		}
		text, err := readConfig(name)
		if err != nil {
			return found, fmt.Errorf("%s cannot be checked: %w", name, err)
		}
		set, key := gitconfig.Parse(text)
		if key != "" {
			return found, fmt.Errorf("%s sets %s, and qq does not know that this starts no program", name, key)
		}
		found.settings = append(found.settings, set...)
	}
	return found, nil
}

// noHooks returns an error if r has a hook.
func (r repository) noHooks() error {
	hooks := filepath.Join(r.common, "hooks")
	entries, err := os.ReadDir(hooks)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s cannot be read", hooks)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".sample") {
			return fmt.Errorf("%s has the hook %s", hooks, e.Name())
		}
	}
	return nil
}

// readConfig reads a small regular file of the user, or of root.
func readConfig(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular() || info.Size() > maxConfig:
		return nil, errors.New("it is no small file")
	case ok && owner.Uid != 0 && int(owner.Uid) != os.Getuid():
		return nil, errors.New("it belongs to another user")
	}
	return io.ReadAll(io.LimitReader(f, maxConfig))
}
