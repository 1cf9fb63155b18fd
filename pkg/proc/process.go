package proc

import (
	"sync"
	"syscall"
	"time"
)

// Process is a started [Command]. Several goroutines may call its methods, even after the process
// has ended.
type Process struct {
	host   *Host
	pid    int
	fenced bool // in a PID namespace of its own
	marker []byte
	grace  time.Duration
	leash  *leash // to its keeper, which is then the leader; nil if it has none
	done   chan struct{}
	exit   Exit // valid once done is closed
	left   int  // processes left behind and killed; guarded by host.mu

	mu     sync.Mutex  // held while a signal is sent or the process id becomes invalid
	reaped bool        // the process id may belong to another process now
	killed bool        // Kill was called
	ladder *time.Timer // sends SIGKILL after the grace time; set by the first Stop
}

// Exit says how a process ended.
type Exit struct {
	// Code is the exit code; -1 if a signal killed the process.
	Code int
	// Signal is the signal that killed the process; 0 if it exited by itself. Only SIGKILL can kill
	// a program that is an init. After any other fatal signal, a Go program that is an init exits
	// with code 2.
	Signal syscall.Signal
	// OutOfMemory says that the kernel killed the process because memory was short, as far as that can be told: a
	// SIGKILL came from outside, and the kernel counted such a kill. Only Linux tells, and only of an Expendable
	// program.
	OutOfMemory bool
	// Left is how many processes the program left behind, which were then killed. Processes in a
	// namespace are not counted. Without subreapers it is always 0.
	Left int
	// User and System are the processor time of the process, together with that of the descendants
	// that it waited for.
	User, System time.Duration
	// MaxRSS is the largest resident memory in bytes that the process, or a descendant that it
	// waited for, has had. On Linux it is at least the memory that this process had when it started
	// the program.
	MaxRSS int64
}

// PID returns the process id of the leader, which is also the id of its process group.
func (p *Process) PID() int { return p.pid }

// Stop sends SIGTERM to the group, and SIGKILL when the grace time of the Command has passed. It
// does not wait. Further calls have no effect.
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

// Kill sends SIGKILL to the group. It does not wait for the end of the processes.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leash == nil || p.killed {
		p.killed = true
		p.signal(syscall.SIGKILL)
		return
	}
	p.killed = true
	p.leash.hold.Close() // the keeper kills the command, which has a group of its own
	time.AfterFunc(keeperGrace, p.Kill)
}

// keeperGrace is how long a keeper may take to kill its command.
const keeperGrace = 3 * time.Second

// signal sends s to the group. It does nothing if the leader has been reaped, because its id may
// belong to another process by then. The caller holds p.mu.
func (p *Process) signal(s syscall.Signal) {
	if p.reaped {
		return
	}
	err := syscall.Kill(-p.pid, s)
	if s == syscall.SIGKILL || err != nil {
		syscall.Kill(p.pid, s) // it may have joined another group
	}
}

// Done returns a channel that is closed when the process has ended and its clean-up is done. Wait
// then returns at once.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits until the leader has ended, its group has been killed and the processes that it left
// behind have been removed. It may be called several times.
func (p *Process) Wait() Exit {
	<-p.done
	return p.exit
}

// run waits for the end of the leader, cleans up and stores the Exit.
func (p *Process) run() {
	defer close(p.done)
	status, usage := p.reap()
	h := p.host
	if !p.fenced {
		h.sweep(p)
	}
	p.mu.Lock()
	killed := p.killed
	p.mu.Unlock()
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
	if p.leash != nil {
		p.exit = p.leash.exit(p.exit)
		p.leash.close()
	}
	p.exit.OutOfMemory = p.exit.Signal == syscall.SIGKILL && !killed && h.starved()
}

// retire marks the process id as invalid and cancels the SIGKILL of Stop. The caller holds p.mu.
func (p *Process) retire() {
	p.reaped = true
	if p.ladder != nil {
		p.ladder.Stop()
	}
}
