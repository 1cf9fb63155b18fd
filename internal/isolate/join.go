package isolate

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/google/renameio/v2"

	"qq/internal/isolate/files"
	"qq/internal/isolate/gitpatch"
	"qq/internal/isolate/merge"
)

// Conflict is a change that cannot be joined.
type Conflict struct{ Path, Reason string }

func (c Conflict) String() string { return c.Path + ": " + c.Reason }

// Outcome says what became of a patch. The patch is joined if there is no conflict.
type Outcome struct {
	Files     []string // which files were changed in the tree
	Conflicts []Conflict
	File      string   // where the patch is kept; empty if it was joined
	Kept      []string // files with new content that somebody else changed while the patch was joined
}

// Join joins patches to the tree, in their order, and returns an outcome for each. A patch that is in conflict changes
// nothing, and the ones after it are joined. An error ends the joining: the tree is then without that patch. If what
// was changed could not be taken back, the error says so, and [Tree.Close] or [Sweep] try it once more.
func (t *Tree) Join(ctx context.Context, patches ...*Patch) ([]Outcome, error) {
	var outcomes []Outcome
	for _, p := range patches {
		if ctx.Err() != nil {
			return outcomes, context.Cause(ctx)
		}
		out, err := t.join(p)
		if err != nil {
			return outcomes, fmt.Errorf("join what task %s changed: %w", p.copy.ID, err)
		}
		outcomes = append(outcomes, out)
	}
	return outcomes, nil
}

func (t *Tree) join(p *Patch) (out Outcome, err error) {
	if len(p.Changes) == 0 {
		return out, nil
	}
	t.joining.Lock()
	defer t.joining.Unlock()
	alone, err := locks(t.State).Hold(treeLock(t.Dir)) // other processes join too
	if err != nil {
		return out, err
	}
	defer alone.Release()
	changed, err := os.OpenRoot(p.copy.changes)
	if err != nil {
		return out, err
	}
	defer changed.Close()
	pl := plan{copy: p.copy, live: t.live, changed: changed}
	if err := pl.decide(p.Changes); err != nil {
		return out, err
	}
	if len(pl.conflicts) > 0 {
		out.Conflicts = pl.conflicts
		out.File, err = t.keep(p, pl.conflicts)
		return out, err
	}
	if len(pl.steps) == 0 {
		return out, nil
	}
	versions, err := t.versions(pl.steps)
	if err != nil {
		return out, err
	}
	j := journal{Dir: []byte(t.Dir), Steps: pl.steps}
	name := filepath.Join(t.folder(), p.copy.ID)
	// It waits for the disk: others make copies meanwhile.
	if err := j.commit(t.live, name, changed, p.Witness); err != nil {
		return out, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.history.add(versions)
	for c := range t.copies {
		if c != p.copy {
			c.hold(pl.steps, p.copy.Task)
		}
	}
	out.Kept, err = j.run(t.live, name, t.Patches)
	oldest := p.copy.joins
	for c := range t.copies {
		oldest = min(oldest, c.joins)
	}
	for _, s := range pl.steps {
		t.history.left(t.live, string(s.Path), p.copy.Task, oldest)
		if !s.New.Mode.IsDir() && !(s.New.None() && s.Live.Mode.IsDir()) {
			out.Files = append(out.Files, string(s.Path))
		}
	}
	slices.Sort(out.Files)
	out.Files = slices.Compact(out.Files)
	return out, err
}

// hold makes an overlay keep the files that the steps change in the tree, as they are. What it cannot hold, for example
// on a full disk, the task sees change. A folder that another task removes looks empty from then on, and cannot be
// removed: the kernel has no overlay of a folder that is gone.
func (c *Copy) hold(steps []step, by string) {
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", c.overlay.Fd()))
	if err != nil { // it has no overlay, or none any more
		return
	}
	defer root.Close()
	for _, s := range steps {
		if !s.Live.None() {
			_ = root.Lchown(string(s.Path), -1, -1) // changes nothing, and copies the file to the upper folder
		}
		if s.Live.Mode.IsDir() && !s.New.Mode.IsDir() && c.spoiled == "" {
			c.spoiled = fmt.Sprintf("%s: %s removed this folder while the task was at work in its copy", s.Path, by)
		}
	}
}

// treeLock is the name of the lock of who joins to a tree. Its file goes with the lock: there are many trees.
func treeLock(dir string) string {
	return fmt.Sprintf("tree-%x", sha256.Sum256([]byte(dir)))
}

// versions returns the files that the steps change, as they are.
func (t *Tree) versions(steps []step) (map[string]version, error) {
	all := map[string]version{}
	for _, s := range steps {
		name := string(s.Path)
		v := version{state: s.Live}
		if s.Live.File() {
			data, whole, err := files.Content(t.live, name, s.Live, maxText)
			if err != nil {
				return nil, err
			}
			if whole {
				v.data = data
			}
		}
		all[name] = v
	}
	return all, nil
}

// plan decides how to join a patch.
type plan struct {
	copy          *Copy
	live, changed *os.Root
	gone, made    map[string]bool // folders that the patch removes and makes
	removed       map[string]bool // all that it removes
	steps         []step
	conflicts     []Conflict
}

// decide makes the steps, or the conflicts. The changes of a folder come before those of what is in it.
func (pl *plan) decide(changes []Change) error {
	pl.removed, pl.gone, pl.made = map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, c := range changes {
		if c.New.None() {
			pl.removed[c.Path] = true
		}
		if c.Base.Mode.IsDir() && !c.New.Mode.IsDir() {
			pl.gone[c.Path] = true
		}
		if !c.Base.Mode.IsDir() && c.New.Mode.IsDir() {
			pl.made[c.Path] = true
		}
	}
	for _, c := range changes {
		live, info, err := files.Look(pl.live, c.Path, false)
		if err != nil {
			return err
		}
		reason, err := pl.change(c, live, info)
		if err != nil {
			return err
		}
		if reason != "" {
			pl.conflicts = append(pl.conflicts, Conflict{c.Path, reason})
		}
	}
	return nil
}

// who returns who changed a file of the tree, which is as info says, since the copy was made.
func (pl *plan) who(c Change, info fs.FileInfo) string {
	return pl.copy.tree.history.who(pl.copy.joins, c.Path, info)
}

// change adds the steps for a change to a file that is live in the tree, as info says, or returns why it is in
// conflict.
func (pl *plan) change(c Change, live files.State, info fs.FileInfo) (reason string, err error) {
	s := step{Path: []byte(c.Path), Live: live, New: c.New}
	switch {
	case live == c.New:
		return "", nil
	case c.New.None() && c.Base.Mode.IsDir() && live.Mode.IsDir(): // its permissions do not matter
	case c.New.Mode.IsDir() && live.Mode.IsDir() && c.Base != live:
		return "", nil // two made the folder
	case c.Unsure:
		return "somebody else changed it while the task ran", nil
	case !c.New.None() && !pl.housed(c.Path):
		return "its folder is no longer there", nil
	case live == c.Base:
	case live.File() && c.Base.File() && c.New.File():
		if s.New, s.data, reason, err = pl.merge(c, live, info); reason != "" || err != nil {
			return reason, err
		}
	case live.None():
		return "it was removed by " + pl.who(c, info), nil
	case c.New.None():
		return "the task removed it, and it was changed by " + pl.who(c, info), nil
	case c.Base.None():
		return "another one was made there by " + pl.who(c, info), nil
	default:
		return "it was changed by " + pl.who(c, info), nil
	}
	if live.Mode.IsDir() && !c.New.None() && !c.New.Mode.IsDir() {
		names, err := files.List(pl.live, c.Path, false)
		for _, name := range names {
			if !pl.removed[path.Join(c.Path, name)] {
				return "it becomes a file, and " + name + " is in it", err
			}
		}
		if err != nil {
			return "", err
		}
	}
	pl.steps = append(pl.steps, s)
	return "", nil
}

// housed reports whether the folder of a path is there, or the patch makes it.
func (pl *plan) housed(name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if pl.made[dir] {
			continue
		}
		info, err := pl.live.Lstat(dir)
		if err != nil || !info.IsDir() || pl.gone[dir] {
			return false
		}
	}
	return true
}

// merge joins a change of a file to what another change made of it.
func (pl *plan) merge(
	c Change, live files.State, info fs.FileInfo,
) (s files.State, data []byte, reason string, err error) {
	who := pl.who(c, info)
	both := "it was changed by " + who
	s.Mode = c.New.Mode
	switch {
	case c.New.Mode == c.Base.Mode:
		s.Mode = live.Mode
	case live.Mode != c.Base.Mode && live.Mode != c.New.Mode:
		return s, nil, "its permissions were changed in another way by " + who, nil
	}
	s.Sum = c.New.Sum
	switch {
	case c.New.Sum == c.Base.Sum:
		s.Sum = live.Sum
		return s, nil, "", nil
	case live.Sum == c.Base.Sum, live.Sum == c.New.Sum:
		return s, nil, "", nil
	}
	v, ok := pl.copy.tree.history.version(pl.copy.joins, c.Path)
	if !ok || v.data == nil && v.state.Sum != files.EmptySum {
		return s, nil, both, nil
	}
	ours, whole, err := files.Content(pl.live, c.Path, live, maxText)
	if err != nil || !whole {
		return s, nil, both, err
	}
	theirs, whole, err := files.Content(pl.changed, c.Path, c.New, maxText)
	if err != nil || !whole {
		return s, nil, both, err
	}
	for _, text := range [][]byte{v.data, ours, theirs} {
		if bytes.IndexByte(text, 0) >= 0 {
			return s, nil, both + ", and it is no text", nil
		}
	}
	merged, ok := merge.Texts(string(v.data), string(ours), string(theirs))
	if !ok {
		return s, nil, both + ", in the same lines", nil
	}
	sum := sha256.Sum256([]byte(merged))
	s.Sum = hex.EncodeToString(sum[:])
	return s, []byte(merged), "", nil
}

// Keep writes a patch that is not joined to a file, for `git apply`.
func (t *Tree) Keep(p *Patch) (file string, err error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.keep(p, nil)
}

func (t *Tree) keep(p *Patch, conflicts []Conflict) (file string, err error) {
	changed, err := os.OpenRoot(p.copy.changes)
	if err != nil {
		return "", err
	}
	defer changed.Close()
	var text bytes.Buffer
	fmt.Fprintf(&text, "What %s (%s) changed in %s. It was not joined:\n",
		cmp.Or(p.copy.Task, "a task"), p.copy.ID, t.Dir)
	for _, c := range conflicts {
		fmt.Fprintf(&text, "  %q: %s\n", c.Path, c.Reason)
	}
	var changes []gitpatch.Change
	for _, c := range p.Changes {
		if c.Base.Mode.IsDir() {
			c.Base = files.State{}
		}
		if c.New.Mode.IsDir() {
			c.New = files.State{}
		}
		change := gitpatch.Change{Path: c.Path}
		if change.Old, err = p.copy.baseBlob(c.Path, c.Base); err == nil {
			change.New, err = blob(changed, c.Path, c.New)
		}
		if err != nil {
			return "", err
		}
		if c.Unsure {
			fmt.Fprintf(&text, "  %q is compared with what is in the folder now.\n", c.Path)
		}
		changes = append(changes, change)
	}
	text.WriteByte('\n')
	if err := gitpatch.Write(&text, changes); err != nil {
		return "", err
	}
	if err := os.MkdirAll(t.Patches, 0o700); err != nil {
		return "", fmt.Errorf("keep the patch: %w", err)
	}
	file = filepath.Join(t.Patches, p.copy.ID+".patch")
	for n := 2; ; n++ { // a part of it may be kept already
		if _, err := os.Lstat(file); err != nil {
			break
		}
		file = filepath.Join(t.Patches, fmt.Sprintf("%s.%d.patch", p.copy.ID, n))
	}
	if err := renameio.WriteFile(file, text.Bytes(), 0o600); err != nil {
		return "", fmt.Errorf("keep the patch: %w", err)
	}
	return file, nil
}

// baseBlob returns the base of a file. If its content is not known any more, it is that of the tree.
func (c *Copy) baseBlob(name string, s files.State) (gitpatch.Blob, error) {
	if v, ok := c.tree.history.version(c.joins, name); ok && v.data != nil {
		return gitpatch.Blob{Mode: s.Mode | readable, Data: v.data}, nil
	}
	b, err := blob(c.tree.live, name, s)
	if errors.Is(err, fs.ErrNotExist) { // removed since
		return gitpatch.Blob{}, nil
	}
	return b, err
}

func blob(root *os.Root, name string, s files.State) (gitpatch.Blob, error) {
	if s.None() {
		return gitpatch.Blob{}, nil
	}
	data, whole, err := files.Content(root, name, s, maxBlob)
	if err == nil && !whole {
		err = fmt.Errorf("%s is too large for a patch, or may not be read", name)
	}
	return gitpatch.Blob{Mode: s.Mode | readable, Data: data}, err
}

// readable is a permission that each file in a patch has: git knows no others but for those of programs.
const readable = 0o400

// maxBlob is the size of the largest file in a kept patch.
const maxBlob = 256 << 20
