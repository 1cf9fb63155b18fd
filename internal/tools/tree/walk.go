// Package tree goes through the files below a folder of an [os.Root]: [Walk]
// visits them, [Search] finds the lines that match a [Pattern]. It also judges a
// file by its name alone: [Secret], [Concern], [Private], [Admits].
//
// Both obey the .gitignore files between the root and a file, skip .git, never
// follow a link, and go in the order of the paths, byte by byte, so that what
// was cut off is always the end. Paths are relative to the root and have
// slashes.
//
// Not promised: the rules of files other than .gitignore, and a consistent view
// of a tree that changes meanwhile.
package tree

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"qq/pkg/regular"
)

// maxIgnoreFile is how many bytes of one .gitignore file are read.
const maxIgnoreFile = 1 << 20

// level is one folder on the path to the current place of a walk, with the rules of its
// .gitignore file.
type level struct {
	dir   string // "" for the root, else with a final slash
	rules rules
}

// walk is the state of one call of Walk.
type walk struct {
	root       *os.Root
	visit      func(file string, e fs.DirEntry)
	levels     []level
	unreadable int // folders
}

// Walk calls visit for each file below the folder start, links and devices
// included. It returns how many folders could not be read.
func Walk(ctx context.Context, root *os.Root, start string,
	visit func(file string, e fs.DirEntry)) (unreadable int, err error) {
	wk := &walk{root: root, visit: visit}
	if start != "." {
		wk.load("")
		for i, c := range start {
			if c == '/' {
				wk.load(start[:i+1])
			}
		}
		start += "/"
	} else {
		start = ""
	}
	err = wk.folder(ctx, start)
	return wk.unreadable, err
}

func (wk *walk) folder(ctx context.Context, dir string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	entries, err := readDir(wk.root, path.Clean(dir))
	if err != nil {
		wk.unreadable++
		return nil
	}
	rules := func(e fs.DirEntry) bool { return e.Name() == ".gitignore" && e.Type().IsRegular() }
	if slices.ContainsFunc(entries, rules) {
		depth := len(wk.levels)
		wk.load(dir)
		defer func() { wk.levels = wk.levels[:depth] }()
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(pathKey(a), pathKey(b)) })
	for _, e := range entries {
		name := dir + e.Name()
		if e.Name() == ".git" || wk.excludes(name, e.IsDir()) {
			continue
		}
		if !e.IsDir() {
			wk.visit(name, e)
			continue
		}
		if err := wk.folder(ctx, name+"/"); err != nil {
			return err
		}
	}
	return nil
}

func readDir(root *os.Root, dir string) ([]fs.DirEntry, error) {
	f, err := root.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}

// pathKey returns the key by which the entries of a folder are sorted, so that whole paths come
// in order.
func pathKey(e fs.DirEntry) string {
	if e.IsDir() {
		return e.Name() + "/"
	}
	return e.Name()
}

// load reads the .gitignore file of dir, which is "" or ends with a slash. Without a readable one it does nothing.
func (wk *walk) load(dir string) {
	info, err := wk.root.Lstat(dir + ".gitignore")
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	f, _, err := regular.In(wk.root, dir+".gitignore")
	if err != nil {
		return
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxIgnoreFile))
	if err != nil {
		return
	}
	wk.levels = append(wk.levels, level{dir, parseIgnore(string(data))})
}

// excludes reports whether .gitignore files exclude name. The nearest folder decides first. An
// excluded folder is not entered, so rules cannot include a file below it again.
func (wk *walk) excludes(name string, isDir bool) bool {
	for _, l := range slices.Backward(wk.levels) {
		if v := l.rules.match(name[len(l.dir):], isDir); v != silent {
			return v == ignored
		}
	}
	return false
}
