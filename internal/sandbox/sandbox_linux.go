package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Probe returns what the kernel can enforce. It asks the kernel once, and changes nothing.
func Probe() Support { return probed() }

var probed = sync.OnceValue(func() Support {
	abi, err := ll.LandlockGetABIVersion()
	if err != nil {
		return Support{err: err}
	}
	return Support{ABI: abi, Filter: filters()}
})

// reason returns why the kernel has no Landlock.
func (s Support) reason() string {
	switch {
	case errors.Is(s.err, unix.EOPNOTSUPP):
		return "Landlock is switched off in this kernel"
	case errors.Is(s.err, unix.ENOSYS):
		return "this kernel has no Landlock"
	}
	return fmt.Sprintf("Landlock may not be used: %v", s.err)
}

// cure returns what a person can do to get Landlock. It is called only if the kernel has none.
func (s Support) cure() string {
	switch {
	case errors.Is(s.err, unix.EOPNOTSUPP):
		return "add landlock to the lsm= list of the kernel command line, and start the system again"
	case errors.Is(s.err, unix.ENOSYS):
		return "use Linux 6.2 or later with CONFIG_SECURITY_LANDLOCK"
	}
	return "let the container make the landlock_* system calls (its seccomp profile)"
}

// Apply restricts this process, with all its threads and all that it will start, to r, as far as the kernel
// supports that (see [Probe]). The restriction cannot be undone, only narrowed. After an error the process may be
// partly restricted, and the caller must not do what it needs the rules for. If the kernel enforces nothing, the
// error wraps [errors.ErrUnsupported] and nothing is restricted. A program with cgo cannot restrict itself in a PID
// namespace whose /proc belongs to another one; it can use [Wrap] for what it starts.
func Apply(r Rules) error { return enforce(Probe(), r, true) }

// restrictThread is Apply for the calling thread alone, which must be locked and about to become
// another program.
func restrictThread(r Rules) error { return enforce(Probe(), r, false) }

// refuseSockets makes a process that restrictThread restricted one that can reach no server by a UNIX socket.
func refuseSockets() error {
	if !Probe().Filter {
		return nil
	}
	return install(withoutSockets(), false)
}

func enforce(s Support, r Rules, process bool) error {
	if s.ABI == 0 {
		return s.unsupported()
	}
	if process && s.ABI < abiThreads {
		if err := threadsFound(); err != nil {
			return err
		}
	}
	rules, err := ruleset(s, r, process)
	if err != nil {
		return err
	}
	defer unix.Close(rules)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// The filter comes first, because it sets no_new_privs on all threads. Without it, all threads must be stopped
	// once more for that.
	prctl := prctlThread
	if process && !s.Filter && s.ABI < abiThreads {
		prctl = ll.AllThreadsPrctl
	}
	if err := prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	if s.Filter {
		alone := os.Getpid() == 1 // in a PID namespace of its own
		if err := install(program(r.readOnly(), alone), process); err != nil {
			return err
		}
	}
	return enter(s, rules, process)
}

// enter makes a Landlock domain of the rules, a descriptor, and enters it: with all threads if process is set, else
// with the calling thread.
func enter(s Support, rules int, process bool) error {
	restrict, flags := ll.LandlockRestrictSelf, uint32(0)
	switch {
	case process && s.ABI >= abiThreads:
		flags = ll.FlagRestrictSelfTSync // sets no_new_privs on all threads too
	case process:
		restrict = ll.AllThreadsLandlockRestrictSelf
	}
	err := restrict(rules, flags)
	if errors.Is(err, unix.E2BIG) {
		return errors.New("restrict this process: it is in 16 sandboxes already, and the kernel allows no more")
	}
	if err != nil {
		return fmt.Errorf("restrict this process: %w", err)
	}
	return nil
}

func prctlThread(option int, arg2, arg3, arg4, arg5 uintptr) error {
	return unix.Prctl(option, arg2, arg3, arg4, arg5)
}

// writes returns the Landlock rights that together mean writing, as far as this version of
// Landlock knows them.
func (s Support) writes() uint64 {
	w := uint64(ll.AccessFSWriteFile | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile | ll.AccessFSMakeDir |
		ll.AccessFSMakeReg | ll.AccessFSMakeSock | ll.AccessFSMakeFifo | ll.AccessFSMakeSym | nodes)
	if s.ABI >= abiRefer {
		w |= ll.AccessFSRefer
	}
	if s.ABI >= abiTruncate {
		w |= ll.AccessFSTruncate
	}
	if s.ABI >= abiDevices {
		w |= ll.AccessFSIoctlDev
	}
	return w
}

// nodes are rights that no rules grant: with them, root could make a device node of the disk in a writable folder
// and write to all files through it.
const nodes = ll.AccessFSMakeBlock | ll.AccessFSMakeChar

// ruleset passes r to the kernel and returns the descriptor of the rules. process says whether they are for this
// process or only for a thread that becomes another program.
func ruleset(s Support, r Rules, process bool) (fd int, err error) {
	attr := ll.RulesetAttr{HandledAccessFS: s.writes()}
	if oneDomain := !process || s.ABI >= abiThreads; oneDomain && s.ABI >= abiScope {
		attr.Scoped = ll.ScopeSignal | ll.ScopeAbstractUnixSocket
	}
	if fd, err = ll.LandlockCreateRuleset(&attr, 0); err != nil {
		return -1, fmt.Errorf("make the rules of a sandbox: %w", err)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	for i, dir := range slices.Concat(r.Write, r.Files) {
		if !filepath.IsAbs(dir) {
			return -1, fmt.Errorf("writable folder %q: the path is not absolute", dir)
		}
		kind, rights := uint32(unix.S_IFDIR), s.writes()&^(nodes|ll.AccessFSIoctlDev)
		if i >= len(r.Write) {
			kind, rights = unix.S_IFREG, rights&(ll.AccessFSWriteFile|ll.AccessFSTruncate)
		}
		if r.Real {
			err = allowPinned(fd, dir, kind, rights)
		} else {
			err = allow(fd, dir, kind, rights)
		}
		if err != nil {
			return -1, fmt.Errorf("writable folder %q: %w", dir, err)
		}
	}
	s.devices(fd, process)
	return fd, nil
}

// devices grants writing to the devices that every program uses. It ignores a missing device, and
// a plain file in its place.
func (s Support) devices(rules int, process bool) {
	device := s.writes() & (ll.AccessFSWriteFile | ll.AccessFSIoctlDev)
	for _, name := range []string{"null", "zero", "full", "tty"} {
		_ = allow(rules, "/dev/"+name, unix.S_IFCHR, device)
	}
	if process {
		// To open a terminal for a command. The kernel asks for this right too when the
		// terminal comes from its other end (TIOCGPTPEER) and not by its path.
		_ = allow(rules, "/dev/ptmx", unix.S_IFCHR, device)
		_ = allow(rules, "/dev/pts", unix.S_IFDIR, device)
		return
	}
	// A program may open its output once more, as /dev/stderr. The right is for this very terminal, and not for one
	// that has its name later.
	for fd := range 3 {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err == nil &&
			flags&unix.O_ACCMODE != unix.O_RDONLY {
			_ = allowFile(rules, fd, unix.S_IFCHR, device)
		}
	}
}

// allow grants rights to the file at path, if it is of that kind, and to everything below it.
func allow(rules int, path string, kind uint32, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return allowFile(rules, fd, kind, rights)
}

// allowPinned is allow for the real path of a file: see [pin].
func allowPinned(rules int, path string, kind uint32, rights uint64) error {
	fd, err := pin(path)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return allowFile(rules, fd, kind, rights)
}

func allowFile(rules, fd int, kind uint32, rights uint64) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != kind {
		return unix.ENOTDIR
	}
	return ll.LandlockAddPathBeneathRule(rules, &ll.PathBeneathAttr{AllowedAccess: rights, ParentFd: fd}, 0)
}

// filters reports whether the kernel accepts seccomp filters and this architecture has one.
func filters() bool {
	action := uint32(unix.SECCOMP_RET_KILL_PROCESS)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	return errno == 0 && filterable
}

// install installs a seccomp filter: for all threads if process is set, else for the calling thread, which must
// have set no_new_privs.
func install(filter []unix.SockFilter, process bool) error {
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	flags := uintptr(0)
	if process {
		flags = unix.SECCOMP_FILTER_FLAG_TSYNC
	}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags,
		uintptr(unsafe.Pointer(&prog)))
	switch {
	case errno != 0:
		return fmt.Errorf("filter system calls: %w", errno)
	case thread != 0:
		return fmt.Errorf("filter system calls: thread %d has a filter of its own", thread)
	}
	return nil
}

// memoryFile returns an empty file without a place in a folder.
func memoryFile(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}
