//go:build !linux

// Package terminal makes pseudo-terminals for programs that a person would use.
package terminal

import (
	"errors"
	"os"
)

// Open returns an error: pseudo-terminals are supported on Linux only.
func Open() (person, program *os.File, err error) { return nil, nil, errors.ErrUnsupported }
