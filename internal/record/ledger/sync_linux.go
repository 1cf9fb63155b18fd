package ledger

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData brings what is in f to the disk, and of what is known about f only what
// reading it needs.
func syncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
