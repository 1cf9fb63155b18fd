// Package flock locks files with flock(2). Such a lock is that of an open file, not
// of a process: it ends when the last descriptor of it is closed, by whatever end of
// the process. Not promised: that a file system has such locks, or that it shares
// them with other machines.
package flock

import (
	"os"
	"syscall"
)

// Flock does to the lock of f what how says ([syscall.LOCK_EX], [syscall.LOCK_SH],
// [syscall.LOCK_UN], each with [syscall.LOCK_NB] or without), however often a signal
// interrupts it. What it returns is a [syscall.Errno]: with LOCK_NB,
// [syscall.EWOULDBLOCK] for a file that another holds.
func Flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if err != syscall.EINTR {
			return err
		}
	}
}
