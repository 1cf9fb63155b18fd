package box

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"

	"qq/internal/sandbox"
	"qq/internal/tools/tree"
)

// maxNotes bounds the notes about changes of one command.
const maxNotes = 20

// review compares the working directory with first, the state before any of the commands that run there began, and
// puts back what a command must not have changed and the kernel did not keep it from changing. held says of an
// absolute path whether it was read-only. If its folder was not moved either, it was changed by somebody else, who may
// have meant it. Such changes are reported if they came after before, the state when this command began. review
// returns the paths that changed, relative to the working directory, and notes for a person.
func (w *watch) review(first, before snapshot, held func(abs string) bool) (paths, notes []string) {
	after := w.snapshot(first.kinds)
	wrong := func(c change) bool {
		return w.protects(c.path, first, after) && !(held(w.full(c.path)) && after.inPlace(first, c.path))
	}
	notes = w.bounds(after)
	for _, c := range compare(first, after) {
		if wrong(c) && !w.unseen(first, after, c) {
			path, note := w.undo(first, c)
			paths, notes = append(paths, path), append(notes, note)
		}
	}
	for _, c := range compare(before, after) {
		if wrong(c) || after.same(first, c) || w.unseen(before, after, c) {
			continue // undone, or by the end of another command
		}
		const note = "%s is %s since the command began, and programs obey it: look at it first"
		how := c.kind
		if how == "new" && after.kinds[c.path].bare {
			how = "a new repository of git"
		}
		paths, notes = append(paths, c.path), append(notes, fmt.Sprintf(note, tree.Printable(c.path), how))
	}
	if more := len(notes) - maxNotes; more > 0 {
		notes = append(notes[:maxNotes], fmt.Sprintf("%d more files that programs obey changed", more))
	}
	return paths, notes
}

// bounds returns a note for each folder with more files than are looked at, once.
func (w *watch) bounds(s snapshot) (notes []string) {
	for _, item := range s.items {
		if s.partial[item] && !w.noted[item] {
			if w.noted == nil {
				w.noted = map[string]bool{}
			}
			w.noted[item] = true
			const text = "%s has more files than are looked at: what commands change in the others is not noticed"
			notes = append(notes, fmt.Sprintf(text, tree.Printable(item)))
		}
	}
	return notes
}

// undo undoes c, and returns the path that is changed then, and a note.
func (w *watch) undo(before snapshot, c change) (changed, note string) {
	aside, err := w.putBack(before, c)
	name := tree.Printable(c.path)
	switch {
	case err != nil:
		const text = "%s is %s since the command began, and cannot be put back: look at it first (%v)"
		return c.path, fmt.Sprintf(text, name, c.kind, err)
	case aside == "":
		return c.path, name + " was removed by the command, which may not do that: it is put back"
	}
	return aside, fmt.Sprintf("%s is not for commands to write: it is as before, and what the command wrote is %s",
		name, tree.Printable(aside))
}

// protects reports whether commands may not write the relative path file, which is part of an item in one of these
// snapshots.
func (w *watch) protects(file string, in ...snapshot) bool {
	for _, s := range in {
		for _, item := range s.items {
			if sandbox.Within(file, item) {
				return w.protected(s, item)
			}
		}
	}
	return false
}

// putBack undoes c. What is there now gets a name next to it that no program obeys, aside. It is empty if nothing is
// there.
func (w *watch) putBack(before snapshot, c change) (aside string, err error) {
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	was, known := before.states[c.path]
	lost := c.kind == "replaced" || before.repository(c.path) && was.Mode.IsDir()
	if known && (lost || was.Mode.IsRegular() && was.Content == nil && was.Size > 0) {
		return "", errors.New("what was there is lost")
	}
	name := filepath.FromSlash(c.path)
	if c.kind != "removed" {
		aside, err = moveAside(root, c.path)
	} else if link := linkAbove(root, c.path); link != "" {
		aside, err = moveAside(root, link)
	}
	if err != nil {
		return "", err
	}
	switch perm := was.Mode.Perm(); {
	case !known:
	case was.Mode.IsDir():
		err = root.MkdirAll(name, perm)
	case was.Mode.Type() == fs.ModeSymlink:
		err = root.Symlink(was.Sum, name)
	default:
		if err = root.MkdirAll(filepath.Dir(name), 0o755); err == nil {
			err = root.WriteFile(name, was.Content, perm)
		}
		if err == nil {
			err = root.Chmod(name, perm)
		}
	}
	return aside, err
}

// moveAside gives the relative path file a name next to it that no program obeys, and returns that.
func moveAside(root *os.Root, file string) (aside string, err error) {
	dir, base := path.Split(file)
	aside = fmt.Sprintf("%s%s.refused-%06x", dir, strings.TrimLeft(base, "."), rand.N(1<<24))
	return aside, root.Rename(filepath.FromSlash(file), filepath.FromSlash(aside))
}

// linkAbove returns the highest folder above the relative path file that is a link by now, or "".
func linkAbove(root *os.Root, file string) (link string) {
	for at := path.Dir(file); at != "."; at = path.Dir(at) {
		if info, err := root.Lstat(filepath.FromSlash(at)); err == nil && info.Mode().Type() == fs.ModeSymlink {
			link = at
		}
	}
	return link
}
