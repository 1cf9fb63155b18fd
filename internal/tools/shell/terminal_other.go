//go:build unix && !linux

package shell

import "golang.org/x/sys/unix"

// How the mode of a terminal is read and set.
const (
	getMode = unix.TIOCGETA
	setMode = unix.TIOCSETA
)
