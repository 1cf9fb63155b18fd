//go:build !linux

package terminal

import "golang.org/x/sys/unix"

// Flush discards what was typed on a terminal and not read yet.
func Flush(tty int) error {
	const input = 1 // FREAD of <sys/fcntl.h>
	return unix.IoctlSetPointerInt(tty, unix.TIOCFLUSH, input)
}
