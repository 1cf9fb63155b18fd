package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Concern returns why changing a file needs an approval of its own, or "" for most files. The
// path has slashes.
func Concern(file string) string {
	why := obeyed(file)
	if why != ofGit && Secret(file) {
		why = LooksSecret
	}
	return why
}

// Reason removes the operation and the path from a file error: the caller's message names the
// path as the model wrote it.
func Reason(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// Printable returns path, quoted if it contains control characters, so that it stays on one line.
func Printable(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Sprintf("%q", path)
	}
	return path
}

// Admits reports whether glob matches the path of a file, relative to the folder that is
// searched. A glob without a slash is matched against the file name alone.
func Admits(glob, below string) bool {
	if glob == "" {
		return true
	}
	if !strings.Contains(glob, "/") {
		below = path.Base(below)
	}
	return doublestar.MatchUnvalidated(glob, below)
}
