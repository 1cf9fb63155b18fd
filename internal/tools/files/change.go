package files

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"qq/internal/tools/edit"
	"qq/internal/tools/store"
	"qq/internal/tools/tree"
	"qq/pkg/tool"
)

// change describes what one call would do to one file.
type change struct {
	act  string // "edit", "create", "overwrite" or "delete"
	path string // as the model wrote it
	rel  string // the real path, relative to the root
	// make returns the new content; nil means delete. It may be called again.
	make func(old []byte) ([]byte, error)
	// before and after are the old and the new text as the model gave them. The preview of a
	// secret file shows only these, never its content.
	before, after string
	lines         string // the lines that make has edited
}

// report returns the answer to the model: what was done.
func (c *change) report() string {
	name := tree.Printable(slash(c.rel))
	switch c.act {
	case "edit":
		return "edited " + name + ", " + c.lines
	case "delete":
		return "deleted " + name
	case "create":
		return "created " + name + ": " + plural(countLines([]byte(c.after)), "line")
	}
	return "wrote " + name + ": " + plural(countLines([]byte(c.after)), "line")
}

func (c *change) risk() tool.Risk {
	if c.act == "delete" {
		return tool.High
	}
	return tool.Medium
}

// writer makes a tool that changes a file. prepare decodes the arguments of a call and plans the change; it changes
// nothing.
func (w *Workspace) writer(about tool.Spec, prepare func(json.RawMessage) (*change, error)) tool.Tool {
	return tool.Function{
		About: about,
		Do: func(ctx context.Context, args json.RawMessage) (tool.Result, error) {
			c, err := prepare(args)
			if err != nil {
				return tool.Result{}, err
			}
			return w.apply(ctx, c)
		},
		Intent: func(ctx context.Context, args json.RawMessage) (tool.Intent, error) {
			c, err := prepare(args)
			if err != nil {
				return tool.Intent{}, err
			}
			return w.plan(ctx, c)
		},
	}
}

// place resolves the path of a file to write, and reports whether the file exists. A path to
// anything but a regular file is an error.
func (w *Workspace) place(path string) (rel string, exists bool, err error) {
	rel, missing, err := w.follow(path)
	if err != nil {
		return "", false, err
	}
	if missing != "" {
		if strings.HasSuffix(path, "/") {
			return "", false, fmt.Errorf("%s names a folder: give the path of a file", path)
		}
		return rel, false, nil
	}
	info, err := w.root.Lstat(rel)
	switch {
	case err != nil:
		return "", false, w.unreachable(path, rel, err)
	case info.IsDir():
		return "", false, fmt.Errorf("%s is a folder: give the path of a file", path)
	case !info.Mode().IsRegular():
		return "", false, fmt.Errorf("%s is not a regular file", path)
	}
	return rel, true, nil
}

// existing resolves the path of a file to write, and returns an error if the file does not exist.
func (w *Workspace) existing(path string) (string, error) {
	if _, err := w.resolve(path); err != nil { // its error names similar files
		return "", err
	}
	rel, exists, err := w.place(path)
	if err == nil && !exists {
		err = fmt.Errorf("%s does not exist any more", path)
	}
	return rel, err
}

// plan returns the intent of c: what it would do, with a preview. It changes nothing.
func (w *Workspace) plan(ctx context.Context, c *change) (tool.Intent, error) {
	in := tool.Intent{Effect: tool.Writes, Risk: c.risk(), Paths: []string{slash(c.rel)},
		Summary: c.act + " " + tree.Printable(slash(c.rel))}
	if why := w.concern(c.rel); why != "" {
		in.Risk, in.Special = tool.High, true
		in.Summary += ", which " + why
	}
	old, err := w.shown(c, &in)
	var whole bool
	switch {
	case c.make == nil:
		return in, context.Cause(ctx)
	case w.unread(c.rel, c.path) != "":
		// The preview must not reveal the content, nor may an error that depends on it.
		in.Preview, whole = edit.Diff(tree.Printable(slash(c.rel)), []byte(c.before), []byte(c.after))
	case err != nil:
		return in, err
	default:
		content, err := c.make(old)
		if err != nil {
			return in, err
		}
		in.Preview, whole = edit.Diff(tree.Printable(slash(c.rel)), old, content)
	}
	in.Cut = !whole
	return in, context.Cause(ctx)
}

// shown returns the content of the file that c changes, and stores its checksum in in.
func (w *Workspace) shown(c *change, in *tool.Intent) ([]byte, error) {
	if c.act == "create" {
		in.Sums = map[string]string{slash(c.rel): ""}
		return nil, nil
	}
	old, err := w.content(c.path, c.rel)
	if err == nil {
		in.Sums = map[string]string{slash(c.rel): store.Sum(old)}
	}
	return old, err
}

// content reads a whole file. A file too large to be changed is an error.
func (w *Workspace) content(path, rel string) ([]byte, error) {
	info, err := w.root.Lstat(rel)
	if err != nil {
		return nil, w.unreachable(path, rel, err)
	}
	f, err := w.openFound(path, rel, info)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.info.Size() > store.MaxSize {
		return nil, fmt.Errorf("%s is too large: %d bytes, at most %d can be changed",
			path, f.info.Size(), store.MaxSize)
	}
	content := make([]byte, f.info.Size())
	n, err := io.ReadFull(f, content)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, fmt.Errorf("%s: %w", path, tree.Reason(err))
	}
	return content[:n], nil
}

// apply makes the change c and returns the answer to the model. With the error [store.ErrNotDurable] the change was
// made.
func (w *Workspace) apply(ctx context.Context, c *change) (tool.Result, error) {
	if err := w.permit(ctx, c); err != nil {
		return tool.Result{}, err
	}
	// Shown is what a person was shown, and check compares it with the file.
	shown, _ := tool.Granted(ctx)
	var check func(old []byte) error
	if shown.Sums != nil {
		check = func(old []byte) error { return shown.Unchanged(slash(c.rel), store.Sum(old)) }
	}
	changed := true
	var err error
	switch c.act {
	case "create":
		if err = shown.Unchanged(slash(c.rel), ""); err == nil {
			err = w.create(ctx, c)
		}
	case "delete":
		if err = store.Remove(ctx, w.root, c.rel, check); err == nil {
			w.forget(c.rel)
		}
	default:
		changed, err = w.replace(ctx, c, check)
	}
	if err != nil && !errors.Is(err, store.ErrNotDurable) {
		return tool.Result{}, err
	}
	if !changed {
		return tool.Text(tree.Printable(slash(c.rel)) + " has this content already: nothing was changed"), nil
	}
	return tool.Result{Content: c.report(), Changed: []string{slash(c.rel)}}, err
}

// permit returns an error if the approval does not cover the change. It is called right before the change, because
// a link may lead elsewhere by now. A special file needs an approval of its own.
func (w *Workspace) permit(ctx context.Context, c *change) error {
	if in, ok := tool.Granted(ctx); ok && !slices.Contains(in.Paths, slash(c.rel)) {
		return fmt.Errorf("%s leads to %s now, which is not what was approved: try again",
			c.path, tree.Printable(slash(c.rel)))
	}
	if why := w.concern(c.rel); why != "" && !granted(ctx, c.rel) {
		return fmt.Errorf("%s %s and is not changed without an approval", c.path, why)
	}
	return nil
}

func (w *Workspace) create(ctx context.Context, c *change) error {
	content, err := c.make(nil)
	if err != nil {
		return err
	}
	err = store.Create(ctx, w.root, c.rel, content, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return existsError(c.path)
	}
	if err == nil || errors.Is(err, store.ErrNotDurable) {
		w.know(c.rel, store.Sum(content))
	}
	return err
}

// replace changes the file, unless check, which may be nil, returns an error for its content.
func (w *Workspace) replace(ctx context.Context, c *change, check func(old []byte) error) (changed bool, err error) {
	sum := "" // checksum of the new content if the agent knows the old one
	err = store.Replace(ctx, w.root, c.rel, func(old []byte) ([]byte, error) {
		if check != nil {
			if err := check(old); err != nil {
				return nil, err
			}
		}
		content, err := c.make(old)
		if err != nil {
			return nil, err
		}
		changed, sum = !bytes.Equal(old, content), ""
		if before, ok := w.known(c.rel); ok && before == store.Sum(old) {
			sum = store.Sum(content)
		}
		return content, nil
	})
	if sum != "" && (err == nil || errors.Is(err, store.ErrNotDurable)) {
		w.know(c.rel, sum)
	}
	return changed, err
}

// known returns the checksum of the content of rel that the agent has read or written. ok is false if it has done
// neither.
func (w *Workspace) known(rel string) (sum string, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	sum, ok = w.seen[rel]
	return sum, ok
}

func (w *Workspace) know(rel, sum string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[rel] = sum
}

func (w *Workspace) forget(rel string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.seen, rel)
}
