//go:build !linux

package childproc

import (
	"errors"
	"os"
)

// memFile is a file without a place on disk.
func memFile() (*os.File, error) { return nil, errors.ErrUnsupported }

// unnamedFile is a private file in dir that disappears with its last descriptor.
func unnamedFile(dir string) (*os.File, error) { return createUnnamed(dir) }

// nameProcess sets the name that ps and pkill show, where that is not the
// program's anyway.
func nameProcess(string) {}
