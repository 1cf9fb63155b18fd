// Package files holds the tools that look into the working directory.
//
// Every path goes through one place (workspace): it stays inside the working
// directory, links included, and files that look like secrets are listed but
// not read. Every tree of files goes through one place as well, package
// tree, which obeys .gitignore.
//
// Not promised: that a secret is recognised in a file of another name, and
// that a tree which changes meanwhile is seen at one moment.
package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"qq/internal/toolbox/call"
	"qq/pkg/tool"
)

// workspace is the working directory of an agent.
type workspace struct {
	root    *os.Root
	workers int
	dirs    []string // absolute names of the root: as given, and without links
}

// Options of [Tools]. The zero value is the usual choice.
type Options struct {
	// Workers is how many files grep_file searches at once; 0 means what the
	// machine has.
	Workers int
}

// Tools returns the tools that look into the working directory root: read_file,
// list_files, list_directory and grep_file. They use root until the last call
// has ended; closing it is the business of the caller.
func Tools(root *os.Root, opts Options) tool.Set {
	w := newWorkspace(root)
	w.workers = opts.Workers
	return tool.Set{
		call.Function{About: readSpec(), Do: call.Text(w.readFile)},
		call.Function{About: listSpec(), Do: call.Text(w.listFiles)},
		call.Function{About: directorySpec(), Do: call.Text(w.listDirectory)},
		call.Function{About: grepSpec(), Do: call.Text(w.grepFile)},
	}
}

func newWorkspace(root *os.Root) *workspace {
	w := &workspace{root: root}
	if abs, err := filepath.Abs(root.Name()); err == nil {
		w.dirs = append(w.dirs, abs)
		if real, err := filepath.EvalSymlinks(abs); err == nil && real != abs {
			w.dirs = append(w.dirs, real)
		}
	}
	return w
}

// local makes path relative to the root, without following links.
func (w *workspace) local(path string) (string, error) {
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

// maxLinks is how many symbolic links one path may lead through.
const maxLinks = 40

// resolve returns the real path of path, relative to the root: every link is
// followed here, so that what is decided by name is decided by the real one.
// The root refuses what leads out of it even if a link changes meanwhile.
func (w *workspace) resolve(path string) (string, error) {
	rel, err := w.local(path)
	if err != nil {
		return "", err
	}
	done, rest, links := ".", strings.Split(rel, string(filepath.Separator)), 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		if name == "" || name == "." {
			continue
		}
		if name == ".." {
			if done == "." {
				return "", fmt.Errorf("%s is a link that leads out of the working directory", path)
			}
			done = filepath.Dir(done)
			continue
		}
		next := filepath.Join(done, name)
		info, err := w.root.Lstat(next)
		if err != nil {
			return "", w.unreachable(path, next, err)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%s leads through too many links", path)
		}
		target, err := w.root.Readlink(next)
		if err != nil {
			return "", w.unreachable(path, next, err)
		}
		if filepath.IsAbs(target) {
			if target, err = w.local(target); err != nil {
				return "", fmt.Errorf("%s is a link that leads out of the working directory", path)
			}
			done = "."
		}
		rest = append(strings.Split(target, string(filepath.Separator)), rest...)
	}
	return done, nil
}

// unreachable says why the part next of path could not be looked at and, when
// there is no such name, which ones there are.
func (w *workspace) unreachable(path, next string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		if errors.Is(err, syscall.ENOTDIR) {
			return fmt.Errorf("%s does not exist: %s is not a folder", path, slash(filepath.Dir(next)))
		}
		return fmt.Errorf("%s: %w", path, reason(err))
	}
	folder := filepath.Dir(next)
	entries, _ := w.entries(folder)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	similar := nearest(filepath.Base(next), names, 3)
	for i, n := range similar {
		similar[i] = printable(slash(filepath.Join(folder, n)))
	}
	switch {
	case len(similar) > 0:
		return fmt.Errorf("%s does not exist. Similar: %s", path, strings.Join(similar, ", "))
	case len(names) == 0:
		return fmt.Errorf("%s does not exist: the folder %s is empty", path, slash(folder))
	}
	return fmt.Errorf("%s does not exist: look with list_directory at %s", path, slash(folder))
}

// open opens the regular file at path for reading and returns its real path.
// Devices, pipes and secrets are refused.
func (w *workspace) open(path string) (*os.File, string, error) {
	rel, err := w.resolve(path)
	if err != nil {
		return nil, "", err
	}
	info, err := w.root.Lstat(rel)
	switch {
	case err != nil:
		return nil, "", w.unreachable(path, rel, err)
	case info.IsDir():
		return nil, "", fmt.Errorf("%s is a folder: use list_directory", path)
	case !info.Mode().IsRegular():
		return nil, "", fmt.Errorf("%s is not a regular file", path)
	case w.secret(rel):
		return nil, "", fmt.Errorf("%s looks like a file of secrets and is not read", path)
	}
	f, err := w.root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, reason(err))
	}
	// Somebody may have put something else there meanwhile.
	if opened, err := f.Stat(); err != nil || !os.SameFile(info, opened) {
		f.Close()
		return nil, "", fmt.Errorf("%s changed while it was opened: try again", path)
	}
	return f, rel, nil
}

// entries lists the folder rel, in no order.
func (w *workspace) entries(rel string) ([]fs.DirEntry, error) {
	f, err := w.root.Open(rel)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}

// reason drops the operation and the path from err: the path is said already,
// as the model wrote it.
func reason(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

func slash(path string) string { return filepath.ToSlash(path) }

// printable keeps one path on one line.
func printable(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Sprintf("%q", path)
	}
	return path
}

// nearest returns the at most n names that share most with name: pairs of
// neighbouring letters, so that parts count wherever they stand.
func nearest(name string, names []string, n int) []string {
	want := pairs(name)
	score := func(s string) float64 {
		have := pairs(s)
		common := 0
		for p, k := range want {
			common += min(k, have[p])
		}
		return 2 * float64(common) / float64(max(1, len(name)+len(s)))
	}
	type scored struct {
		name  string
		score float64
	}
	var list []scored
	for _, s := range names {
		if v := score(s); v > 0.4 {
			list = append(list, scored{s, v})
		}
	}
	slices.SortFunc(list, func(a, b scored) int {
		if a.score != b.score {
			return int(b.score*1e6) - int(a.score*1e6)
		}
		return strings.Compare(a.name, b.name)
	})
	var out []string
	for _, s := range list[:min(n, len(list))] {
		out = append(out, s.name)
	}
	return out
}

func pairs(s string) map[string]int {
	s = "^" + strings.ToLower(s) // the beginning counts
	count := make(map[string]int, len(s))
	for i := range len(s) - 1 {
		count[s[i:i+2]]++
	}
	return count
}
