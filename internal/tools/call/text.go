package call

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
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
