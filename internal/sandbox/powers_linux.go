package sandbox

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// powers lists the capabilities of root that reach beyond files: into other processes, whose environment contains
// secrets, into the kernel, and to the machine. CAP_DAC_READ_SEARCH opens files by their handles, past the mounts of a
// view; to read and search, CAP_DAC_OVERRIDE is enough. No command of an agent needs what is listed. Capabilities to
// change owners of files, to become another user or to configure the network are not, so that commands keep them.
func powers() []int {
	return []int{
		unix.CAP_SYS_PTRACE, unix.CAP_PERFMON, unix.CAP_CHECKPOINT_RESTORE, unix.CAP_SYS_ADMIN,
		unix.CAP_SYS_MODULE, unix.CAP_BPF, unix.CAP_SYSLOG, unix.CAP_MAC_ADMIN, unix.CAP_MAC_OVERRIDE,
		unix.CAP_SYS_RESOURCE, unix.CAP_SYS_RAWIO, unix.CAP_MKNOD, unix.CAP_SYS_BOOT, unix.CAP_SYS_TIME,
		unix.CAP_SYS_TTY_CONFIG, unix.CAP_DAC_READ_SEARCH,
	}
}

// dropPowers drops the capabilities that powers lists from the calling thread, which is about to become another
// program. The thread has set no_new_privs, so that they do not come back, even for root. A thread that has none of
// them stays as it is.
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
		// An error is ignored: the process may not do that, or the kernel does not know c. no_new_privs keeps c
		// from coming back all the same.
		_ = unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0)
	}
	if err := unix.Capset(&header, &has[0]); err != nil { // this empties them in the ambient set too
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}

// forgoPrivileges keeps the calling thread, and the program that it becomes, from gaining capabilities.
func forgoPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	return nil
}
