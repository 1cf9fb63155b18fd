package dialog

import "golang.org/x/sys/unix"

// flush discards typed input that was not read yet.
func flush(tty int) error { return unix.IoctlSetInt(tty, unix.TCFLSH, unix.TCIFLUSH) }
