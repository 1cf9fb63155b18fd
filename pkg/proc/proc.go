// Package proc runs commands and leaves none of their processes behind.
//
// Vocabulary: a [Host] starts all programs of a process. A [Command] says what to
// start, a [Process] is what runs, and an [Exit] says how it ended. The leader is
// the process that was started; its group is the process group that it leads. An
// adopted process is a descendant that lost its parent and was given to this
// process by the kernel. To sweep is to find adopted processes, kill and reap them.
//
// Flow: the leader starts as the head of a new group. Whatever ends it (its own
// exit, [Process.Stop], [Process.Kill], a signal from elsewhere), the group is
// killed while the dead leader still holds its process id, then the leader is
// reaped, and the sweep kills and reaps what had left the group. Only then does
// [Process.Wait] return.
//
// How well that works depends on the system; [Host.Isolation] says what is used.
// From strong to weak:
//
//   - pid namespace, user and pid namespace: the leader is the init of a
//     namespace, for commands that ask for it. When it ends, the kernel kills
//     everything in the namespace; and it kills the leader when this process ends,
//     even by SIGKILL.
//   - subreaper: a descendant that calls setsid and loses its parent is adopted
//     and swept.
//   - process group: a descendant that leaves the group is lost.
//
// Without a namespace, a command that names a keeper is started by that: a second
// process, with a Host of its own, which ends the command when this process ends.
//
// A program that is an init receives no signal that it has no handler for, except
// SIGKILL and SIGSTOP from outside, and its process ids differ from those in a
// /proc that was mounted outside. A Host works inside such a program.
//
// Not promised: that a process without a namespace or a keeper dies when this one is
// killed (a control pipe does that); that a program which forks faster than it is
// killed, or a setuid program of another user, is gone when Wait returns; that an
// adopted process is told from a child that other code in this process started:
// everything that starts programs must do so through the Host. Children that the
// process had before its Host started anything are left alone.
package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Command describes a program to start.
type Command struct {
	// Path is the program to run. A name without a slash is searched for in PATH.
	Path string
	// Args are the arguments, beginning with argv[0]. If it is empty, Path is the only one.
	Args []string
	// Env is the whole environment of the program. It inherits no other variable from this process.
	Env []string
	// Dir is the working directory; empty means that of this process.
	Dir string
	// Stdin, Stdout and Stderr are files and not pipes that must be copied: a descendant that keeps
	// one open cannot delay Wait. nil means /dev/null. After Start, the caller may close its own
	// copies.
	Stdin, Stdout, Stderr *os.File
	// Extra are the files that the program gets as descriptors 3, 4, and so on; a nil entry means
	// /dev/null. On Linux it inherits no other descriptors.
	Extra []*os.File
	// Grace is the time that Stop waits between SIGTERM and SIGKILL.
	Grace time.Duration
	// Namespace asks for a PID namespace, in which the program is the init process. It must be able
	// to run as one. If the system allows no namespace, the program starts without one.
	Namespace bool
	// Keeper is a program that calls [Keep]; empty means none. If Namespace is set and the system allows no
	// namespace, it starts the program and outlives this process if that is killed.
	Keeper string
	// Mounts lets the program make mounts of its own: if the namespace is that of a user, the program has
	// CAP_SYS_ADMIN in it, and must drop that before it runs what is not trusted.
	Mounts bool
	// Overlays is Mounts for a program that mounts an overlay: there it needs CAP_DAC_OVERRIDE and CAP_FOWNER too,
	// with which the kernel then writes the files of the overlay.
	Overlays bool
	// Cgroup is the open folder of a cgroup (version 2) in which the program starts; nil means that of this process.
	Cgroup *os.File
	// Terminal starts the program in a new session, with a controlling terminal: that of Stdin or,
	// if Stdin is nil, that of Stdout.
	Terminal bool
	// Joins leaves the program in the process group of this process, and so at the terminal of the person: it can read
	// there, and Control-C reaches it. Stop and Kill then reach the program alone; what it leaves behind is swept where
	// the system has subreapers.
	Joins bool
	// Expendable is by how many thousandths of the memory the program counts as larger than this process when the
	// kernel chooses what to kill because memory is short. It has an effect on Linux only.
	Expendable int
	// Marker is an environment entry NAME=value that is added to Env; it must be unique to this
	// command. The sweep reads it to find out from which command an adopted process descends. A
	// program with a Host that runs inside another one must use a different NAME, so that its
	// descendants carry both markers.
	Marker string
}

// Host starts processes and cleans up after them. A program should have only one; several
// goroutines may use it.
type Host struct {
	mu      sync.Mutex // held during a fork and during one pass of a sweep
	closed  bool
	procs   map[*Process]struct{} // running processes, and ended ones whose sweep is not done
	null    *os.File
	fence   fence     // the strongest one that may work
	proven  bool      // fence is known to work
	sealing sync.Once // calls seal before the first fork
	wg      sync.WaitGroup
	work    sync.WaitGroup // see Hold
	platform
}

// fence is a way to contain a process and its descendants. The strongest one has the lowest value.
type fence int

const (
	pidNamespace fence = iota
	userNamespace
	group
)

// NewHost returns a Host. It changes nothing in this process; the first Start does.
func NewHost() *Host {
	return &Host{procs: make(map[*Process]struct{}), fence: strongest}
}

// ErrClosed is the error of Start after the Host was closed.
var ErrClosed = errors.New("the host of processes is closed")

// Start starts c. The process runs until it ends by itself or until Stop, Kill or Close. The caller
// need not call Wait: the Host reaps the process in any case.
func (h *Host) Start(c Command) (*Process, error) {
	path, err := lookup(c.Path)
	if err != nil {
		return nil, err
	}
	if len(c.Args) == 0 {
		c.Args = []string{c.Path}
	}
	if c.Env, err = marked(c.Env, c.Marker); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Path, err)
	}
	c.Env = slices.DeleteFunc(slices.Clone(c.Env), keeps) // who starts a command cannot make it a keeper
	h.mu.Lock()
	defer h.mu.Unlock()
	pid, f, l, err := h.fork(path, c)
	if err != nil {
		return nil, startError(c, err)
	}
	if c.Expendable > 0 {
		h.expend(pid, c.Expendable)
	}
	p := &Process{
		host: h, pid: pid, fenced: f < group, marker: []byte(c.Marker),
		grace: c.Grace, leash: l, done: make(chan struct{}),
	}
	h.procs[p] = struct{}{}
	h.wg.Go(p.run)
	return p, nil
}

// Close kills all running processes and everything that they left behind, and waits until they are
// gone. Start then returns ErrClosed.
func (h *Host) Close() {
	h.mu.Lock()
	closed := h.closed
	h.closed = true
	var live []*Process
	for p := range h.procs {
		live = append(live, p)
	}
	h.mu.Unlock()
	for _, p := range live {
		p.Kill()
	}
	for _, p := range live {
		<-p.done
	}
	if !closed {
		h.release()
		if h.null != nil {
			h.null.Close()
		}
	}
	h.wg.Wait()
}

// Hold begins work around a process, such as looking at what it changed, for which [Host.Settle] waits. The caller
// calls Release at the end of the work. After Close, Hold returns ErrClosed.
func (h *Host) Hold() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return ErrClosed
	}
	h.work.Add(1)
	return nil
}

// Release ends work that Hold began.
func (h *Host) Release() { h.work.Done() }

// Settle waits until all work has ended that Hold began, but not longer than limit: then it returns false. It is
// called after Close.
func (h *Host) Settle(limit time.Duration) bool {
	done := make(chan struct{})
	go func() {
		h.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}

// Isolation returns what contains commands with Namespace set: "pid namespace", "user and pid
// namespace", "subreaper" or "process group". If no such command has started yet, it tries once
// whether namespaces are allowed.
func (h *Host) Isolation() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.proven && !h.closed {
		// The kernel rejects this name after it has made the namespaces and before
		// it looks at any file: only the fence is tried.
		h.fork("/"+strings.Repeat("x", 1<<13), Command{Args: []string{"x"}, Namespace: true})
	}
	switch {
	case h.fence == pidNamespace:
		return "pid namespace"
	case h.fence == userNamespace:
		return "user and pid namespace"
	case h.adopts():
		return "subreaper"
	}
	return "process group"
}

// fork starts c with the strongest fence that the system allows, and returns that fence, and the leash if
// it has a keeper. A command without Namespace gets the fence group. The caller holds h.mu.
func (h *Host) fork(path string, c Command) (pid int, f fence, l *leash, err error) {
	if h.closed {
		return 0, group, nil, ErrClosed
	}
	h.sealing.Do(seal)
	attr := &syscall.ProcAttr{Dir: c.Dir, Env: c.Env}
	if attr.Files, err = h.files(c); err != nil {
		return 0, group, nil, err
	}
	f = group
	if c.Namespace {
		f = h.fence
	}
	for ; ; f++ {
		attr.Sys = f.attributes(c)
		if c.Joins {
			attr.Sys.Setpgid = false
		}
		if c.Terminal {
			attr.Sys.Setsid, attr.Sys.Setctty, attr.Sys.Setpgid = true, true, false
			if c.Stdin == nil {
				attr.Sys.Ctty = 1
			}
		}
		if f == group && c.Namespace && c.Keeper != "" {
			pid, l, err = h.keep(path, c)
		} else {
			pid, err = h.forkBehind(f, path, c.Args, attr)
		}
		if err == nil || f == group || !refused(err) {
			break
		}
	}
	runtime.KeepAlive(c) // its files
	if c.Namespace && (err == nil || errors.Is(err, syscall.ENAMETOOLONG)) {
		h.fence, h.proven = f, true
	}
	return pid, f, l, err
}

// refused reports whether err may mean that the system does not allow a namespace, so that a weaker
// fence is worth an attempt. If err has another cause, that attempt fails as well.
func refused(err error) bool {
	return slices.ContainsFunc([]syscall.Errno{
		syscall.EPERM, syscall.EACCES, syscall.EINVAL, syscall.ENOSYS,
		syscall.ENOSPC, syscall.EUSERS, // too many or too deeply nested
		syscall.ENOENT, // no uid_map: /proc is of another namespace
	}, func(e syscall.Errno) bool { return errors.Is(err, e) })
}

// files returns the file descriptors that c gets, in order.
func (h *Host) files(c Command) ([]uintptr, error) {
	files := append([]*os.File{c.Stdin, c.Stdout, c.Stderr}, c.Extra...)
	fds := make([]uintptr, len(files))
	for i, f := range files {
		if f == nil {
			if h.null == nil {
				null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
				if err != nil {
					return nil, err
				}
				h.null = null
			}
			f = h.null
		}
		if fds[i] = f.Fd(); fds[i] == ^uintptr(0) {
			return nil, fmt.Errorf("descriptor %d: %w", i, os.ErrClosed)
		}
	}
	return fds, nil
}

func lookup(path string) (string, error) {
	if strings.Contains(path, "/") {
		return path, nil
	}
	found, err := exec.LookPath(path)
	if err != nil {
		return "", fmt.Errorf("start %q: %w", path, errors.Unwrap(err))
	}
	return found, nil
}

// marked returns env with marker added. It removes an existing entry of the same name, because
// programs differ in which of two entries they read. An empty marker changes nothing.
func marked(env []string, marker string) ([]string, error) {
	if marker == "" {
		return env, nil
	}
	i := strings.IndexByte(marker, '=')
	if i < 1 {
		return nil, fmt.Errorf("marker %q is not NAME=value", marker)
	}
	env = slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, marker[:i+1]) })
	return append(env, marker), nil
}

// startError returns err with the name of the program that could not be started and, for some
// causes, a hint what a person can do.
func startError(c Command, err error) error {
	hint := ""
	switch {
	case errors.Is(err, syscall.EAGAIN):
		hint = "no more processes are allowed: run fewer at once, or raise `ulimit -u` or the pids limit of the " +
			"container"
	case errors.Is(err, syscall.EMFILE):
		hint = "too many files are open in this process: raise `ulimit -n`"
	case errors.Is(err, syscall.ENFILE):
		hint = "too many files are open on this machine: `ulimit` does not help, raise fs.file-max"
	case errors.Is(err, syscall.ENOMEM):
		hint = "memory is short: run fewer at once, see `ulimit -v` and the memory limit of the container"
	case c.Dir != "":
		// The error of the fork does not tell the program from the directory.
		if _, statErr := os.Stat(c.Dir); statErr != nil {
			return fmt.Errorf("start %s: working directory: %w", c.Path, statErr)
		}
	}
	if hint != "" {
		return fmt.Errorf("start %s: %w\nhint: %s", c.Path, err, hint)
	}
	return fmt.Errorf("start %s: %w", c.Path, err)
}
