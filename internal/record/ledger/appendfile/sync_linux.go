package appendfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData writes the content of f to the disk. Of the metadata of f it writes only what is
// needed to read the content, such as its size.
func syncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
