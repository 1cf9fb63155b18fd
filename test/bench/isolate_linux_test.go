package main

import (
	"os/exec"
	"syscall"
)

// isolate makes cmd the init of a PID namespace of its own.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
}
