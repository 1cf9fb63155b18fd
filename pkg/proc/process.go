package proc

import (
	"sync"
	"syscall"
	"time"
)

// Process is a started [Command]. Several goroutines may call its methods, before and after its
// end.
type Process struct {
	host   *Host
	pid    int
	fenced bool // in a PID namespace of its own
	marker []byte
	grace  time.Duration
	done   chan struct{}
	exit   Exit // readable once done is closed
	left   int  // guarded by host.mu

	mu     sync.Mutex  // held while the process id is used or given up
	reaped bool        // the process id may belong to another process now
	ladder *time.Timer // set by the first Stop
}

// Exit says how a process ended.
type Exit struct {
	// Code is the exit code; -1 if a signal killed the process.
	Code int
	// Signal is the signal that killed the process; 0 if it exited by itself. A program that is
	// an init can be killed only by SIGKILL; after any other fatal signal a Go program that is an
	// init exits with code 2.
	Signal syscall.Signal
	// Left counts the processes that it left behind and that were killed. Processes in a
	// namespace are not counted, nor any on a system without subreapers.
	Left int
	// User and System are the processor time of the process and of the descendants that it waited
	// for.
	User, System time.Duration
	// MaxRSS is the largest resident memory of the process or one of those descendants, in bytes.
	// On Linux it is at least the memory that this process had when it started the other.
	MaxRSS int64
}

// PID returns the process id of the leader, which is also the id of its group.
func (p *Process) PID() int { return p.pid }

// Stop sends SIGTERM to the group, and SIGKILL after the grace time. It returns at once. A second
// Stop does nothing.
func (p *Process) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ladder != nil || p.reaped {
		return
	}
	p.signal(syscall.SIGTERM)
	p.signal(syscall.SIGCONT) // a stopped process hears nothing
	p.ladder = time.AfterFunc(p.grace, p.Kill)
}

// Kill sends SIGKILL to the group. It returns at once.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signal(syscall.SIGKILL)
}

// signal sends s to the group. The caller holds p.mu.
func (p *Process) signal(s syscall.Signal) {
	if p.reaped {
		return
	}
	syscall.Kill(-p.pid, s)
	if s == syscall.SIGKILL {
		syscall.Kill(p.pid, s) // it may have joined another group
	}
}

// Done returns a channel that is closed when Wait would return.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait returns when the leader has ended, its group has been killed, and the sweep has removed
// what it left behind.
func (p *Process) Wait() Exit {
	<-p.done
	return p.exit
}

// run waits for the end of p and cleans up.
func (p *Process) run() {
	defer close(p.done)
	status, usage := p.reap()
	h := p.host
	if !p.fenced {
		h.sweep(p)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.procs, p)
	p.exit = Exit{
		Code:   status.ExitStatus(),
		Left:   p.left,
		User:   time.Duration(usage.Utime.Nano()),
		System: time.Duration(usage.Stime.Nano()),
		MaxRSS: int64(usage.Maxrss) * rssUnit,
	}
	if status.Signaled() {
		p.exit.Signal = status.Signal()
	}
}

// retire ends all use of p's process id. The caller holds p.mu.
func (p *Process) retire() {
	p.reaped = true
	if p.ladder != nil {
		p.ladder.Stop()
	}
}
