//go:build amd64 || arm64

package sandbox

import (
	"slices"

	"golang.org/x/sys/unix"
)

// The offsets of the parts of a system call that a filter reads, on little-endian machines: the number, the
// architecture, and the lower half of the first and of the second argument.
const (
	atNumber = 0
	atArch   = 4
	atArg0   = 16
	atArg1   = 24
)

// ioctl32 is the number of the system call ioctl in 32-bit programs, on amd64 and on arm64.
const ioctl32 = 54

// filterable says that there is a filter for this architecture.
const filterable = true

const (
	allowed = unix.SECCOMP_RET_ALLOW
	refused = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
)

// changes lists the system calls that change something without opening it for writing. Read-only rules refuse them.
// The list contains io_uring because filters do not see the calls that it makes.
func changes() []uint32 {
	return append(changesHere(),
		unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
		unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_SETXATTRAT,
		unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_REMOVEXATTRAT,
		unix.SYS_FILE_SETATTR, unix.SYS_MOUNT_SETATTR, unix.SYS_OPEN_TREE_ATTR, unix.SYS_IO_URING_SETUP,
		unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
		unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_BPF)
}

// program returns the seccomp filter: that of read-only rules, or that of rules which allow writing. A refused
// system call fails with EPERM.
func program(readOnly bool) []unix.SockFilter {
	if !readOnly {
		native := []unix.SockFilter{load(atNumber)}
		for _, nr := range ioctlsHere() {
			native = append(native, when(nr, typing()...)...)
		}
		p := append([]unix.SockFilter{load(atArch)}, when(arch, append(native, give(allowed))...)...)
		p = append(append(p, load(atNumber)), when(ioctl32, typing()...)...)
		return append(p, give(allowed))
	}
	p := append(make([]unix.SockFilter, 0, 128),
		load(atArch),
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: arch, Jt: 1},
		give(unix.SECCOMP_RET_KILL_PROCESS),
		load(atNumber),
		// The numbers of x32, a second set of system calls on amd64, begin here.
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: 1 << 30, Jf: 1},
		give(refused))
	p = append(p, when(unix.SYS_SOCKET, append(append([]unix.SockFilter{load(atArg0)},
		when(unix.AF_UNIX, give(refused))...), give(allowed))...)...)
	p = append(p, when(unix.SYS_SOCKETPAIR, pairs()...)...)
	p = append(p, when(unix.SYS_IOCTL, attributes()...)...)
	return refuse(p, slices.Sorted(slices.Values(changes())))
}

// refuse appends the end of a filter to p: it refuses the system calls in sorted and allows all others. The number
// of the call must be loaded. The end is a binary search, because the kernel runs a new filter once for every
// system call number.
func refuse(p []unix.SockFilter, sorted []uint32) []unix.SockFilter {
	if n := len(sorted); n <= 4 {
		for i, nr := range sorted {
			p = append(p, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: nr, Jt: uint8(n - i)})
		}
		return append(p, give(allowed), give(refused))
	}
	half, at := len(sorted)/2, len(p)
	p = append(p, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: sorted[half]})
	p = refuse(p, sorted[:half])
	p[at].Jt = uint8(len(p) - at - 1) // jump over the lower half
	return refuse(p, sorted[half:])
}

// pairs returns the end of a filter for socketpair: it refuses pairs of datagram sockets, because such a socket
// could send to any other one. The upper bits of the type are flags and are ignored.
func pairs() []unix.SockFilter {
	p := []unix.SockFilter{load(atArg1), {Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xf}}
	p = append(p, when(unix.SOCK_DGRAM, give(refused))...)
	p = append(p, when(unix.SOCK_RAW, give(refused))...) // the kernel treats it as SOCK_DGRAM
	return append(p, give(allowed))
}

// typing returns the end of a filter for ioctl: it refuses requests that type into a terminal (TIOCSTI, TIOCLINUX).
func typing() []unix.SockFilter {
	p := []unix.SockFilter{load(atArg1)}
	p = append(p, when(unix.TIOCSTI, give(refused))...)
	p = append(p, when(unix.TIOCLINUX, give(refused))...)
	return append(p, give(allowed))
}

// attributes returns the end of a filter for ioctl: it refuses what typing refuses, and requests that write to a
// file system through a descriptor opened for reading. Such requests change flags of files (chattr) and, on btrfs,
// make and remove folders.
func attributes() []unix.SockFilter {
	const brings = 1 << 30 // _IOC_WRITE: the request passes data to the kernel
	p := typing()
	p = p[:len(p)-1]
	p = append(p,
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: brings, Jt: 1},
		give(allowed),
		unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_RSH | unix.BPF_K, K: 8},
		unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xff})
	for _, fs := range []uint32{'f', 'X', 0x94} { // all and ext4, all and xfs, btrfs
		p = append(p, when(fs, give(refused))...)
	}
	return append(p, give(allowed))
}

func load(at uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
}

func give(verdict uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: verdict}
}

// when returns instructions that run then if the loaded value is k. The last of then must return a verdict.
func when(k uint32, then ...unix.SockFilter) []unix.SockFilter {
	return append([]unix.SockFilter{{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jf: uint8(len(then))}},
		then...)
}
