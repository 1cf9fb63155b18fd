//go:build !linux

// Package terminal makes pseudo-terminals for programs that a person would use.
package terminal

import (
	"errors"
	"os"
)

// Open makes a pseudo-terminal; there are none here.
func Open() (person, program *os.File, err error) { return nil, nil, errors.ErrUnsupported }
