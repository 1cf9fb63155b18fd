package sandbox

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// powers are the capabilities of root that reach beyond files: into other
// processes, whose environment holds secrets, into the kernel, and to the
// machine. No command of an agent needs them; to give a file to another owner, to
// become another user or to set up the network are not among them.
func powers() []int {
	return []int{
		unix.CAP_SYS_PTRACE, unix.CAP_PERFMON, unix.CAP_CHECKPOINT_RESTORE, unix.CAP_SYS_ADMIN,
		unix.CAP_SYS_MODULE, unix.CAP_BPF, unix.CAP_SYSLOG, unix.CAP_MAC_ADMIN, unix.CAP_MAC_OVERRIDE,
		unix.CAP_SYS_RAWIO, unix.CAP_MKNOD, unix.CAP_SYS_BOOT, unix.CAP_SYS_TIME, unix.CAP_SYS_TTY_CONFIG,
	}
}

// dropPowers takes the powers from this thread, which has given up new privileges
// and is to become a program: so that none comes back, even to root. Without any
// there is nothing to do.
func dropPowers() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	if err := unix.Capget(&header, &has[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	before := has
	for _, c := range powers() {
		part, mask := &has[c/32], ^(uint32(1) << (c % 32))
		part.Effective &= mask
		part.Permitted &= mask
		part.Inheritable &= mask
	}
	if has == before {
		return nil
	}
	for _, c := range powers() {
		// Who may not do that, or has a kernel without this one, gets it back no more
		// for that: new privileges are given up.
		_ = unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0)
	}
	if err := unix.Capset(&header, &has[0]); err != nil { // of the ambient set too
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}
