//go:build !linux

package ledger

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// process is empty: here only the lock tells whether a root is alive.
func process(int) string { return "" }

// terminate sends SIGTERM to the process pid, which holds the lock of its root.
func terminate(pid int, _ string) error {
	err := syscall.Kill(pid, syscall.SIGTERM)
	if errors.Is(err, syscall.ESRCH) {
		return ErrEnded
	}
	if err != nil {
		return err
	}
	return syscall.Kill(pid, syscall.SIGCONT) // it may be stopped
}

func writable(name string) error { return unix.Access(name, unix.W_OK) }
