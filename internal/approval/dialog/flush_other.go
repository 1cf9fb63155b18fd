//go:build !linux

package dialog

import "golang.org/x/sys/unix"

// flush discards typed input that was not read yet.
func flush(tty int) error {
	const input = 1 // FREAD of <sys/fcntl.h>
	return unix.IoctlSetPointerInt(tty, unix.TIOCFLUSH, input)
}
