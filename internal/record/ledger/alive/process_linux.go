package alive

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Identity tells the process pid from a later one with the same pid: by the boot
// and the moment in it when it started. It is empty when there is none.
func Identity(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The name, in parentheses, may contain anything. Behind it is the third field;
	// the 22nd is the start.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const start = 22 - 3
	if len(fields) <= start || string(fields[0]) == "Z" {
		return ""
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(boot)) + " " + string(fields[start])
}

// terminate sends SIGTERM to the process pid if it is still the one with that
// identity.
func terminate(pid int, identity string) error {
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case errors.Is(err, syscall.ESRCH), errors.Is(err, syscall.EINVAL):
		return ErrEnded
	case err != nil:
		return err
	}
	defer unix.Close(fd)
	// Looked at while the descriptor is held: that is the process it stands for, or
	// a later one, which the signal does not reach.
	if identity == "" || Identity(pid) != identity {
		return ErrEnded
	}
	return end(func(s syscall.Signal) error { return unix.PidfdSendSignal(fd, s, nil, 0) })
}
