package proc

import (
	"math"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// strongest is the fence that a Host tries first on Linux.
const strongest = pidNamespace

// rssUnit is the unit of Rusage.Maxrss, in bytes.
const rssUnit = 1 << 10

// attributes returns the process attributes with which c is contained by f.
func (f fence) attributes(c Command) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if c.Cgroup != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, int(c.Cgroup.Fd())
	}
	if f == group {
		return attr
	}
	attr.Cloneflags = syscall.CLONE_NEWPID
	// The syscall package lets the child send this signal to itself when its
	// parent is not the one that forked it. An init never sees its parent, so that
	// always happens, and is without effect: an init cannot kill itself.
	attr.Pdeathsig = syscall.SIGKILL
	if f == userNamespace {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		uid, gid := os.Geteuid(), os.Getegid()
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		if c.Mounts || c.Overlays {
			attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
		}
		if c.Overlays {
			attr.AmbientCaps = append(attr.AmbientCaps, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER)
		}
	}
	return attr
}

// seal marks every inherited descriptor above 2 as close-on-exec, so that children do not inherit
// it: a file that is open for writing is a way out of a sandbox. Files opened by Go are not
// inherited anyway. seal has no effect before Linux 5.11.
func seal() { _ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) }

// forkBehind starts a process with the fence f. For a PID namespace it forks on a special thread
// (see onThread). The caller holds h.mu.
func (h *Host) forkBehind(f fence, path string, args []string, attr *syscall.ProcAttr) (pid int, err error) {
	if f == group {
		h.adopt()
		return syscall.ForkExec(path, args, attr)
	}
	h.onThread(func() { pid, err = syscall.ForkExec(path, args, attr) })
	return pid, err
}

// onThread runs f on the one thread that starts processes with a parent death signal, and waits for
// it. The kernel sends this signal when the forking thread ends, even if the process continues, and
// Go ends threads at any time. The caller holds h.mu.
func (h *Host) onThread(f func()) {
	if h.thread == nil {
		h.thread = make(chan func())
		h.wg.Go(func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
			for f := range h.thread {
				f()
			}
		})
	}
	done := make(chan struct{})
	h.thread <- func() { defer close(done); f() }
	<-done
}
