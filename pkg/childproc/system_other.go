//go:build !linux

package childproc

import (
	"errors"
	"os"
)

// memFile always fails: files in memory exist only on Linux.
func memFile() (*os.File, error) { return nil, errors.ErrUnsupported }

// unnamedFile creates a private file in dir that disappears when its last descriptor is closed.
func unnamedFile(dir string) (*os.File, error) { return createUnnamed(dir) }

// nameProcess does nothing: here ps and pkill show the name of the program anyway.
func nameProcess(string) {}
