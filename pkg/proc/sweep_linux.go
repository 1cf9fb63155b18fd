package proc

import (
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// sweepTimeout is how long a sweep waits until the processes that it killed are dead. A process
	// in an uninterruptible system call may take longer; a later sweep reaps it.
	sweepTimeout = 2 * time.Second
	// tidyEvery is the time between two sweeps while no leader ends. Without them, a program that
	// runs for hours could collect thousands of dead orphans.
	tidyEvery = time.Second
)

// platform is the part of a Host that exists only on Linux.
type platform struct {
	thread    chan func()   // functions for the thread that starts processes in namespaces
	adopting  bool          // adopt was called
	subreaper bool          // this process is a subreaper
	stop      chan struct{} // closed to end tidy
	table     table
	foreign   map[int]bool   // children that this process had before, by process id
	doomed    map[int]doomed // adopted processes that are dying but not reaped yet, by process id
	scoring   sync.Once      // sets the three below
	scored    bool           // expend works
	score     int            // of this process
	kills     int            // for shortage of memory that are known, see starved
}

// doomed is an adopted process that was killed or is exiting by itself. A sweep waits for its end,
// because its children are adopted only when its last thread has ended.
type doomed struct {
	owner  *Process // the command that it descends from; nil if unknown
	since  time.Time
	killed bool // false while it is exiting by itself and its owner may still be running
}

// adopt makes this process a subreaper: a descendant that loses its parent becomes a child of this
// process. Only the first call has an effect. If the system does not allow it, nothing changes. The
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

// adopts reports whether this process is a subreaper, so that adopted processes can be swept. It
// calls adopt first. The caller holds h.mu.
func (h *Host) adopts() bool {
	h.adopt()
	return h.subreaper
}

// release sweeps for the last time and undoes adopt. The caller makes sure that no process is
// running and that none can start.
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

// tidy sweeps at regular intervals, for adopted processes that end while no leader does. It returns
// when stop is closed.
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

// reap waits for the end of the leader, kills its group and then reaps the leader. Until the leader
// is reaped, no other process can get its id, so the signal cannot hit a wrong group.
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

// sweep kills and reaps adopted processes that belong to no running process. p is the process that
// has just ended. If p is nil, sweep looks at the children of all threads, which takes longer.
func (h *Host) sweep(p *Process) {
	begin := time.Now()
	pause := 100 * time.Microsecond
	for h.pass(p) && time.Since(begin) < sweepTimeout {
		time.Sleep(pause)
		pause = min(2*pause, 10*time.Millisecond)
	}
}

// pass looks at every child of this process once: it kills and reaps those to be swept, and reports
// whether another pass may find more. When a process dies, its children become children of this one
// before it can be reaped. So a pass that finds no dying process has seen all of them.
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
		d, known := h.doomed[c.pid]
		if !known {
			d = doomed{owner: h.owner(c), since: time.Now()}
		}
		if killed, ended := reapEnded(c.pid); ended {
			if d.owner != nil && killed { // else it was exiting by itself when it was found
				d.owner.left++
			}
			delete(h.doomed, c.pid)
			more = true
			continue
		}
		switch {
		case d.killed:
		case !h.spared(d.owner):
			if syscall.Kill(c.pid, syscall.SIGKILL) != nil {
				continue
			}
			if d.killed = true; d.owner == nil {
				d.owner = p
			}
		case !known && !c.exiting():
			continue
		}
		h.doomed[c.pid] = d
		more = more || time.Since(d.since) < sweepTimeout
	}
	return more
}

// leads reports whether pid is the leader of a running process. Its own goroutine reaps a leader,
// so a sweep must not.
func (h *Host) leads(pid int) bool {
	for p := range h.procs {
		if p.pid == pid && !p.reaped {
			return true
		}
	}
	return false
}

// owner returns the process from which the adopted process c descends, or nil if that is unknown.
// If c is dead, only its process group can tell, because its environment cannot be read any more.
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

// spared reports whether an adopted process may continue: its owner is still running. If the owner
// is unknown (nil), spared returns true while any process without a namespace of its own runs,
// because the adopted process may belong to it.
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

// childless reports whether this process has no children, neither running nor dead ones. It reaps
// nothing.
func childless() bool {
	return unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == unix.ECHILD
}

// reapEnded reaps the child pid if it has ended, and reports whether it did. No other function
// reaps adopted processes, so the id cannot be reused before. killed says that the child died from
// SIGKILL, which this Host sends, or from SIGHUP, which a terminal sends when the leader of its
// session ends.
func reapEnded(pid int) (killed, ended bool) {
	var status syscall.WaitStatus
	got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
	killed = status.Signaled() && (status.Signal() == syscall.SIGKILL || status.Signal() == syscall.SIGHUP)
	return killed, err == nil && got == pid
}
