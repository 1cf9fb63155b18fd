package shell

import "golang.org/x/sys/unix"

// How the mode of a terminal is read and set.
const (
	getMode = unix.TCGETS
	setMode = unix.TCSETS
)
