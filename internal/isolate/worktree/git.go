// Package worktree copies what a repository of git has checked out to worktrees of their own.
//
// A checkout may come from anybody. So git runs without its hooks, monitors, pagers and transports, with the folders of
// the repository named, and only for what starts no filter: to find the commit, to read it into an index and to list
// files. What is in the files is copied without git: a worktree has the bytes of the checkout, with all that is not
// committed. Files that git ignores are copied only if a pattern in .worktreeinclude matches them.
//
// A worktree is detached, and makes no branch. Not promised: that the folders of submodules are repositories in a
// worktree; that empty folders are copied.
package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"qq/internal/approval/rules/gitconfig"
	"qq/internal/isolate/files"
	"qq/pkg/proc"
	"qq/pkg/task"
)

// Repository is a checkout.
type Repository struct {
	Top    string // the folder with the files, without links
	Common string // the folder of git that all worktrees share
	dir    string // the folder of git for this worktree
	git    string
	env    []string
	host   *proc.Host
}

// Top returns the top folder of the repository in which a folder is, an absolute path without links, or "".
func Top(folder string) string {
	for at := folder; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, ".git")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
}

// Find returns the repository of a folder, an absolute path without links. git is looked up in the PATH of env.
func Find(folder string, host *proc.Host, env []string) (*Repository, error) {
	at := Top(folder)
	if at == "" {
		return nil, errors.New("the folder belongs to no repository of git")
	}
	link := filepath.Join(at, ".git")
	info, err := os.Stat(link)
	if err != nil {
		return nil, err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("%s belongs to another user", link)
	}
	r := &Repository{Top: at, host: host}
	dir, ok := gitconfig.Folder(link, link)
	if info.IsDir() {
		dir, ok = link, true
	}
	if r.dir, r.Common = dir, dir; !ok {
		return nil, fmt.Errorf("%s cannot be read", link)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "commondir")); err == nil {
		r.Common = strings.TrimRight(string(text), "\r\n")
		if !filepath.IsAbs(r.Common) {
			r.Common = filepath.Join(dir, r.Common)
		}
	}
	return r, r.find(env)
}

// find finds git, and cleans the environment for it.
func (r *Repository) find(env []string) error {
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		if name == "PATH" {
			for _, folder := range filepath.SplitList(value) {
				file := filepath.Join(folder, "git")
				real, err := filepath.EvalSymlinks(file)
				outside := !strings.HasPrefix(real, r.Top+"/")
				if info, statErr := os.Stat(real); err == nil && statErr == nil && filepath.IsAbs(folder) && outside &&
					info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
					r.git = file
					break
				}
			}
		}
		if !strings.HasPrefix(name, "GIT_") && !strings.HasPrefix(name, "LD_") {
			r.env = append(r.env, entry)
		}
	}
	if r.git == "" {
		return errors.New("git is not installed")
	}
	r.env = append(r.env, "GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=", "GIT_TERMINAL_PROMPT=0",
		"LC_ALL=C")
	return nil
}

// patience is how long one call of git may take.
const patience = time.Minute

// run runs git in the checkout and returns what it prints.
func (r *Repository) run(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	return r.runIn(ctx, r.dir, r.Top, stdin, args...)
}

// runIn is run for the worktree top, for which dir is the folder of git.
func (r *Repository) runIn(ctx context.Context, dir, top string, stdin []byte, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("git has not ended within %v", patience))
	defer cancel()
	argv := []string{"git"}
	for _, setting := range []string{
		"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.untrackedCache=false", "core.pager=cat",
		"submodule.recurse=false", "gc.auto=0", "maintenance.auto=false", "core.alternateRefsCommand=true",
	} {
		argv = append(argv, "-c", setting)
	}
	var pipes [3][2]*os.File // of stdin, stdout and stderr
	for i := range pipes {
		read, write, err := os.Pipe()
		if err != nil {
			return nil, fmt.Errorf("make a pipe: %w", err)
		}
		defer read.Close()
		defer write.Close()
		pipes[i] = [2]*os.File{read, write}
	}
	p, err := r.host.Start(proc.Command{
		Path: r.git, Args: append(argv, args...), Dir: top, Grace: time.Second, Namespace: true,
		Env:   append(slices.Clip(r.env), "GIT_DIR="+dir, "GIT_WORK_TREE="+top),
		Stdin: pipes[0][0], Stdout: pipes[1][1], Stderr: pipes[2][1], Marker: "QQ_COMMAND_ID_GIT=" + task.NewID(),
	})
	if err != nil {
		return nil, err
	}
	for _, f := range []*os.File{pipes[0][0], pipes[1][1], pipes[2][1]} {
		f.Close()
	}
	defer context.AfterFunc(ctx, p.Kill)()
	said := make(chan []byte, 1)
	go func() {
		_, _ = pipes[0][1].Write(stdin)
		pipes[0][1].Close()
		text, _ := io.ReadAll(io.LimitReader(pipes[2][0], 4096))
		_, _ = io.Copy(io.Discard, pipes[2][0])
		said <- text
	}()
	out, _ := io.ReadAll(pipes[1][0])
	text := <-said
	switch exit := p.Wait(); {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case exit.Code != 0:
		return out, &exitError{args[0], exit.Code, string(bytes.TrimSpace(text))}
	}
	return out, nil
}

// exitError is the error about git that did not exit with 0.
type exitError struct {
	command string
	code    int
	said    string
}

func (e *exitError) Error() string {
	last := e.said[strings.LastIndexByte(e.said, '\n')+1:]
	return fmt.Sprintf("git %s exited with %d: %s", e.command, e.code, last)
}

// Ignored returns those of the paths, relative to the top of the checkout, that git ignores. A file that git tracks is
// not ignored, nor is one of a submodule.
func (r *Repository) Ignored(ctx context.Context, paths []string) ([]string, error) {
	found, err := r.ignored(ctx, paths)
	if _, refused := errors.AsType[*exitError](err); !refused {
		return found, err
	}
	submodules, err := r.submodules(ctx)
	if err != nil {
		return nil, err
	}
	links := map[string]bool{}
	return r.ignored(ctx, slices.DeleteFunc(slices.Clone(paths), func(name string) bool {
		return r.foreign(name, submodules, links)
	}))
}

// ignored is [Repository.Ignored] for paths about which git says something.
func (r *Repository) ignored(ctx context.Context, paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	const here = "./" // a colon at the beginning has a meaning for git
	out, err := r.run(ctx, []byte(here+strings.Join(paths, "\x00"+here)), "check-ignore", "-z", "--stdin")
	if e, ok := errors.AsType[*exitError](err); ok && e.code == 1 { // none of them
		return nil, nil
	}
	found := split(out)
	for i, name := range found {
		found[i] = strings.TrimPrefix(name, here)
	}
	return found, err
}

// submodules returns the folders that are submodules.
func (r *Repository) submodules(ctx context.Context) (map[string]bool, error) {
	out, err := r.run(ctx, nil, "ls-files", "-z", "--stage")
	all := map[string]bool{}
	for _, line := range split(out) {
		if mode, name, ok := strings.Cut(line, "\t"); ok && strings.HasPrefix(mode, "160000 ") {
			all[name] = true
		}
	}
	return all, err
}

// foreign reports whether name is below a submodule or a link. About such a path git says nothing but an error. links
// has folders that were looked at.
func (r *Repository) foreign(name string, submodules, links map[string]bool) bool {
	dir := path.Dir(name)
	if dir == "." {
		return false
	}
	link, known := links[dir]
	if !known {
		info, err := os.Lstat(filepath.Join(r.Top, dir))
		link = submodules[dir] || err == nil && info.Mode().Type() == fs.ModeSymlink ||
			r.foreign(dir, submodules, links)
		links[dir] = link
	}
	return link
}

// files returns the files of the checkout that a worktree gets.
func (r *Repository) files(ctx context.Context) ([]string, error) {
	out, err := r.run(ctx, nil, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	names := split(out)
	const include = ".worktreeinclude"
	if info, err := os.Lstat(filepath.Join(r.Top, include)); err == nil && info.Mode().IsRegular() {
		out, err := r.run(ctx, nil, "ls-files", "-z", "--others", "--ignored", "--exclude-from="+include)
		if err != nil {
			return nil, err
		}
		names = append(names, split(out)...)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return files.Temporary(path.Base(name)) })
	slices.Sort(names)
	return slices.Compact(names), nil
}

func split(out []byte) []string {
	return strings.FieldsFunc(string(out), func(c rune) bool { return c == 0 })
}

// Add makes a worktree in folder, which does not exist. The name of the folder must be one that no worktree has. Only
// one process at a time may add a worktree to a repository. What git notes about the worktree appears at once: if git
// finds a part of it, because this process was killed, it fails in the checkout of the person.
func (r *Repository) Add(ctx context.Context, folder string) (*Manifest, error) {
	head, err := r.run(ctx, nil, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	if err != nil {
		return nil, fmt.Errorf("the repository has no commit (HEAD): %w", err)
	}
	if _, err := os.Lstat(filepath.Join(r.Common, "reftable")); err == nil {
		return nil, errors.New("the repository keeps its references in a reftable")
	}
	name := filepath.Base(folder)
	own, beside := filepath.Join(r.Common, "worktrees", name), filepath.Join(r.Common, name+unlisted)
	for _, dir := range []string{folder, beside} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
	}
	for file, text := range map[string]string{
		filepath.Join(folder, ".git"):      "gitdir: " + own,
		filepath.Join(beside, "gitdir"):    filepath.Join(folder, ".git"),
		filepath.Join(beside, "commondir"): "../..",
		filepath.Join(beside, "HEAD"):      string(bytes.TrimSpace(head)),
	} {
		if err := os.WriteFile(file, []byte(text+"\n"), 0o644); err != nil {
			return nil, err
		}
	}
	if err := list(beside, own); err != nil {
		return nil, err
	}
	if _, err := r.runIn(ctx, own, folder, nil, "read-tree", "HEAD"); err != nil {
		return nil, err
	}
	names, err := r.files(ctx)
	if err != nil {
		return nil, err
	}
	return duplicate(ctx, r.Top, folder, names)
}

// list renames beside to own, and makes the folder of own. That one goes with the last worktree, which others may
// remove between the two.
func list(beside, own string) (err error) {
	for range 1000 {
		if err = os.Mkdir(filepath.Dir(own), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err = os.Rename(beside, own); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

// unlisted ends the name that the folder of git for a worktree has while it is made or removed.
const unlisted = ".unlisted"

// Remove removes what git notes about the worktree with that name in the folder common of a repository. The worktree
// need not be complete, and its folder is removed by the caller.
func Remove(common, name string) error {
	if name == "" || strings.Contains(name, "/") {
		return fmt.Errorf("%q is no name of a worktree", name)
	}
	all, beside := filepath.Join(common, "worktrees"), filepath.Join(common, name+unlisted)
	if err := os.RemoveAll(beside); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(all, name), beside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.RemoveAll(beside); err != nil {
		return err
	}
	// As git does: the folder goes with the last worktree.
	if err := os.Remove(all); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) &&
		!errors.Is(err, syscall.ENOTEMPTY) {
		return err
	}
	return nil
}
