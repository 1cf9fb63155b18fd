package proc

import (
	"math"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// strongest is the best fence of this system.
const strongest = pidNamespace

// rssUnit is the unit of Rusage.Maxrss in bytes.
const rssUnit = 1 << 10

// attributes are what makes the fence f around a new process.
func (f fence) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
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
	}
	return attr
}

// seal keeps children from inheriting descriptors that this process inherited: a
// file that is open for writing is a way out of a sandbox. Files that Go opened are
// not inherited anyway. A kernel before 5.11 cannot do this.
func seal() { _ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) }

// forkBehind forks on the thread that the fence needs. h.mu is held.
func (h *Host) forkBehind(f fence, path string, args []string, attr *syscall.ProcAttr) (pid int, err error) {
	if f == group {
		h.adopt()
		return syscall.ForkExec(path, args, attr)
	}
	h.onThread(func() { pid, err = syscall.ForkExec(path, args, attr) })
	return pid, err
}

// onThread runs f on the thread that starts all processes with a parent death
// signal: that signal comes when the thread ends, not when the process does, and
// Go ends threads as it likes. h.mu is held.
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
