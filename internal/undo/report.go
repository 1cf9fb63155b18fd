package undo

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"qq/internal/tools/store"
	"qq/pkg/tool"
)

// Report says what was undone of an answer, or can be.
type Report struct {
	Undone []string // files that are as before; relative to the working directory where they are in it
	Left   []Left   // files that are not undone
	Notes  []string // what else a person should know
}

// Left is a file that is not undone.
type Left struct{ Path, Why string }

// Why a file is not undone.
const (
	Since   = "changed since"
	Between = "changed by something else between two changes of tools"
	TooBig  = "too large to be kept"
	Unkept  = "it could not be kept"
	Other   = "changed by a command, or by somebody else"
)

// Lines returns the report for a person.
func (r Report) Lines() (lines []string) {
	for _, path := range r.Undone {
		lines = append(lines, "undone: "+printable(path))
	}
	for _, l := range r.Left {
		lines = append(lines, "not undone: "+printable(l.Path)+": "+printable(l.Why))
	}
	return append(lines, r.Notes...)
}

// printable returns a path or an error on one line, as a terminal may show it.
func printable(s string) string {
	return strings.ReplaceAll(tool.Visible(s), "\n", "␊")
}

// ErrNothing says that no answer is kept.
var ErrNothing = errors.New("there is no answer to undo")

// Look says what Undo would do now. It changes nothing.
func (b *Book) Look(ctx context.Context) (Report, error) { return b.report(ctx, false) }

// Undo takes back what file tools changed in the last answer. Undo can be called again: what was given back counts as
// undone then, too.
func (b *Book) Undo(ctx context.Context) (Report, error) { return b.report(ctx, true) }

// story is all that is known of one file.
type story struct {
	path    string // absolute
	changes []record
	kept    map[string]record // records with a content, by its checksum
}

func (b *Book) report(ctx context.Context, act bool) (r Report, err error) {
	if b == nil {
		return r, ErrNothing
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var first begun
	switch ok, err := b.load(beginFile, &first); {
	case err != nil:
		return r, err
	case !ok:
		return r, ErrNothing
	}
	var last ended
	complete, err := b.load(endFile, &last)
	if err != nil {
		return r, err
	}
	stories, err := b.stories()
	if err != nil {
		return r, err
	}
	named := map[string]bool{}
	name := func(path string) string {
		if rel, err := filepath.Rel(string(first.Dir), path); err == nil && filepath.IsLocal(rel) {
			return rel
		}
		return path
	}
	var folders []record
	for _, s := range stories {
		if ctx.Err() != nil {
			return r, context.Cause(ctx)
		}
		named[s.path] = true
		switch why := s.undo(ctx, act); why {
		case "":
			r.Undone = append(r.Undone, name(s.path))
			folders = append(folders, s.changes[0])
		default:
			r.Left = append(r.Left, Left{name(s.path), why})
		}
	}
	if act {
		removeFolders(folders)
	}
	for _, list := range []struct {
		files [][]byte
		why   string
	}{{last.Changed, Unkept}, {last.Others, Other}} {
		for _, file := range list.files {
			if path := string(file); !named[path] {
				named[path] = true
				r.Left = append(r.Left, Left{name(path), list.why})
			}
		}
	}
	r.note(last, complete)
	return r, nil
}

// note adds what is not known.
func (r *Report) note(last ended, complete bool) {
	if last.More > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d more files were changed by commands, or by somebody else", last.More))
	}
	switch {
	case !complete:
		r.Notes = append(r.Notes, "the answer was broken off: what commands changed is not known")
	case last.Unseen:
		r.Notes = append(r.Notes, "the folder is too large to know what commands changed in it")
	}
	switch last.Commands {
	case 0:
	case 1:
		r.Notes = append(r.Notes, "a command was run: what it did outside of the folder is not known")
	default:
		r.Notes = append(r.Notes, fmt.Sprintf("%d commands were run: what they did outside of the folder is not known",
			last.Commands))
	}
}

// stories reads all journals, and returns what they say of each file, in the order of the paths.
func (b *Book) stories() (all []*story, err error) {
	list, err := os.ReadFile(filepath.Join(b.folder, listFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what was changed: %w", err)
	}
	files := map[string]*story{}
	for line := range bytes.Lines(list) {
		var j journal
		if json.Unmarshal(line, &j) != nil || j.File != filepath.Base(j.File) || !filepath.IsAbs(string(j.Dir)) {
			continue
		}
		for _, r := range records(filepath.Join(b.folder, j.File), string(j.Dir)) {
			path := filepath.Join(string(j.Dir), string(r.Path))
			s := files[path]
			if s == nil {
				s = &story{path: path, kept: map[string]record{}}
				files[path] = s
			}
			s.add(r)
		}
	}
	for _, s := range files {
		slices.SortStableFunc(s.changes, func(a, b record) int { return cmp.Compare(a.Time, b.Time) })
		if len(s.changes) > 0 {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *story) int { return cmp.Compare(a.path, b.path) })
	return all, nil
}

func (s *story) add(r record) {
	if r.Kept {
		s.kept[r.Old] = r
	}
	switch {
	case r.Only:
	case r.Void: // the last change in the same journal
		for i, c := range slices.Backward(s.changes) {
			if c.journal == r.journal {
				s.changes = slices.Delete(s.changes, i, i+1)
				return
			}
		}
	default:
		s.changes = append(s.changes, r)
	}
}

// undo gives the file back, if act is set. It returns why it cannot, or "".
func (s *story) undo(ctx context.Context, act bool) (why string) {
	first := s.changes[0]
	origin, before, now := first.Old, first.Old, first.Old
	replaced, whole := false, true
	for _, c := range s.changes {
		switch {
		case c.Old == now:
			before = now
		case c.Old != before: // else the change before was not made: its process was killed
			whole = false
		}
		now = c.New
		replaced = replaced || c.Old == "" || c.New == ""
	}
	if real, err := filepath.EvalSymlinks(first.dir); err != nil || real != first.dir {
		return "its folder was moved"
	}
	root, err := os.OpenRoot(first.dir)
	if err != nil {
		return err.Error()
	}
	defer root.Close()
	path := string(first.Path)
	is, err := sumOf(root, path)
	switch {
	case err != nil:
		return Since + ": " + err.Error()
	case is == origin:
		return ""
	case !whole:
		return Between
	case is != now && is != before:
		return Since
	}
	to := store.State{Sum: origin}
	if origin != "" {
		kept, ok := s.kept[origin]
		switch {
		case first.Large:
			return TooBig
		case !ok:
			return Unkept
		}
		if to.Content, err = kept.content(); err != nil {
			return Unkept + ": " + err.Error()
		}
		if replaced {
			to.Mode = first.Mode
		}
	}
	if !act {
		return ""
	}
	err = store.Restore(ctx, root, path, is, to)
	switch {
	case errors.Is(err, store.ErrChanged):
		return Since
	case err != nil && !errors.Is(err, store.ErrNotDurable):
		return err.Error()
	}
	return ""
}

// removeFolders removes the folders that were made for new files which are gone, if nothing is in them.
func removeFolders(changes []record) {
	for _, c := range slices.Backward(changes) {
		if len(c.Made) == 0 || c.Old != "" {
			continue
		}
		if root, err := os.OpenRoot(c.dir); err == nil {
			store.RemoveEmpty(root, filepath.Dir(string(c.Path)), string(c.Made))
			root.Close()
		}
	}
}

// sumOf returns the checksum of a file; "" if there is none.
func sumOf(root *os.Root, path string) (string, error) {
	content, _, err := store.Read(root, path)
	if content == nil || err != nil {
		return "", err
	}
	return store.Sum(content), nil
}
