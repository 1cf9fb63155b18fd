// Package isolate gives each task that writes a copy of the tree, and joins what the tasks changed.
//
// Vocabulary: the tree is the folder of a person in which agents work. A copy shows a task the tree as it is, with all
// that is not committed, and keeps what the task changes. A patch is what a task changed. To join a patch is to make
// the changes in the tree. The base of a file is its state in the tree when the copy was made.
//
// Flow: [Open] prepares a tree. [Tree.Make] makes a copy, with the means of its [Mode]. [Copy.Enter] makes a process
// run in it. When the processes are gone, [Copy.Patch] says what changed: the files and folders whose type,
// permissions or content are no longer those of their base. [Tree.Join] joins patches, one after another: each wholly
// or, if a change of it is in conflict with the tree, not at all; then the patch is kept in a file for the person.
// [Copy.Remove] removes the copy. If a process is killed, [Sweep] of a later one removes its copies. If there can be no
// patch, [Copy.Keep] keeps what the task wrote.
//
// A file that two tasks changed is joined by lines: see package merge. A file that somebody else changed while a task
// changed its copy is in conflict, because its base is not known.
//
// Choices: files that git ignores are no changes, unless git tracks them; [Patch.Ignored] names them. Without git, all
// files count. Folders of git are never in a patch, so what a task commits is lost. Empty folders are joined, but the
// file of a kept patch has none. Owners, times and attributes of files are not joined. A folder that a task removed
// stays if somebody else put a file there.
//
// After a kill at any moment, the tree is as before or as after one patch once Sweep has run; each single file is so
// at any time. First, all new files are written under other names in the tree (.qq-join-…) and to the disk. Then a
// journal is committed, and the files are renamed. Sweep finishes a committed journal and undoes another one. If a file
// cannot be renamed, because the disk is full or broken, those that were are taken back. Between
// the kill and Sweep, some files may be new and others old. A file that somebody changes meanwhile is left alone, and
// the new content is kept beside the patches.
//
// A copy stays as it was when others are joined, with two exceptions for an overlay: new files of those appear in it,
// and a folder that they removed lists nothing, though its files can be opened.
//
// Not promised: that a copy stays as it was when somebody else changes the tree: an overlay shows such a file as it was
// or as it is, until the task writes it. That a file which somebody else removes while the task writes it stays
// removed. That folders can be renamed in an overlay by the system call: it says EXDEV, and mv copies then.
package isolate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"qq/internal/isolate/files"
	"qq/internal/isolate/overlayfs"
	"qq/internal/isolate/worktree"
	"qq/internal/record/ledger/alive"
	"qq/internal/sandbox"
	"qq/pkg/proc"
	"qq/pkg/task"
)

// Mode is a means to make copies.
type Mode string

// The modes. Auto is Overlay where the kernel allows it, else Worktree.
const (
	Auto     Mode = "auto"
	Overlay  Mode = "overlay"
	Worktree Mode = "worktree"
)

// Config says where copies are made.
type Config struct {
	Dir     string // the tree, an absolute path
	State   string // a folder for copies, not in the tree; overlays need ext4, xfs or tmpfs there
	Patches string // a folder for patches that are kept
	Host    *proc.Host
	Exe     string   // the path of this program, whose main calls [sandbox.Exec]
	Env     []string // for git
}

// Tree is a folder of which copies are made. Several goroutines may use it.
type Tree struct {
	Config
	id      string // of the folder of copies in State
	lock    *alive.Lock
	live    *os.Root
	repo    *worktree.Repository // nil means none
	repoErr error
	mounter *overlayfs.Mounter

	joining sync.Mutex         // held by a join, before mu
	mu      sync.RWMutex       // held by a join while it changes the tree; shared by those who read the tree
	copies  map[*Copy]struct{} // guarded by mu, and by history.mu of those who share that
	history history
}

// Open prepares a tree. The caller closes it.
func Open(cfg Config) (*Tree, error) {
	real, err := filepath.EvalSymlinks(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("find the folder of the agents: %w", err)
	}
	cfg.Dir = real
	if err := os.MkdirAll(cfg.State, 0o700); err != nil {
		return nil, fmt.Errorf("make a folder for copies: %w", err)
	}
	if cfg.State, err = filepath.EvalSymlinks(cfg.State); err != nil {
		return nil, fmt.Errorf("find the folder of copies: %w", err)
	}
	if sandbox.Within(cfg.State, cfg.Dir) || sandbox.Within(cfg.Dir, cfg.State) {
		return nil, task.Hinted("set QQ_HOME to a folder elsewhere", "%s cannot be copied to %s: one is in the other",
			cfg.Dir, cfg.State)
	}
	t := &Tree{Config: cfg, id: task.NewID(), copies: map[*Copy]struct{}{}}
	t.history.marks, t.history.versions = map[string]mark{}, map[string][]version{}
	t.mounter = overlayfs.NewMounter(cfg.Host, cfg.Exe, cfg.Dir)
	if t.live, err = os.OpenRoot(cfg.Dir); err != nil {
		return nil, fmt.Errorf("open the folder of the agents: %w", err)
	}
	t.repo, t.repoErr = worktree.Find(cfg.Dir, cfg.Host, cfg.Env)
	if t.lock, err = locks(cfg.State).Hold(t.id); err == nil {
		err = os.Mkdir(t.folder(), 0o700)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a folder for copies: %w", err), t.Close())
	}
	return t, nil
}

// folder is where the copies are.
func (t *Tree) folder() string { return filepath.Join(t.State, t.id) }

func locks(state string) alive.Dir { return alive.Dir{Path: state, Wait: time.Minute} }

// Close removes all copies. No process may run in one.
func (t *Tree) Close() error {
	t.joining.Lock()
	defer t.joining.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.live.Close()
	t.mounter.Close()
	for c := range t.copies {
		if c.overlay != nil {
			err = errors.Join(err, c.overlay.Close())
		}
	}
	if t.lock == nil {
		return err
	}
	_, clearErr := clearSession(t.State, t.id, t.Patches)
	lock := t.lock
	t.lock = nil
	return errors.Join(err, clearErr, lock.Release())
}

// Copy is a copy of a tree for one task.
type Copy struct {
	ID   string
	Mode Mode   // Overlay or Worktree
	Dir  string // where the task works; in an overlay it is the path of the tree
	// Why says why the copy is not an overlay; empty if nobody asked for one.
	Why  string
	Task string // what people call the task that works in it; those that it is in conflict with are told

	tree     *Tree
	folder   string // with all that belongs to the copy
	changes  string // the folder that the task writes
	overlay  *os.File
	manifest *worktree.Manifest // nil means an overlay
	prefix   string             // of the paths in the manifest
	joins    int                // how many there were before
	began    time.Time          // by the clock of the file system
	spoiled  string             // see [Patch.Spoiled]
}

// Make makes a copy with the name id. If it cannot, the error says why, and nothing is left of it: a task must not run
// in the tree instead. If ctx ends meanwhile, the error is its cause.
func (t *Tree) Make(ctx context.Context, id string, mode Mode) (*Copy, error) {
	if id == "" || strings.HasPrefix(id, ".") || strings.ContainsAny(id, "/\x00") {
		return nil, fmt.Errorf("%q is no name of a copy", id)
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	c := &Copy{ID: id, tree: t, folder: filepath.Join(t.folder(), id), joins: t.history.joins}
	if err := c.begin(); err != nil {
		return nil, t.refusal(mode, "", err)
	}
	var reasons []error
	for _, m := range []Mode{Overlay, Worktree} {
		if mode != Auto && mode != m {
			continue
		}
		if c.Mode = m; len(reasons) > 0 {
			c.Why = reasons[0].Error()
		}
		err := c.means(m)(ctx)
		if err == nil {
			t.history.mu.Lock()
			defer t.history.mu.Unlock()
			t.copies[c] = struct{}{}
			return c, nil
		}
		reasons = append(reasons, fmt.Errorf("no %s: %w", m, err))
		if ctx.Err() != nil {
			break
		}
	}
	cleared := c.clear()
	if ctx.Err() != nil {
		return nil, errors.Join(context.Cause(ctx), cleared)
	}
	err := errors.Join(append(reasons, cleared)...)
	return nil, t.refusal(mode, t.offer(ctx, id, mode), err)
}

// offer returns a mode that works, or "", after mode did not.
func (t *Tree) offer(ctx context.Context, id string, mode Mode) Mode {
	for _, other := range []Mode{Overlay, Worktree} {
		if mode == Auto || mode == other || ctx.Err() != nil {
			continue
		}
		c := &Copy{ID: id, tree: t, folder: filepath.Join(t.folder(), id)}
		err := c.begin()
		if err == nil {
			err = c.means(other)(ctx)
		}
		if errors.Join(err, c.clear()) == nil {
			return other
		}
	}
	return ""
}

// means returns what makes the copy in a mode.
func (c *Copy) means(mode Mode) func(context.Context) error {
	if mode == Overlay {
		return c.mount
	}
	return c.checkout
}

// begin makes the folder of the copy.
func (c *Copy) begin() error {
	if err := os.Mkdir(c.folder, 0o700); err != nil {
		return err
	}
	var err error
	c.began, err = files.Mark(c.folder, 0o700)
	return err
}

// refusal says why there is no copy, and what to do. offer is a mode that works here, or "".
func (t *Tree) refusal(mode, offer Mode, err error) error {
	if mode != Auto && mode != Overlay && mode != Worktree {
		err = fmt.Errorf("%q is none of auto, overlay and worktree", mode)
	}
	why := strings.ReplaceAll(cmp.Or(err, errors.New("unknown")).Error(), "\n", "; ")
	hint := "leave --isolate out (QQ_ISOLATE): tasks write in the folder itself then"
	switch {
	case offer == Overlay:
		hint = "try --isolate auto: an overlay of this folder can be mounted"
	case offer == Worktree:
		hint = "try --isolate auto: this folder can have worktrees of git"
	case t.repoErr != nil || mode == Overlay:
		hint = "make the folder a repository of git with a commit, and try --isolate auto; or " + hint
	}
	return task.Hinted(hint, "make a copy of %s: %w", t.Dir, errWords{why, err})
}

// errWords is err with another text.
type errWords struct {
	text string
	error
}

func (e errWords) Error() string { return e.text }

func (e errWords) Unwrap() error { return e.error }

// mount makes the copy an overlay.
func (c *Copy) mount(context.Context) error {
	l := sandbox.Layers{Lower: c.tree.Dir}
	l.Upper, l.Work = filepath.Join(c.folder, "upper"), filepath.Join(c.folder, "work")
	if err := overlayfs.MountBelow(c.tree.Dir); err != nil {
		return err
	}
	info, err := os.Stat(c.tree.Dir)
	if err != nil {
		return err
	}
	// The folder itself has the permissions of the upper one.
	err = errors.Join(os.Mkdir(l.Upper, 0o700), os.Mkdir(l.Work, 0o700), os.Chmod(l.Upper, info.Mode().Perm()))
	if err == nil {
		c.overlay, err = c.tree.mounter.Mount(l)
	}
	if err != nil {
		return errors.Join(err, files.RemoveAll(l.Upper), files.RemoveAll(l.Work))
	}
	c.Dir, c.changes = c.tree.Dir, l.Upper
	return nil
}

// checkout makes the copy a worktree.
func (c *Copy) checkout(ctx context.Context) error {
	t := c.tree
	if t.repoErr != nil {
		return t.repoErr
	}
	alone, err := locks(t.State).Alone("worktrees") // git adds one at a time
	if err != nil {
		return err
	}
	defer alone.Release()
	rel, err := filepath.Rel(t.repo.Top, t.Dir)
	if err != nil {
		return err
	}
	top := filepath.Join(c.folder, worktreeName(t.id, c.ID))
	if err := os.WriteFile(filepath.Join(c.folder, repositoryFile), []byte(t.repo.Common), 0o600); err != nil {
		return err
	}
	if c.manifest, err = t.repo.Add(ctx, top); err != nil {
		return err
	}
	c.Dir = filepath.Join(top, rel)
	c.changes = c.Dir
	if rel != "." {
		c.prefix = filepath.ToSlash(rel) + "/"
	}
	return os.MkdirAll(c.Dir, 0o700) // git knows no empty folder
}

// Path returns the path that a file or folder of the tree has for a process in the copy. Others stay as they are.
func (c *Copy) Path(name string) string {
	if !sandbox.Within(name, c.tree.Dir) {
		return name
	}
	return c.Dir + strings.TrimPrefix(name, c.tree.Dir)
}

// Live is the reverse of Path.
func (c *Copy) Live(name string) string {
	if !sandbox.Within(name, c.Dir) {
		return name
	}
	return c.tree.Dir + strings.TrimPrefix(name, c.Dir)
}

// Tree returns the folder of which it is a copy, a real path.
func (c *Copy) Tree() string { return c.tree.Dir }

// Enter makes cmd run in the copy: a program that restricts itself, as a child does. Its folder is that of [Copy.Path].
// For a command of an agent, see [Copy.File].
func (c *Copy) Enter(cmd *proc.Command) error {
	if !sandbox.Within(cmd.Dir, c.Dir) {
		return fmt.Errorf("%s is not in the copy of %s", cmd.Dir, c.tree.Dir)
	}
	if c.overlay == nil {
		return nil
	}
	cmd.Extra = append(cmd.Extra, c.overlay)
	over := &sandbox.Overlay{File: 2 + len(cmd.Extra), Dir: c.tree.Dir}
	o := sandbox.Order{Path: cmd.Path, Overlay: over, Unconfined: true}
	var env string
	cmd.Path, cmd.Args, env = sandbox.Wrap(c.tree.Exe, o, cmd.Args)
	cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], env)
	cmd.Namespace, cmd.Mounts = true, true
	return nil
}

// Wrote reports whether the task changed a file, relative to the tree, that differs from the tree as it was.
func (c *Copy) Wrote(path string) bool { return c.Mode != Overlay || overlayfs.Wrote(c.changes, path) }

// File returns the overlay, for a program that is to see it instead of the tree; nil for a worktree.
func (c *Copy) File() *os.File { return c.overlay }

// Keep moves what the task changed, as it is in the copy, to a folder that nobody but a person removes, and returns
// that: all files of a worktree, or those of an overlay that are not as in the tree. No process may run in the copy,
// which can only be removed then. See [Tree.Keep] for what can be applied.
func (c *Copy) Keep() (dir string, err error) {
	c.tree.mu.RLock()
	defer c.tree.mu.RUnlock()
	if c.overlay != nil {
		_ = c.overlay.Close()
		c.overlay = nil
	}
	_ = os.Chmod(c.changes, 0o700) // else it may not be moved
	dir = filepath.Join(c.tree.State, c.ID+kept)
	return dir, os.Rename(c.changes, dir)
}

// Remove removes the copy. No process may run in it.
func (c *Copy) Remove() error {
	c.tree.mu.RLock() // not while a join looks at the copies
	defer c.tree.mu.RUnlock()
	c.tree.history.mu.Lock()
	delete(c.tree.copies, c)
	c.tree.history.forget(c, c.tree.copies)
	c.tree.history.mu.Unlock()
	return c.clear()
}

func (c *Copy) clear() error {
	var err error
	if c.overlay != nil {
		err = c.overlay.Close()
	}
	return errors.Join(err, clearCopy(c.folder))
}
