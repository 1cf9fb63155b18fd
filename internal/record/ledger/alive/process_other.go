//go:build !linux

package alive

import "syscall"

// Identity returns "": on this system only the lock tells whether a process is alive.
func Identity(int) string { return "" }

// terminate sends SIGTERM to the process pid. The caller has found its lock held.
func terminate(pid int, _ string) error {
	return end(func(s syscall.Signal) error { return syscall.Kill(pid, s) })
}

// Holder returns 0 and "": only Linux tells who holds a lock.
func Holder(string) (pid int, name string) { return 0, "" }

func stopped(int) bool { return false }
