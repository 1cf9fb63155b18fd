package sandbox

import "golang.org/x/sys/unix"

const arch = unix.AUDIT_ARCH_X86_64

// changesHere lists the system calls that belong to changes and that arm64 does not have.
func changesHere() []uint32 {
	return []uint32{
		unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT,
		unix.SYS_IOPL, unix.SYS_IOPERM,
	}
}

// ioctlsHere lists the numbers of ioctl, including that of x32 without its mark.
func ioctlsHere() []uint32 { return []uint32{unix.SYS_IOCTL, 514} }

// compat returns the numbers of 32-bit programs (i386).
func compat() numbers {
	return numbers{ioctls: []uint32{54}, steering: []uint32{340}, scheduling: []uint32{154, 156, 241, 351},
		keys: []uint32{286, 287, 288}, setPriority: 97, setIOPriority: 289,
		socket: 359, socketPair: 360, socketCall: 102}
}
