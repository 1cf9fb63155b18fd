package proc

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// sweepTimeout is how long a sweep waits for the processes that it killed to
	// die. One in an uninterruptible system call takes longer; a later sweep reaps it.
	sweepTimeout = 2 * time.Second
	// tidyEvery is the time between sweeps while no leader ends: a program that runs
	// for hours may orphan thousands of processes.
	tidyEvery = time.Second
)

// platform is what a Host needs on Linux.
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

// adopt makes this process the parent of descendants that lose theirs. h.mu is
// held.
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

// adopts reports whether adopted processes can be swept. h.mu is held.
func (h *Host) adopts() bool {
	h.adopt()
	return h.subreaper
}

// release sweeps for the last time. No process is live and none can start.
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

// tidy reaps the adopted processes that ended while nothing else did.
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

// reap waits for the leader and kills its group while the dead leader still
// holds the id of both.
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

// sweep kills and reaps the adopted processes that belong to no running process.
// It runs for p, which has ended, or for nobody, and then looks everywhere.
func (h *Host) sweep(p *Process) {
	begin := time.Now()
	pause := 100 * time.Microsecond
	for h.pass(p) && time.Since(begin) < sweepTimeout {
		time.Sleep(pause)
		pause = min(2*pause, 10*time.Millisecond)
	}
}

// pass looks once at every child of this process and reports whether another
// pass may find more: the children of a process become ours before we can reap
// it, so a pass that reaps and kills nothing has seen all of them.
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

// leads reports whether pid is the leader of a process: run reaps those.
func (h *Host) leads(pid int) bool {
	for p := range h.procs {
		if p.pid == pid && !p.reaped {
			return true
		}
	}
	return false
}

// owner is the process that the adopted process c descends from, nil if that
// cannot be told. The group is all that is left to see of a dead one.
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

// spared reports whether an adopted process of owner may go on. Without a known
// owner it may belong to any process that runs.
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

// childless reports whether this process has no child, dead or alive. It reaps
// nothing.
func childless() bool {
	return unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == unix.ECHILD
}

// reapEnded reaps the child pid if it has ended. Nobody else does that, so until
// then the id is its own. Killed means by us, or by the SIGHUP that the terminal of
// a session sends at the end of its leader.
func reapEnded(pid int) (killed, ended bool) {
	var status syscall.WaitStatus
	got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
	killed = status.Signaled() && (status.Signal() == syscall.SIGKILL || status.Signal() == syscall.SIGHUP)
	return killed, err == nil && got == pid
}
