//go:build !linux

package stdio

import (
	"errors"
	"os"
)

// memFile always fails: files in memory exist only on Linux.
func memFile() (*os.File, error) { return nil, errors.ErrUnsupported }

// Unnamed creates a private file in dir that disappears when its last descriptor is closed.
func Unnamed(dir string) (*os.File, error) { return createUnnamed(dir) }
