//go:build !linux

package dialog

import "golang.org/x/sys/unix"

// Requests that read and set the mode of a terminal.
const (
	getMode = unix.TIOCGETA
	setMode = unix.TIOCSETA
)
