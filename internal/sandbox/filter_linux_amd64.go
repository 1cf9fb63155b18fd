package sandbox

import "golang.org/x/sys/unix"

const arch = unix.AUDIT_ARCH_X86_64

// changesHere are the changes that arm64 has no call for.
func changesHere() []uint32 {
	return []uint32{
		unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT,
		unix.SYS_IOPL, unix.SYS_IOPERM,
	}
}

// ioctlsHere are the numbers of ioctl, that of x32 included.
func ioctlsHere() []uint32 { return []uint32{unix.SYS_IOCTL, 1<<30 | 514} }
