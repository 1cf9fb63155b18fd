package childproc

import (
	"os"
	"path/filepath"
	"unsafe"

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

// unnamedFile creates a private file in dir that has no name. The file disappears when its last
// descriptor is closed.
func unnamedFile(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_APPEND|unix.O_CLOEXEC, 0o600)
	if err != nil { // not every file system can do that
		return createUnnamed(dir)
	}
	return os.NewFile(uintptr(fd), filepath.Join(dir, "unnamed")), nil
}

// nameProcess sets the name that ps and pkill show for this process. Without it, the kernel takes
// the name from the path of the program, which for a child is /proc/self/exe.
func nameProcess(name string) {
	b, err := unix.BytePtrFromString(name)
	if err == nil {
		_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(b)), 0, 0, 0)
	}
}
