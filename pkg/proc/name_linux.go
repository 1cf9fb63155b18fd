package proc

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Name sets the name that ps and pkill show for this process. Without it, the kernel takes the name
// from the path of the program, which may be /proc/self/exe.
func Name(name string) {
	if b, err := unix.BytePtrFromString(name); err == nil {
		_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(b)), 0, 0, 0)
	}
}
