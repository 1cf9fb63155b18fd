package isolate

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"qq/internal/isolate/files"
	"qq/internal/isolate/overlayfs"
)

// Change is what a task did to the file or folder at Path, which is relative to the tree and has slashes.
type Change struct {
	Path string
	Base files.State // in the tree, when the copy was made
	New  files.State // in the copy
	// Unsure says that somebody else changed the file meanwhile, so that Base may be another one.
	Unsure bool
}

// Patch is what a task changed. It is read from the copy, which must stay until the patch is joined.
type Patch struct {
	Changes []Change // in the order of their paths
	Ignored []string // paths that changed and that git ignores
	Left    []string // sockets, pipes and devices, which are not joined
	Witness Witness  // nil is none
	Spoiled string   // why the task may have seen what was in no tree; "" is that it has not

	copy *Copy
}

// Witness is told before a patch changes the tree. On an error, nothing is joined.
type Witness interface{ Effects() error }

// Part removes the changes of these paths from the patch, and returns a patch that has them.
func (p *Patch) Part(paths []string) *Patch {
	part := &Patch{copy: p.copy}
	p.Changes = slices.DeleteFunc(p.Changes, func(c Change) bool {
		if slices.Contains(paths, c.Path) {
			part.Changes = append(part.Changes, c)
			return true
		}
		return false
	})
	return part
}

// Patch returns what the task changed. All processes in the copy must have ended, and no other one can enter it.
func (c *Copy) Patch(ctx context.Context) (*Patch, error) {
	c.tree.mu.RLock()
	defer c.tree.mu.RUnlock()
	changed, err := os.OpenRoot(c.changes)
	if err != nil {
		return nil, fmt.Errorf("read what the task changed: %w", err)
	}
	defer changed.Close()
	r := &reading{ctx: ctx, copy: c, changed: changed, patch: &Patch{copy: c, Spoiled: c.spoiled}}
	if err := r.folder("."); err != nil {
		return nil, fmt.Errorf("read what the task changed: %w", err)
	}
	p := r.patch
	if c.tree.repo != nil {
		if err := p.ignore(ctx); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(p.Changes, func(a, b Change) int { return files.Compare(a.Path, b.Path) })
	if c.overlay != nil { // many patches may wait to be joined
		_ = c.overlay.Close()
		c.overlay = nil
	}
	return p, nil
}

// ignore moves the paths that git ignores to Ignored.
func (p *Patch) ignore(ctx context.Context) error {
	t := p.copy.tree
	rel, err := filepath.Rel(t.repo.Top, t.Dir)
	if err != nil {
		return err
	}
	paths := make([]string, len(p.Changes))
	for i, c := range p.Changes {
		paths[i] = path.Join(filepath.ToSlash(rel), c.Path)
	}
	found, err := t.repo.Ignored(ctx, paths)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("ask git which files it ignores: %w", err)
	}
	ignored := map[string]bool{}
	for _, name := range found {
		ignored[name] = true
	}
	kept := p.Changes[:0]
	for i, c := range p.Changes {
		if ignored[paths[i]] {
			p.Ignored = append(p.Ignored, c.Path)
		} else {
			kept = append(kept, c)
		}
	}
	p.Changes = kept
	return nil
}

// reading compares what a task wrote with the bases.
type reading struct {
	ctx     context.Context
	copy    *Copy
	changed *os.Root
	patch   *Patch
}

// folder compares a folder that the task may have written.
func (r *reading) folder(dir string) error {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	names, err := files.List(r.changed, dir, true)
	if err != nil {
		return err
	}
	for _, name := range names {
		if ofGit(name) {
			continue
		}
		if err := r.entry(path.Join(dir, name)); err != nil {
			return err
		}
	}
	removed, err := r.removed(dir, names)
	for _, name := range removed {
		if err == nil && !ofGit(name) {
			err = r.gone(path.Join(dir, name))
		}
	}
	return err
}

// ofGit reports whether name is that of a repository, also on a file system without case.
func ofGit(name string) bool { return strings.EqualFold(name, ".git") }

// removed returns the names that the task removed from a folder by other means than a whiteout.
func (r *reading) removed(dir string, names []string) (gone []string, err error) {
	var base []string
	if m := r.copy.manifest; m != nil {
		base = slices.Clone(m.Names(path.Join(r.copy.prefix, dir)))
	} else if overlayfs.Opaque(filepath.Join(r.copy.changes, dir)) {
		if base, err = r.copy.baseNames(dir); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(base, func(name string) bool { return slices.Contains(names, name) }), nil
}

// entry compares a file or folder that the task may have written.
func (r *reading) entry(name string) error {
	info, err := r.changed.Lstat(name)
	if err != nil {
		return err
	}
	if r.copy.manifest == nil && overlayfs.Whiteout(info) {
		return r.gone(name)
	}
	if m := r.copy.manifest; m != nil && !info.IsDir() && m.Unchanged(r.copy.prefix+name, info) {
		return nil
	}
	if t := info.Mode().Type(); t != 0 && t != fs.ModeDir && t != fs.ModeSymlink {
		r.patch.Left = append(r.patch.Left, name)
		return nil
	}
	now, _, err := files.Look(r.changed, name, true)
	if err != nil {
		return err
	}
	base, err := r.add(name, now)
	if err != nil {
		return err
	}
	if base.Mode.IsDir() && !now.Mode.IsDir() {
		if err := r.goneBelow(name); err != nil {
			return err
		}
	}
	if now.Mode.IsDir() {
		return r.folder(name)
	}
	return nil
}

// add adds a change to the patch if there is one, and returns the base.
func (r *reading) add(name string, now files.State) (files.State, error) {
	base, sure, err := r.copy.base(name)
	if err == nil && base != now {
		r.patch.Changes = append(r.patch.Changes, Change{Path: name, Base: base, New: now, Unsure: !sure})
	}
	return base, err
}

// gone adds that a file, or a folder with all in it, was removed.
func (r *reading) gone(name string) error {
	base, err := r.add(name, files.State{})
	if err == nil && base.Mode.IsDir() {
		err = r.goneBelow(name)
	}
	return err
}

func (r *reading) goneBelow(dir string) error {
	names, err := r.copy.baseNames(dir)
	if m := r.copy.manifest; m != nil {
		names = m.Names(path.Join(r.copy.prefix, dir))
	}
	for _, name := range names {
		if err == nil && !ofGit(name) {
			err = r.gone(path.Join(dir, name))
		}
	}
	return err
}
