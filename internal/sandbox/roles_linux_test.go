package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// timeApply prints how many nanoseconds Apply took, or 0 when it is not called.
func timeApply(args []string) error {
	if slices.Equal(args, []string{unrestricted}) {
		fmt.Println(0)
		return nil
	}
	begin := time.Now()
	err := Apply(Rules{Write: args})
	fmt.Println(time.Since(begin).Nanoseconds())
	return err
}

// writeOnThreads applies rules while many threads exist, in Go code and in
// system calls, and then writes on each of them. It fails if one could.
func writeOnThreads(args []string) error {
	const threads = 24
	outside := args[0]
	var wg, ready sync.WaitGroup
	gate := make(chan struct{})
	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	blocking := int(reader.Fd()) // no longer known to the poller of the runtime
	results := make(chan error, 2*threads)
	for i := range threads {
		ready.Add(1)
		wg.Go(func() {
			runtime.LockOSThread()
			ready.Done()
			if i%2 == 0 {
				<-gate
			} else {
				for _, err := unix.Read(blocking, make([]byte, 1)); err == unix.EINTR; _,
					err = unix.Read(blocking, make([]byte, 1)) {
				}
			}
			results <- os.WriteFile(filepath.Join(outside, strconv.Itoa(i)), nil, 0o600)
			results <- os.Chmod(outside, 0o777) // the filter refuses that, not Landlock
		})
	}
	ready.Wait()
	if err := Apply(Rules{}); err != nil {
		return err
	}
	close(gate)
	writer.Close()
	wg.Wait()
	close(results)
	for err := range results {
		if !errors.Is(err, os.ErrPermission) {
			return fmt.Errorf("a thread wrote: %v", err)
		}
	}
	reader.Close()
	return nil
}

// endOffspring applies rules while several threads exist, starts a program on
// each and ends it from another.
func endOffspring([]string) error {
	const threads = 8
	gate, started, done := make(chan struct{}), make(chan *exec.Cmd), make(chan struct{})
	var ready sync.WaitGroup
	for range threads {
		ready.Add(1)
		go func() {
			runtime.LockOSThread()
			ready.Done()
			<-gate
			cmd := exec.Command("/bin/sleep", "60")
			if err := cmd.Start(); err != nil {
				panic(err)
			}
			started <- cmd
			<-done // so that the thread lives on
		}()
	}
	ready.Wait()
	if err := Apply(Rules{}); err != nil {
		return err
	}
	close(gate)
	var all []error
	for range threads {
		cmd := <-started
		err := cmd.Process.Kill()
		if err == nil {
			cmd.Wait()
		}
		all = append(all, err)
	}
	close(done)
	return errors.Join(all...)
}

// writeByRoot writes inside of this process, as the file tools do.
func writeByRoot(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return root.WriteFile("new", []byte("x"), 0o600)
}

// setAttribute tries all calls that set an attribute; one success is enough.
func setAttribute(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	p, err := unix.BytePtrFromString(path)
	if err != nil {
		return err
	}
	call := func(nr uintptr, args ...uintptr) error {
		var a [6]uintptr
		copy(a[:], args)
		if _, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
			return errno
		}
		return nil
	}
	here := unix.AT_FDCWD
	at, name := uintptr(here), uintptr(unsafe.Pointer(p))
	defer runtime.KeepAlive(p)
	tries := map[string]error{
		"chmod":     unix.Chmod(path, 0o777),
		"fchmod":    unix.Fchmod(fd, 0o777),
		"fchmodat":  unix.Fchmodat(unix.AT_FDCWD, path, 0o777, 0),
		"fchmodat2": call(unix.SYS_FCHMODAT2, at, name, 0o777, 0),
		"chown":     unix.Chown(path, os.Getuid(), os.Getgid()),
		"lchown":    unix.Lchown(path, os.Getuid(), os.Getgid()),
		"fchown":    unix.Fchown(fd, os.Getuid(), os.Getgid()),
		"utimes":    unix.Utimes(path, make([]unix.Timeval, 2)),
		"utimensat": unix.UtimesNanoAt(unix.AT_FDCWD, path, make([]unix.Timespec, 2), 0),
		"futimens":  call(unix.SYS_UTIMENSAT, uintptr(fd), 0, 0, 0),
		"setxattr":  unix.Setxattr(path, "user.a", []byte("1"), 0),
		"lsetxattr": unix.Lsetxattr(path, "user.b", []byte("1"), 0),
		"fsetxattr": unix.Fsetxattr(fd, "user.c", []byte("1"), 0),
	}
	var all []error
	for what, err := range tries {
		if err == nil {
			fmt.Println("done:", what)
			continue
		}
		all = append(all, fmt.Errorf("%s: %w", what, err))
	}
	if len(all) < len(tries) {
		return nil
	}
	return errors.Join(all...)
}

// empty truncates by path, without opening the file.
func empty(path string) error { return os.Truncate(path, 0) }

// setFlags does what chattr does: it needs a descriptor to read only.
func setFlags(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	if err != nil {
		return fmt.Errorf("read flags: %w", err)
	}
	const noDump = 0x40
	return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags|noDump)
}

func dial(path string) error {
	c, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	return c.Close()
}

func listen(path string) error {
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	return l.Close()
}

// sendDatagram sends to a socket that it made no socket for: one of a pair.
func sendDatagram(path string) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Sendto(pair[0], []byte("write for me"), 0, &unix.SockaddrUnix{Name: path})
}

// writeByDetachedMount writes through a copy of a mount that is mounted nowhere.
func writeByDetachedMount(dir string) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE)
	if err != nil {
		return err
	}
	file, err := unix.Openat(fd, "canary", unix.O_WRONLY|unix.O_TRUNC, 0)
	if err != nil {
		return err
	}
	return unix.Close(file)
}

func startRing() error {
	var params [120]byte
	if _, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0); errno != 0 {
		return errno
	}
	return nil
}

// typeIntoTerminal makes the terminal believe that the user typed.
func typeIntoTerminal() error {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	key := byte('x')
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, tty.Fd(), unix.TIOCSTI, uintptr(unsafe.Pointer(&key))); errno != 0 {
		return errno
	}
	return nil
}

// victim has a file open for writing and a word in its memory, says where, and
// waits for the end of its stdin.
func victim(args []string) error {
	file, err := os.OpenFile(args[0], os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	word := new([8]byte)
	fmt.Println(os.Getpid(), file.Fd(), uintptr(unsafe.Pointer(word)))
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	runtime.KeepAlive(file)
	fmt.Println(word[0])
	return nil
}

// place takes apart what a victim said.
func place(said string) (pid, fd int, address int64) {
	if _, err := fmt.Sscan(said, &pid, &fd, &address); err != nil {
		panic(err)
	}
	return pid, fd, address
}

func attach(said string) error {
	pid, _, _ := place(said)
	runtime.LockOSThread()
	if err := unix.PtraceAttach(pid); err != nil {
		return err
	}
	var status unix.WaitStatus
	unix.Wait4(pid, &status, unix.WALL, nil)
	return unix.PtraceDetach(pid)
}

// takeDescriptor takes the file that a victim has open.
func takeDescriptor(said string) error {
	pid, fd, _ := place(said)
	handle, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	_, err = unix.PidfdGetfd(handle, fd, 0)
	return err
}

func signal(said string) error {
	pid, _, _ := place(said)
	return unix.Kill(pid, unix.SIGCONT)
}

// writeMemory writes a word into a victim.
func writeMemory(args []string) error {
	pid, _, address := place(args[0])
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	_, err = mem.WriteAt([]byte{7}, address)
	return err
}

// privileges fails if a program could gain some.
func privileges() error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	if !strings.Contains(string(status), "NoNewPrivs:\t1") {
		return errors.New("new privileges can be had")
	}
	return nil
}

// steer tries to change limits, priority and processors of the process id, to use keys, and System V IPC by a key.
// It prints the name of each attempt that the kernel did not refuse.
func steer(id string) error {
	pid, err := strconv.Atoi(id)
	if err != nil {
		return err
	}
	limit := unix.Rlimit{Cur: 512, Max: 512}
	var param, flags [64]byte
	binary.NativeEndian.PutUint32(flags[:], uint32(len(flags)))
	at := func(p unsafe.Pointer) uintptr { return uintptr(p) }
	const nobody = 1<<31 - 2 // a user without processes: an unconfined process tries this too
	for _, c := range []struct {
		name string
		nr   uintptr
		args [5]uintptr
	}{
		{"prlimit", unix.SYS_PRLIMIT64, [5]uintptr{uintptr(pid), unix.RLIMIT_NOFILE, at(unsafe.Pointer(&limit))}},
		{"setpriority", unix.SYS_SETPRIORITY, [5]uintptr{unix.PRIO_PROCESS, uintptr(pid), 5}},
		{"setpriority of a user", unix.SYS_SETPRIORITY, [5]uintptr{unix.PRIO_USER, nobody, 5}},
		{"ioprio_set", unix.SYS_IOPRIO_SET, [5]uintptr{1, uintptr(pid), 3 << 13}},
		{"sched_setscheduler", unix.SYS_SCHED_SETSCHEDULER, [5]uintptr{uintptr(pid), 0, at(unsafe.Pointer(&param))}},
		{"sched_setparam", unix.SYS_SCHED_SETPARAM, [5]uintptr{uintptr(pid), at(unsafe.Pointer(&param))}},
		{"sched_setattr", unix.SYS_SCHED_SETATTR, [5]uintptr{uintptr(pid), at(unsafe.Pointer(&flags))}},
		{"keyctl", unix.SYS_KEYCTL, [5]uintptr{unix.KEYCTL_GET_KEYRING_ID, ^uintptr(2)}}, // of the session
		{"shmget", unix.SYS_SHMGET, [5]uintptr{0x71710000 + uintptr(pid), 4096, unix.IPC_CREAT | 0o600}},
	} {
		got, _, errno := unix.Syscall6(c.nr, c.args[0], c.args[1], c.args[2], c.args[3], c.args[4], 0)
		if c.nr == unix.SYS_SHMGET && errno == 0 {
			_, _ = unix.SysvShmCtl(int(got), unix.IPC_RMID, nil)
		}
		if errno != unix.EPERM {
			fmt.Printf("%s: %v\n", c.name, errno)
		}
	}
	return nil
}
