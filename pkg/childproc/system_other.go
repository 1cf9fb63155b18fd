//go:build !linux

package childproc

import (
	"errors"
	"os"
)

// memFile is a file without a place on disk.
func memFile() (*os.File, error) { return nil, errors.ErrUnsupported }

// nameProcess sets the name that ps and pkill show, where that is not the
// program's anyway.
func nameProcess(string) {}
