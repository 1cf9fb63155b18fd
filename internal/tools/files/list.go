package files

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"qq/internal/tools/tree"
	"qq/pkg/tool"
)

const (
	defaultListed = 1000
	maxListed     = 10_000
	// Alternatives multiply, so their number and the length of a glob are bounded.
	maxGlob   = 500
	maxBraces = 6
)

func listSpec() tool.Spec {
	return tool.Spec{Name: "list_files", Effect: tool.Reads,
		Description: `List files in a folder and below. Example: {"path":"src","pattern":"**/*.go"}`,
		Parameters: json.RawMessage(`{"type":"object","properties":{` +
			`"path":{"type":"string"},"pattern":{"type":"string"},"limit":{"type":"integer"}}}`)}
}

func directorySpec() tool.Spec {
	return tool.Spec{Name: "list_directory", Effect: tool.Reads,
		Description: `List one folder, with sizes. Example: {"path":"src"}`,
		Parameters:  json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)}
}

func checkGlob(glob string) error {
	switch {
	case len(glob) > maxGlob || strings.Count(glob, "{") > maxBraces:
		return fmt.Errorf("glob is too long: at most %d characters and %d braces", maxGlob, maxBraces)
	case !doublestar.ValidatePattern(glob):
		return fmt.Errorf("%q is not a glob: use for example **/*.go", glob)
	}
	return nil
}

func (w *Workspace) listFiles(ctx context.Context, args json.RawMessage) (string, error) {
	var path, pattern string
	var limit int
	if err := tool.Decode(args, tool.Fields{"path": &path, "pattern": &pattern, "limit": &limit}); err != nil {
		return "", err
	}
	limit = tool.Bounded(limit, defaultListed, maxListed)
	pattern = strings.TrimPrefix(cmp.Or(pattern, "**"), "./")
	if err := checkGlob(pattern); err != nil {
		return "", err
	}
	rel, isDir, err := w.look(path)
	if err != nil {
		return "", err
	}
	if !isDir {
		return tree.Printable(slash(rel)), nil
	}
	below := len(under(rel))
	var lines []string
	more := 0
	unreadable, err := tree.Walk(ctx, w.root, slash(rel), func(file string, e fs.DirEntry) {
		switch {
		case !doublestar.MatchUnvalidated(pattern, file[below:]), !w.isFile(file, e), w.taken.Holds(w.full(file)):
		case len(lines) == limit:
			more++
		default:
			lines = append(lines, tree.Printable(file))
		}
	})
	if err != nil {
		return "", err
	}
	if len(lines) == 0 {
		hint := ""
		if !strings.Contains(pattern, "/") && pattern != "**" {
			hint = fmt.Sprintf(": use **/%s to look in the folders below as well", pattern)
		}
		lines = append(lines, fmt.Sprintf("[no files in %s match %s%s]", slash(rel), pattern, hint))
	}
	if unreadable > 0 {
		lines = append(lines, fmt.Sprintf("[%d folders could not be read]", unreadable))
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("[%d more files: narrow the pattern]", more))
	}
	return strings.Join(lines, "\n"), nil
}

// under returns the prefix that all paths in the folder rel have.
func under(rel string) string {
	if rel == "." {
		return ""
	}
	return slash(rel) + "/"
}

// look resolves path and reports whether it is a folder. An empty path is the working directory.
func (w *Workspace) look(path string) (rel string, isDir bool, err error) {
	rel, err = w.resolve(cmp.Or(path, "."))
	if err != nil {
		return "", false, err
	}
	info, err := w.root.Lstat(rel)
	if err != nil {
		return "", false, w.unreachable(path, rel, err)
	}
	return rel, info.IsDir(), nil
}

// isFile reports whether e is a file, or a link to one inside the root.
func (w *Workspace) isFile(file string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.Type().IsRegular()
	}
	info, err := w.root.Stat(file)
	return err == nil && info.Mode().IsRegular()
}

func (w *Workspace) listDirectory(ctx context.Context, args json.RawMessage) (string, error) {
	var path string
	if err := tool.Decode(args, tool.Fields{"path": &path}); err != nil {
		return "", err
	}
	rel, isDir, err := w.look(path)
	if err != nil {
		return "", err
	}
	if !isDir {
		return "", fmt.Errorf("%s is a file: use read_file", path)
	}
	entries, err := w.entries(rel)
	if err != nil {
		return "", fmt.Errorf("%s: %w", slash(rel), tree.Reason(err))
	}
	if len(entries) == 0 {
		return "[the folder is empty]", nil
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		return w.taken.Holds(w.full(under(rel) + e.Name()))
	})
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	var lines []string
	for _, e := range entries[:min(len(entries), defaultListed)] {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		lines = append(lines, w.describe(under(rel)+e.Name(), e))
	}
	if more := len(entries) - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("[%d more entries: use list_files with a pattern]", more))
	}
	return strings.Join(lines, "\n"), nil
}

// describe formats one entry of list_directory.
func (w *Workspace) describe(file string, e fs.DirEntry) string {
	name := tree.Printable(e.Name())
	switch {
	case e.IsDir():
		return name + "/"
	case e.Type()&fs.ModeSymlink != 0:
		target, _ := w.root.Readlink(file)
		return name + " -> " + tree.Printable(target)
	case !e.Type().IsRegular():
		return name + " (not a regular file)"
	}
	info, err := w.root.Lstat(file)
	if err != nil {
		return name
	}
	return fmt.Sprintf("%s %d", name, info.Size())
}
