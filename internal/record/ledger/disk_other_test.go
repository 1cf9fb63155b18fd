//go:build !linux

package ledger

import "errors"

// fillUp needs a disk of its own.
func fillUp(string, []string) error { return errors.ErrUnsupported }

// noRight is tested on Linux.
func noRight(string, []string) error { return errors.ErrUnsupported }
