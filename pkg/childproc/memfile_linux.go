package childproc

import (
	"os"

	"golang.org/x/sys/unix"
)

// memFile is a file without a place on disk.
func memFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("task", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), "task"), nil
}
