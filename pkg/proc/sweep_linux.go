package proc

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// sweepTimeout is how long a sweep waits for processes that it killed to die. One in an
	// uninterruptible system call takes longer; a later sweep reaps it.
	sweepTimeout = 2 * time.Second
	// tidyEvery is the time between sweeps while no leader ends: a program that runs for hours
	// may orphan thousands of processes.
	tidyEvery = time.Second
)

// platform is the state of a Host that only Linux needs.
type platform struct {
	thread    chan func()   // to the thread that starts processes in namespaces
	adopting  bool          // adopt was called
	subreaper bool          // and worked
	stop      chan struct{} // ends tidy
	table     table
	foreign   map[int]bool   // children that this process had before
	doomed    map[int]doomed // adopted processes that were killed and are not reaped
}

type doomed struct {
	owner *Process // may be nil
	since time.Time
}

// adopt makes this process a subreaper: the new parent of descendants that lose theirs. The
// caller holds h.mu.
func (h *Host) adopt() {
	if h.adopting || h.closed {
		return
	}
	h.adopting = true
	h.foreign, h.doomed = make(map[int]bool), make(map[int]doomed)
	var err error
	if h.table, err = openTable(); err != nil {
		return // without /proc nobody could be found, so nobody is adopted
	}
	if !childless() {
		for _, c := range h.table.children(true) {
			h.foreign[c.pid] = !h.leads(c.pid)
		}
	}
	if unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != nil {
		return
	}
	h.subreaper = true
	h.stop = make(chan struct{})
	h.wg.Go(h.tidy)
}

// adopts reports whether adopted processes can be swept. The caller holds h.mu.
func (h *Host) adopts() bool {
	h.adopt()
	return h.subreaper
}

// release sweeps for the last time. No process is running and none can start.
func (h *Host) release() {
	if h.subreaper {
		close(h.stop)
		h.sweep(nil)
		unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	}
	if h.thread != nil {
		close(h.thread)
	}
}

// tidy reaps adopted processes that end while no leader does.
func (h *Host) tidy() {
	ticker := time.NewTicker(tidyEvery)
	defer ticker.Stop()
	for {
		select {
		case <-h.stop:
			return
		case <-ticker.C:
			h.sweep(nil)
		}
	}
}

// reap waits for the leader and kills its group while the dead leader still holds the process id
// of both.
func (p *Process) reap() (status syscall.WaitStatus, usage syscall.Rusage) {
	for unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	p.host.mu.Lock() // a sweep must see the leader dead and in the list, or neither
	defer p.host.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	syscall.Kill(-p.pid, syscall.SIGKILL)
	for {
		if _, err := syscall.Wait4(p.pid, &status, 0, &usage); err != syscall.EINTR {
			break
		}
	}
	p.retire()
	return status, usage
}

// sweep kills and reaps the adopted processes that belong to no running process. p is the process
// that has ended; with nil it looks at all children.
func (h *Host) sweep(p *Process) {
	begin := time.Now()
	pause := 100 * time.Microsecond
	for h.pass(p) && time.Since(begin) < sweepTimeout {
		time.Sleep(pause)
		pause = min(2*pause, 10*time.Millisecond)
	}
}

// pass looks at every child of this process once and reports whether another pass may find more.
// The children of a process become children of this one before it can be reaped, so a pass that
// reaps and kills nothing has seen all of them.
func (h *Host) pass(p *Process) (more bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.subreaper || childless() {
		return false
	}
	for _, c := range h.table.children(p == nil) {
		if h.foreign[c.pid] || h.leads(c.pid) {
			continue
		}
		d, dying := h.doomed[c.pid]
		if !dying {
			d = doomed{h.owner(c), time.Now()}
		}
		if killed, ended := reapEnded(c.pid); ended {
			if d.owner != nil && (dying || killed) {
				d.owner.left++
			}
			delete(h.doomed, c.pid)
			more = true
			continue
		}
		if !dying {
			if h.spared(d.owner) || syscall.Kill(c.pid, syscall.SIGKILL) != nil {
				continue
			}
			if d.owner == nil {
				d.owner = p
			}
			h.doomed[c.pid] = d
		}
		more = more || time.Since(d.since) < sweepTimeout
	}
	return more
}

// leads reports whether pid is the leader of a process; run reaps leaders.
func (h *Host) leads(pid int) bool {
	for p := range h.procs {
		if p.pid == pid && !p.reaped {
			return true
		}
	}
	return false
}

// owner returns the process from which the adopted process c descends, or nil if unknown. For a
// dead process, only its group can tell.
func (h *Host) owner(c child) *Process {
	pgid, _ := unix.Getpgid(c.pid)
	for p := range h.procs {
		if p.pid == pgid && !p.fenced {
			return p
		}
	}
	environ := c.environ()
	for p := range h.procs {
		if len(p.marker) > 0 && !p.fenced && hasEntry(environ, p.marker) {
			return p
		}
	}
	return nil
}

// spared reports whether an adopted process of owner may continue. With an unknown owner it may
// belong to any running process.
func (h *Host) spared(owner *Process) bool {
	if owner != nil {
		return !owner.reaped
	}
	for p := range h.procs {
		if !p.fenced && !p.reaped {
			return true
		}
	}
	return false
}

// childless reports whether this process has no children, dead or alive. It reaps nothing.
func childless() bool {
	return unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == unix.ECHILD
}

// reapEnded reaps the child pid if it has ended. Only this function does that, so until then the
// id cannot be reused. killed means by this Host, or by the SIGHUP that the terminal of a session
// sends when its leader ends.
func reapEnded(pid int) (killed, ended bool) {
	var status syscall.WaitStatus
	got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
	killed = status.Signaled() && (status.Signal() == syscall.SIGKILL || status.Signal() == syscall.SIGHUP)
	return killed, err == nil && got == pid
}
