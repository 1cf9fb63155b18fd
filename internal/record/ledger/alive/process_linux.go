package alive

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Identity returns a text that distinguishes the process pid from any later process with
// the same pid: the id of the boot and the start time of the process. It returns "" if
// there is no such process.
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

// terminate sends SIGTERM to the process pid, or returns ErrEnded if that process has ended
// or has another identity.
func terminate(pid int, identity string) error {
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case errors.Is(err, syscall.ESRCH), errors.Is(err, syscall.EINVAL):
		return ErrEnded
	case err != nil:
		return err
	}
	defer unix.Close(fd)
	// The identity is checked while the descriptor is open. The descriptor keeps referring to
	// the process that it was opened for, so the signal reaches no later process.
	if identity == "" || Identity(pid) != identity {
		return ErrEnded
	}
	return end(func(s syscall.Signal) error { return unix.PidfdSendSignal(fd, s, nil, 0) })
}
