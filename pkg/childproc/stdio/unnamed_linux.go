package stdio

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// memFile returns a new empty file in memory.
func memFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("task", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), "task"), nil
}

// Unnamed creates a private file in dir that has no name. The file disappears when its last
// descriptor is closed.
func Unnamed(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_APPEND|unix.O_CLOEXEC, 0o600)
	if err != nil { // not every file system can do that
		return createUnnamed(dir)
	}
	return os.NewFile(uintptr(fd), filepath.Join(dir, "unnamed")), nil
}
