// Package files holds the tools that look into the working directory and those that change its files.
//
// Every path goes through a [Workspace]: it stays inside the working directory, links included. A file that looks
// like secrets, or is one of qq's own, is listed, but read and changed only with an approval of its own
// ([tool.Granted]). The same holds for changes of files that other programs obey. Package tree walks folders and
// obeys .gitignore; package store makes changes: if two agents change the same text, only one of them succeeds.
//
// Not promised: a secret in a file of another name is not recognised; a tree that changes during a walk is not seen
// at one moment; a folder that is moved out of the working directory during a write may take the file with it.
package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"qq/internal/tools/tree"
	"qq/pkg/regular"
	"qq/pkg/tool"
)

// Workspace is the working directory of an agent. It remembers which contents the agent has seen.
type Workspace struct {
	root    *os.Root
	dirs    []string            // absolute names of the root: as given, and without links
	private func() tree.Private // looked up at the first call
	taken   tree.Taken
	sees    bool // read_file shows images

	mu   sync.Mutex
	seen map[string]string // checksum of the content that the agent knows, by path
}

// Open returns the workspace of one agent in root. Its tools use root until their last call has
// ended; the caller closes root. private are absolute paths of folders whose files need an approval.
func Open(root *os.Root, private ...string) *Workspace {
	w := &Workspace{root: root, seen: map[string]string{}}
	w.private = sync.OnceValue(func() tree.Private { return tree.Places(private) })
	if abs, err := filepath.Abs(root.Name()); err == nil {
		w.dirs = append(w.dirs, abs)
		if real, err := filepath.EvalSymlinks(abs); err == nil && real != abs {
			w.dirs = append(w.dirs, real)
		}
	}
	return w
}

// Take takes files from the agent. No tool reads or lists them. Take is called before the first tool.
func (w *Workspace) Take(files tree.Taken) { w.taken = files }

// Show makes read_file show images: the model of the agent sees them. Show is called before the first tool.
func (w *Workspace) Show() { w.sees = true }

// Reading returns the tools that look into the working directory: read_file,
// list_files, list_directory and grep_file.
func (w *Workspace) Reading() tool.Set {
	return tool.Set{
		tool.Function{About: readSpec(), Do: w.readFile, Intent: w.planRead},
		tool.Function{About: listSpec(), Do: tool.TextOnly(w.listFiles)},
		tool.Function{About: directorySpec(), Do: tool.TextOnly(w.listDirectory)},
		tool.Function{About: grepSpec(), Do: tool.TextOnly(w.grepFile)},
	}
}

// Writing returns the tools that change files: write_file, create_file,
// edit_file and delete_file.
func (w *Workspace) Writing() tool.Set {
	return tool.Set{
		w.writer(writeSpec(), w.prepareWrite),
		w.writer(createSpec(), w.prepareCreate),
		w.writer(editSpec(), w.prepareEdit),
		w.writer(deleteSpec(), w.prepareDelete),
	}
}

// unread returns why the file rel is not read without an approval of its own, or "". names are other names of the
// file, as the model wrote them: a link does not make a secret harmless, nor a harmless name.
func (w *Workspace) unread(rel string, names ...string) string {
	for _, name := range names {
		if given, err := w.local(name); err == nil && tree.Secret(w.full(given)) {
			return tree.LooksSecret
		}
	}
	if w.taken.Holds(w.full(rel)) {
		return tree.IsTaken
	}
	return w.private().Unread(w.full(rel))
}

// concern returns why a change of the file rel is special, or "".
func (w *Workspace) concern(rel string) string { return w.private().Concern(w.full(rel)) }

// full returns the absolute path of rel, with slashes. Rules about special files look at the
// folders above the root too.
func (w *Workspace) full(rel string) string {
	if len(w.dirs) > 0 {
		rel = filepath.Join(w.dirs[len(w.dirs)-1], rel)
	}
	return slash(rel)
}

// granted reports whether the person approved touching the special file rel.
func granted(ctx context.Context, rel string) bool {
	in, ok := tool.Granted(ctx)
	return ok && in.Special && slices.Contains(in.Paths, slash(rel))
}

// local converts path to one relative to the root, without following links.
func (w *Workspace) local(path string) (string, error) {
	if strings.ContainsRune(path, 0) {
		return "", errors.New("the path contains a NUL character")
	}
	outside := fmt.Errorf("%s is outside the working directory: use a path inside it, relative to it", path)
	if filepath.IsAbs(path) {
		for _, d := range w.dirs {
			if rel, err := filepath.Rel(d, path); err == nil && filepath.IsLocal(rel) {
				return rel, nil
			}
		}
		return "", outside
	}
	path = filepath.Clean(path)
	if !filepath.IsLocal(path) {
		return "", outside
	}
	return path, nil
}

// maxLinks is how many symbolic links one path may follow.
const maxLinks = 40

// resolve returns the real path of path, relative to the root. It follows every link, so that
// rules about names apply to the real name. If a link changes later, the root still refuses to
// leave the working directory.
func (w *Workspace) resolve(path string) (string, error) {
	rel, missing, err := w.follow(path)
	if err == nil && missing != "" {
		err = w.unreachable(path, missing, fs.ErrNotExist)
	}
	return rel, err
}

// follow is resolve for a path that need not exist. missing is the first part of it that does not
// exist, or "".
func (w *Workspace) follow(path string) (real, missing string, err error) {
	rel, err := w.local(path)
	if err != nil {
		return "", "", err
	}
	done, rest, links := ".", strings.Split(rel, string(filepath.Separator)), 0
	given := len(rest) // how many parts of rest come from path, not from a link
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		linked := len(rest) >= given
		given = min(given, len(rest))
		if name == "" || name == "." {
			continue
		}
		if name == ".." {
			if done == "." {
				return "", "", fmt.Errorf("%s is a link that leads out of the working directory", path)
			}
			done = filepath.Dir(done)
			continue
		}
		next := filepath.Join(done, name)
		info, err := w.root.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) && !linked {
			return filepath.Join(next, filepath.Join(rest...)), next, nil
		}
		if err != nil {
			return "", "", w.unreachable(path, next, err)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", "", fmt.Errorf("%s leads through too many links", path)
		}
		target, err := w.linkTarget(path, next)
		if err != nil {
			return "", "", err
		}
		if target[0] == "" { // from the root
			done = "."
		}
		rest = append(target, rest...)
	}
	return done, "", nil
}

// linkTarget returns the parts of the path to which the link at next points. The first is empty
// if the path begins at the root.
func (w *Workspace) linkTarget(path, next string) ([]string, error) {
	target, err := w.root.Readlink(next)
	if err != nil {
		return nil, w.unreachable(path, next, err)
	}
	if filepath.IsAbs(target) {
		if target, err = w.local(target); err != nil {
			return nil, fmt.Errorf("%s is a link that leads out of the working directory", path)
		}
		target = string(filepath.Separator) + target
	}
	return strings.Split(target, string(filepath.Separator)), nil
}

// unreachable returns the error for path, of which the part next failed with err. If next does not exist, the error
// names similar names.
func (w *Workspace) unreachable(path, next string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		if errors.Is(err, syscall.ENOTDIR) {
			return fmt.Errorf("%s does not exist: %s is not a folder", path, slash(filepath.Dir(next)))
		}
		return fmt.Errorf("%s: %w", path, tree.Reason(err))
	}
	folder := filepath.Dir(next)
	entries, _ := w.entries(folder)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	similar := nearest(filepath.Base(next), names, 3)
	for i, n := range similar {
		similar[i] = tree.Printable(slash(filepath.Join(folder, n)))
	}
	switch {
	case len(similar) > 0:
		return fmt.Errorf("%s does not exist. Similar: %s", path, strings.Join(similar, ", "))
	case len(names) == 0:
		return fmt.Errorf("%s does not exist: the folder %s is empty", path, slash(folder))
	}
	return fmt.Errorf("%s does not exist: look with list_files at %s", path, slash(folder))
}

// find resolves the path of a regular file. It returns an error for anything else, such as a folder, a device or a
// pipe.
func (w *Workspace) find(path string) (rel string, info fs.FileInfo, err error) {
	if rel, err = w.resolve(path); err != nil {
		return "", nil, err
	}
	info, err = w.root.Lstat(rel)
	switch {
	case err != nil:
		return "", nil, w.unreachable(path, rel, err)
	case info.IsDir():
		return "", nil, fmt.Errorf("%s is a folder: use list_files", path)
	case !info.Mode().IsRegular():
		return "", nil, fmt.Errorf("%s is not a regular file", path)
	}
	return rel, info, nil
}

// opened is an open regular file.
type opened struct {
	*os.File
	rel  string // its real path
	info fs.FileInfo
}

// text returns a reader of the content that the file had when it was opened.
func (o opened) text() *io.LimitedReader { return regular.Reader(o.File, o.info) }

// open opens the regular file at path for reading. It returns an error for a file that is not read without an
// approval.
func (w *Workspace) open(path string) (opened, error) {
	rel, info, err := w.find(path)
	if err != nil {
		return opened{}, err
	}
	if why := w.unread(rel, path); why != "" {
		return opened{}, fmt.Errorf("%s %s and is not read", path, why)
	}
	return w.openFound(path, rel, info)
}

// maxReplaced is how often openFound tries again because the file was replaced while it was opened.
const maxReplaced = 10

// openFound opens the file that find returned. If another agent has put another regular file in its place
// meanwhile, it opens that one.
func (w *Workspace) openFound(path, rel string, info fs.FileInfo) (opened, error) {
	for range maxReplaced {
		f, now, err := regular.In(w.root, rel)
		switch {
		case err == nil && os.SameFile(info, now):
			return opened{f, rel, now}, nil
		case err == nil:
			f.Close()
		case !errors.Is(err, regular.ErrOther):
			return opened{}, fmt.Errorf("%s: %w", path, tree.Reason(err))
		}
		if info, err = w.root.Lstat(rel); err != nil || !info.Mode().IsRegular() {
			break
		}
	}
	return opened{}, fmt.Errorf("%s changed while it was opened: try again", path)
}

// entries lists the folder rel, unsorted.
func (w *Workspace) entries(rel string) ([]fs.DirEntry, error) {
	f, err := w.root.OpenFile(rel, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}

func slash(path string) string { return filepath.ToSlash(path) }
