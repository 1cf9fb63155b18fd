//go:build unix && !linux

package proc

import (
	"runtime"
	"syscall"
)

// strongest is the only fence of this system.
const strongest = group

// rssUnit is the unit of Rusage.Maxrss, in bytes.
var rssUnit = map[bool]int64{true: 1, false: 1 << 10}[runtime.GOOS == "darwin" || runtime.GOOS == "ios"]

// platform is empty, because this system has neither namespaces nor subreapers.
type platform struct{}

func (*platform) adopts() bool { return false }
func (*platform) release()     {}

func seal() {}

func (fence) attributes(Command) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func (*Host) forkBehind(_ fence, path string, args []string, attr *syscall.ProcAttr) (int, error) {
	return syscall.ForkExec(path, args, attr)
}

// reap waits for the end of the leader and then kills its group. In between, another process may
// get the same process id: there is no portable way to learn that a process has ended without
// reaping it.
func (p *Process) reap() (status syscall.WaitStatus, usage syscall.Rusage) {
	for {
		if _, err := syscall.Wait4(p.pid, &status, 0, &usage); err != syscall.EINTR {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	syscall.Kill(-p.pid, syscall.SIGKILL)
	p.retire()
	return status, usage
}

func (*Host) sweep(*Process) {}

func (*Host) expend(int, int) {}

func (*Host) starved() bool { return false }

// Usage returns 0: only Linux tells.
func (p *Process) Usage(int64) (memory int64, threads int) { return 0, 0 }

// Name does nothing: here ps and pkill show the name of the program anyway.
func Name(string) {}
