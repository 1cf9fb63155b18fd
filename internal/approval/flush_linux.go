package approval

import "golang.org/x/sys/unix"

// flush drops what was typed and not read.
func flush(tty int) error { return unix.IoctlSetInt(tty, unix.TCFLSH, unix.TCIFLUSH) }
