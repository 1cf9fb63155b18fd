package terminal

import "golang.org/x/sys/unix"

// Flush discards what was typed on a terminal and not read yet.
func Flush(tty int) error { return unix.IoctlSetInt(tty, unix.TCFLSH, unix.TCIFLUSH) }
