// Package stamps tells which files of a folder have changed, as far as that is known without reading all of them.
//
// Not promised: a change that keeps size, time and mode of a file is not seen.
package stamps

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"qq/internal/tools/tree"
)

// Stamp tells the content of a file from others, as far as that is known without reading it.
type Stamp struct {
	Size     int64
	Modified time.Time
	Mode     fs.FileMode
}

// Files are the stamps of the files in a folder, by their paths in it.
type Files map[string]Stamp

// Of returns the stamps of the files in root, whose path is dir, without those that .gitignore excludes, and without
// those in the folders private. The error says that these are not all, because there are more than most, or that ctx is
// done.
func Of(ctx context.Context, root *os.Root, dir string, private []string, most int) (Files, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	files := Files{}
	hidden, place := tree.Places(private), tree.Places([]string{dir})[0]
	if hidden.Holds(place) { // a person works in a folder of qq
		hidden = nil
	}
	_, _ = tree.Walk(ctx, root, ".", func(file string, e fs.DirEntry) {
		if info, err := e.Info(); err == nil && !hidden.Holds(place+file) {
			files[file] = Stamp{info.Size(), info.ModTime(), info.Mode()}
		}
		if len(files) > most {
			cancel(errors.New("too many files"))
		}
	})
	return files, context.Cause(ctx)
}

// Differing returns the files that are not the same in both.
func Differing(before, now Files) (files []string) {
	for file, s := range now {
		if was, ok := before[file]; !ok || was != s {
			files = append(files, file)
		}
	}
	for file := range before {
		if _, ok := now[file]; !ok {
			files = append(files, file)
		}
	}
	return files
}
