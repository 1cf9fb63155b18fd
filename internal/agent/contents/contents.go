// Package contents tells whether the content of files has changed: from their stamps, and from a hash of what could be
// read.
package contents

import (
	"context"
	"errors"
	"hash/maphash"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"qq/internal/tools/tree"
	"qq/pkg/regular"
)

// Limits of what is read to know the contents of files: of others, a new time counts as a change.
const (
	maxHashed      = 5000
	maxHashedFile  = 1 << 20
	maxHashedBytes = 32 << 20
	hashTime       = 500 * time.Millisecond
)

// Stamp tells the content of a file from others, as far as that is known without reading it.
type Stamp struct {
	Size     int64
	Modified time.Time
	Mode     fs.FileMode
}

// Contents tells the contents of files from others. So a file that was only touched has not changed.
type Contents struct {
	seed maphash.Seed
	sums map[string]uint64
}

// Of reads the first of files, which are in root.
func Of(root *os.Root, files map[string]Stamp) Contents {
	c := Contents{maphash.MakeSeed(), map[string]uint64{}}
	end, bytes := time.Now().Add(hashTime), int64(0)
	for _, file := range slices.Sorted(maps.Keys(files)) {
		s := files[file]
		if !s.Mode.IsRegular() || s.Size > maxHashedFile || bytes+s.Size > maxHashedBytes {
			continue
		}
		if len(c.sums) == maxHashed || time.Now().After(end) {
			break
		}
		if sum, ok := c.sum(root, file); ok {
			c.sums[file] = sum
			bytes += s.Size
		}
	}
	return c
}

// Same reports whether a file is known to have the content that it had, and how it looked otherwise.
func (c Contents) Same(root *os.Root, file string, was, now Stamp) bool {
	before, known := c.sums[file]
	if !known || was.Size != now.Size || was.Mode != now.Mode {
		return false
	}
	after, ok := c.sum(root, file)
	return ok && after == before
}

// sum returns a hash of the content of a file in root.
func (c Contents) sum(root *os.Root, file string) (sum uint64, ok bool) {
	f, info, err := regular.In(root, file)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	var h maphash.Hash
	h.SetSeed(c.seed)
	_, err = io.Copy(&h, regular.Reader(f, info))
	return h.Sum64(), err == nil
}

// Stamps returns the stamps of the files in root, whose path is dir, without those that .gitignore excludes, and
// without those in the folders private. The error says that these are not all, because there are more than most, or
// that ctx is done.
func Stamps(ctx context.Context, root *os.Root, dir string, private []string, most int) (map[string]Stamp, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	files := map[string]Stamp{}
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
func Differing(before, now map[string]Stamp) (files []string) {
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
