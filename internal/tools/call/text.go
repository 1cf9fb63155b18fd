package call

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Reason drops the operation and the path from err: the path is said already,
// as the model wrote it.
func Reason(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// Printable keeps one path on one line.
func Printable(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Sprintf("%q", path)
	}
	return path
}

// Admits reports whether glob admits a file, given its path below the folder
// that is searched. A glob without a slash is about the name alone.
func Admits(glob, below string) bool {
	if glob == "" {
		return true
	}
	if !strings.Contains(glob, "/") {
		below = path.Base(below)
	}
	return doublestar.MatchUnvalidated(glob, below)
}
