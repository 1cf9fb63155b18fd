package astgrep

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"qq/internal/tools/tree"
	"qq/pkg/regular"
)

// maxFile is the largest file that the tools read, in bytes.
const maxFile = 64 << 20

// files lists the files that q searches, in the order of their paths. No file at all is an error.
func (c Config) files(ctx context.Context, q query) ([]string, error) {
	start, isDir, err := c.locate(cmp.Or(q.start, "."))
	if err != nil {
		return nil, err
	}
	home, err := filepath.EvalSymlinks(c.Dir)
	if err != nil {
		home = c.Dir
	}
	private := tree.Places(c.Private)
	unread := func(file string) string {
		file = filepath.ToSlash(filepath.Join(home, file))
		if c.Taken.Holds(file) {
			return tree.IsTaken
		}
		return private.Unread(file)
	}
	if !isDir {
		why := unread(start)
		if tree.Secret(q.start) {
			why = tree.LooksSecret
		}
		if why != "" {
			return nil, fmt.Errorf("%s %s and is not read", q.start, why)
		}
		if foreign(start, q.lang) {
			return nil, fmt.Errorf("%s is not a file of the language %s", q.start, q.lang)
		}
		return []string{start}, nil
	}
	var list []string
	_, err = tree.Walk(ctx, c.Root, start, func(file string, e fs.DirEntry) {
		below := file
		if start != "." {
			below = file[len(start)+1:]
		}
		if e.Type().IsRegular() && !foreign(file, q.lang) && tree.Admits(q.glob, below) && unread(file) == "" {
			list = append(list, file)
		}
	})
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("there are no files of the language %s: look at path, glob and lang", q.lang)
	}
	return list, err
}

// holding returns the files that contain all words. If none does, it returns the first file, so that ast-grep still
// checks the language and the pattern. A file that cannot be read is left out.
func (c Config) holding(ctx context.Context, files, words []string) ([]string, error) {
	if len(words) == 0 || len(files) == 0 {
		return files, nil
	}
	var kept []string
	for _, f := range files {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		content, err := c.read(f)
		lacks := func(word string) bool { return !bytes.Contains(content, []byte(word)) }
		if err == nil && !slices.ContainsFunc(words, lacks) {
			kept = append(kept, f)
		}
	}
	if len(kept) == 0 {
		kept = files[:1]
	}
	return kept, nil
}

// concern returns why a change of file needs an approval of its own, or "". It checks the
// absolute path, because the working directory itself may lie inside .git.
func (c Config) concern(file string) string {
	home, err := filepath.EvalSymlinks(c.Dir)
	if err != nil {
		return "is in a folder that cannot be found any more"
	}
	return tree.Places(c.Private).Concern(filepath.ToSlash(filepath.Join(home, file)))
}

// locate returns the real path of name, relative to the root with slashes, and
// whether it is a folder.
func (c Config) locate(name string) (string, bool, error) {
	outside := fmt.Errorf("%s is outside the working directory: use a path inside it, relative to it", name)
	home, err := filepath.EvalSymlinks(c.Dir)
	if err != nil {
		return "", false, fmt.Errorf("the working directory: %w", tree.Reason(err))
	}
	full := name
	if !filepath.IsAbs(name) {
		if !filepath.IsLocal(name) {
			return "", false, outside
		}
		full = filepath.Join(home, name)
	}
	real, err := filepath.EvalSymlinks(full)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, fmt.Errorf("%s does not exist", name)
	}
	if err != nil {
		return "", false, fmt.Errorf("%s: %w", name, tree.Reason(err))
	}
	rel, err := filepath.Rel(home, real)
	if err != nil || !filepath.IsLocal(rel) {
		return "", false, outside
	}
	info, err := c.Root.Stat(rel)
	switch {
	case err != nil:
		return "", false, fmt.Errorf("%s: %w", name, tree.Reason(err))
	case !info.IsDir() && !info.Mode().IsRegular():
		return "", false, fmt.Errorf("%s is not a regular file", name)
	}
	return filepath.ToSlash(rel), info.IsDir(), nil
}

// read returns the content of a file, which must be a regular one.
func (c Config) read(file string) ([]byte, error) {
	info, err := c.Root.Lstat(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, tree.Reason(err))
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, fmt.Errorf("%s is not a regular file of at most %d bytes", file, maxFile)
	}
	f, now, err := regular.In(c.Root, file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, tree.Reason(err))
	}
	defer f.Close()
	if !os.SameFile(info, now) { // another file was put in its place meanwhile
		return nil, errMoved(file)
	}
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// errMoved returns the error for a file that changed after ast-grep had read it.
func errMoved(file string) error {
	return fmt.Errorf("%s changed while it was searched: try again", file)
}
