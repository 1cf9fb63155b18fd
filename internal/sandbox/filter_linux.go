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

// steering lists the system calls that change limits, priority and processors of the process that their first
// argument names; 0 is the caller. Filters refuse all other processes.
func steering() []uint32 { return []uint32{unix.SYS_PRLIMIT64} }

// scheduling lists further ones, which programs also use for their own threads.
func scheduling() []uint32 {
	return []uint32{unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETAFFINITY,
		unix.SYS_SCHED_SETATTR}
}

// keys lists the system calls about keys of the kernel, which processes of a user share. Filters refuse them.
func keys() []uint32 { return []uint32{unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL} }

// sharing lists the system calls of System V IPC: its objects outlive processes, and all processes of a user can
// reach them. Read-only rules refuse them.
func sharing() []uint32 {
	return []uint32{unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMCTL, unix.SYS_SEMOP,
		unix.SYS_SEMTIMEDOP, unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL}
}

// others returns the part of a filter that refuses to steer other processes. alone says that the process is in a PID
// namespace of its own: there, a process id names none that runs outside. The number of the call must be loaded.
func others(n numbers, alone bool) (p []unix.SockFilter) {
	byID := n.steering
	if !alone {
		byID = slices.Concat(byID, n.scheduling)
	}
	for _, nr := range byID {
		p = append(p, when(nr, caller(atArg0)...)...)
	}
	const ioprioWhoUser = 3
	for _, c := range []struct{ nr, user uint32 }{{n.setPriority, unix.PRIO_USER}, {n.setIOPriority, ioprioWhoUser}} {
		own := append([]unix.SockFilter{load(atArg0)}, when(c.user, give(refused))...)
		p = append(p, when(c.nr, append(own, caller(atArg1)...)...)...)
	}
	return p
}

// caller returns the end of a filter: it allows a call if its argument at at is 0, which means the caller.
func caller(at uint32) []unix.SockFilter {
	return append(append([]unix.SockFilter{load(at)}, when(0, give(allowed))...), give(refused))
}

// numbers are system call numbers of one architecture.
type numbers struct {
	ioctls, steering, scheduling, keys []uint32
	setPriority, setIOPriority         uint32
	socket, socketPair, socketCall     uint32 // socketCall makes all calls about sockets; 0 means that there is none
}

// native returns the numbers of this architecture.
func native() numbers {
	return numbers{ioctlsHere(), steering(), scheduling(), keys(), unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET,
		unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, 0}
}

// program returns the seccomp filter: that of read-only rules, or that of rules which allow writing. A refused
// system call fails with EPERM. alone is as for others.
func program(readOnly, alone bool) []unix.SockFilter {
	if !readOnly {
		return byArch(writing(native(), alone), writing(compat(), alone))
	}
	p := append(make([]unix.SockFilter, 0, 160),
		load(atArch),
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: arch, Jt: 1},
		give(unix.SECCOMP_RET_KILL_PROCESS),
		load(atNumber),
		// The numbers of x32, a second set of system calls on amd64, begin here.
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: 1 << 30, Jf: 1},
		give(refused))
	p = append(p, servers(native())...)
	p = append(p, when(unix.SYS_IOCTL, attributes()...)...)
	p = append(p, others(native(), alone)...)
	return refuse(p, slices.Sorted(slices.Values(slices.Concat(changes(), keys(), sharing()))))
}

// writing returns the end of a filter for rules that allow writing. The number of the call must be loaded.
func writing(n numbers, alone bool) (p []unix.SockFilter) {
	for _, nr := range n.ioctls {
		p = append(p, when(nr, typing()...)...)
	}
	for _, nr := range n.keys {
		p = append(p, when(nr, give(refused))...)
	}
	return append(append(p, others(n, alone)...), give(allowed))
}

// byArch returns a filter that goes on as here says for programs of this architecture, and else as foreign says. Both
// find the number of the call loaded.
func byArch(here, foreign []unix.SockFilter) []unix.SockFilter {
	const x32 = 1 << 30 // marks the numbers of x32, a second set of system calls on amd64
	p := append([]unix.SockFilter{load(atArch)}, when(arch, append([]unix.SockFilter{load(atNumber),
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: ^uint32(x32)}}, here...)...)...)
	return append(append(p, load(atNumber)), foreign...)
}

// withoutSockets returns a filter, besides that of program, which refuses all that could reach a server by a UNIX
// socket. Pairs of sockets that are connected to each other stay.
func withoutSockets() []unix.SockFilter {
	end := func(n numbers) []unix.SockFilter {
		p := append(servers(n), when(unix.SYS_IO_URING_SETUP, give(refused))...) // the same number everywhere
		if n.socketCall > 0 {
			p = append(p, when(n.socketCall, give(refused))...) // its arguments are out of sight
		}
		return append(p, give(allowed))
	}
	return byArch(end(native()), end(compat()))
}

// servers returns the part of a filter that refuses sockets by which other programs can be reached. The number of the
// call must be loaded.
func servers(n numbers) []unix.SockFilter {
	p := when(n.socket, append(append([]unix.SockFilter{load(atArg0)}, when(unix.AF_UNIX, give(refused))...),
		give(allowed))...)
	return append(p, when(n.socketPair, pairs()...)...)
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
