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

// ioctlsHere lists the numbers of ioctl, including that of x32.
func ioctlsHere() []uint32 { return []uint32{unix.SYS_IOCTL, 1<<30 | 514} }
