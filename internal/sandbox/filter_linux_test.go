//go:build amd64 || arm64

package sandbox

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// verdict runs a filter over one system call. The machine reads big-endian words,
// so the record is written like that.
func verdict(t *testing.T, filter []unix.SockFilter, arch, nr uint32, args ...uint32) uint32 {
	t.Helper()
	raw := make([]bpf.Instruction, len(filter))
	for i, f := range filter {
		raw[i] = bpf.RawInstruction{Op: f.Code, Jt: f.Jt, Jf: f.Jf, K: f.K}.Disassemble()
	}
	vm, err := bpf.NewVM(raw)
	require.NoError(t, err)
	record := make([]byte, 64)
	binary.BigEndian.PutUint32(record[atNumber:], nr)
	binary.BigEndian.PutUint32(record[atArch:], arch)
	for i, a := range args {
		binary.BigEndian.PutUint32(record[atArg0+8*i:], a)
	}
	got, err := vm.Run(record)
	require.NoError(t, err)
	return uint32(got)
}

func TestFilter(t *testing.T) {
	const kill, foreign, x32 = unix.SECCOMP_RET_KILL_PROCESS, unix.AUDIT_ARCH_I386, 1 << 30
	for _, c := range []struct {
		name              string
		arch, nr          uint32
		args              []uint32
		readOnly, writing uint32
	}{
		{"read", arch, unix.SYS_READ, nil, allowed, allowed},
		{"openat", arch, unix.SYS_OPENAT, nil, allowed, allowed},
		{"connect", arch, unix.SYS_CONNECT, nil, allowed, allowed},
		{"fchmod", arch, unix.SYS_FCHMOD, nil, refused, allowed},
		{"last of the list", arch, unix.SYS_BPF, nil, refused, allowed},
		{"io_uring", arch, unix.SYS_IO_URING_SETUP, nil, refused, allowed},
		{"inet socket", arch, unix.SYS_SOCKET, []uint32{unix.AF_INET}, allowed, allowed},
		{"unix socket", arch, unix.SYS_SOCKET, []uint32{unix.AF_UNIX}, refused, allowed},
		{"stream pair", arch, unix.SYS_SOCKETPAIR, []uint32{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC},
			allowed, allowed},
		{"datagram pair", arch, unix.SYS_SOCKETPAIR, []uint32{unix.AF_UNIX, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC},
			refused, allowed},
		{"raw pair", arch, unix.SYS_SOCKETPAIR, []uint32{unix.AF_UNIX, unix.SOCK_RAW}, refused, allowed},
		{"window size", arch, unix.SYS_IOCTL, []uint32{0, unix.TIOCGWINSZ}, allowed, allowed},
		{"typing", arch, unix.SYS_IOCTL, []uint32{0, unix.TIOCSTI}, refused, refused},
		{"pasting", arch, unix.SYS_IOCTL, []uint32{0, unix.TIOCLINUX}, refused, refused},
		{"read flags", arch, unix.SYS_IOCTL, []uint32{0, unix.FS_IOC_GETFLAGS}, allowed, allowed},
		{"set flags", arch, unix.SYS_IOCTL, []uint32{0, unix.FS_IOC_SETFLAGS}, refused, allowed},
		{"set flags, xfs", arch, unix.SYS_IOCTL, []uint32{0, 0x401c5820}, refused, allowed},
		{"make a subvolume", arch, unix.SYS_IOCTL, []uint32{0, 0x5000940e}, refused, allowed},
		{"terminal settings", arch, unix.SYS_IOCTL, []uint32{0, unix.TCSETS}, allowed, allowed},
		{"requests of others that write", arch, unix.SYS_IOCTL, []uint32{0, unix.TUNSETIFF}, allowed, allowed},
		{"another architecture", foreign, 4, nil, kill, allowed},
		{"another architecture, typing", foreign, compat().ioctls[0], []uint32{0, unix.TIOCSTI}, kill, refused},
		{"own limits", arch, unix.SYS_PRLIMIT64, []uint32{0}, allowed, allowed},
		{"limits of another", arch, unix.SYS_PRLIMIT64, []uint32{7}, refused, refused},
		{"limits of another, x32", arch, x32 | unix.SYS_PRLIMIT64, []uint32{7}, refused, refused},
		{"limits of another, another architecture", foreign, compat().steering[0], []uint32{7}, kill, refused},
		{"own limits, another architecture", foreign, compat().steering[0], []uint32{0}, kill, allowed},
		{"own priority", arch, unix.SYS_SETPRIORITY, []uint32{unix.PRIO_PROCESS, 0}, allowed, allowed},
		{"priority of its group", arch, unix.SYS_SETPRIORITY, []uint32{unix.PRIO_PGRP, 0}, allowed, allowed},
		{"priority of another", arch, unix.SYS_SETPRIORITY, []uint32{unix.PRIO_PROCESS, 7}, refused, refused},
		{"priority of the user", arch, unix.SYS_SETPRIORITY, []uint32{unix.PRIO_USER, 0}, refused, refused},
		{"own I/O priority", arch, unix.SYS_IOPRIO_SET, []uint32{1, 0}, allowed, allowed},
		{"I/O priority of another", arch, unix.SYS_IOPRIO_SET, []uint32{1, 7}, refused, refused},
		{"I/O priority of the user", arch, unix.SYS_IOPRIO_SET, []uint32{3, 0}, refused, refused},
		{"own processors", arch, unix.SYS_SCHED_SETAFFINITY, []uint32{0}, allowed, allowed},
		{"keys", arch, unix.SYS_KEYCTL, nil, refused, refused},
		{"keys, another architecture", foreign, compat().keys[0], nil, kill, refused},
		{"shared memory", arch, unix.SYS_SHMGET, []uint32{7}, refused, allowed},
		{"x32", arch, x32 | 90, nil, refused, allowed},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, alone := range []bool{false, true} {
				assert.Equal(t, c.readOnly, verdict(t, program(true, alone), c.arch, c.nr, c.args...), "read-only")
				assert.Equal(t, c.writing, verdict(t, program(false, alone), c.arch, c.nr, c.args...), "writing")
			}
		})
	}
	for _, nr := range slices.Concat(changes(), keys(), sharing()) {
		assert.Equal(t, refused, verdict(t, program(true, true), arch, nr), "system call %d", nr)
	}
	for _, nr := range ioctlsHere() {
		assert.Equal(t, refused, verdict(t, program(false, true), arch, nr, 0, unix.TIOCSTI), "ioctl %d", nr)
	}
	for _, nr := range scheduling() { // threads have ids too
		for _, readOnly := range []bool{false, true} {
			assert.Equal(t, refused, verdict(t, program(readOnly, false), arch, nr, 7), "system call %d", nr)
			assert.Equal(t, uint32(allowed), verdict(t, program(readOnly, true), arch, nr, 7), "system call %d", nr)
		}
	}
}

func TestFilterOfSockets(t *testing.T) {
	const foreign, x32 = unix.AUDIT_ARCH_I386, 1 << 30
	local, stream, datagram := uint32(unix.AF_UNIX), uint32(unix.SOCK_STREAM), uint32(unix.SOCK_DGRAM)
	for _, c := range []struct {
		name     string
		arch, nr uint32
		args     []uint32
		want     uint32
	}{
		{"read", arch, unix.SYS_READ, nil, allowed},
		{"internet", arch, unix.SYS_SOCKET, []uint32{unix.AF_INET}, allowed},
		{"unix", arch, unix.SYS_SOCKET, []uint32{local, stream}, refused},
		{"unix, x32", arch, x32 | unix.SYS_SOCKET, []uint32{local, stream}, refused},
		{"stream pair", arch, unix.SYS_SOCKETPAIR, []uint32{local, stream}, allowed},
		{"datagram pair", arch, unix.SYS_SOCKETPAIR, []uint32{local, datagram}, refused},
		{"io_uring", arch, unix.SYS_IO_URING_SETUP, nil, refused},
		{"another architecture", foreign, 4, nil, allowed},
		{"internet, another architecture", foreign, compat().socket, []uint32{unix.AF_INET}, allowed},
		{"unix, another architecture", foreign, compat().socket, []uint32{local, stream}, refused},
		{"datagram pair, another architecture", foreign, compat().socketPair, []uint32{local, datagram}, refused},
		{"all calls in one", foreign, compat().socketCall, []uint32{1}, refused},
		{"io_uring, another architecture", foreign, unix.SYS_IO_URING_SETUP, nil, refused},
	} {
		assert.Equal(t, c.want, verdict(t, withoutSockets(), c.arch, c.nr, c.args...), c.name)
	}
}
