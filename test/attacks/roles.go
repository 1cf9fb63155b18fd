package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// roleVar names the role in which this program was started.
const roleVar = "ATTACKS_ROLE"

// play plays the program of a hostile agent. It prints what it achieved.
func play(role string, args []string) error {
	roles := map[string]func([]string) error{
		"confine": confine, "reach": reach, "keys": keys, "shm": sharedMemory, "fork": fork, "eat": eat, "fifo": fifo,
		"lock": lock, "dial": dial, "handle": handle,
	}
	act, ok := roles[role]
	if !ok {
		return fmt.Errorf("no role %q", role)
	}
	return act(args)
}

// confine forbids namespaces in the user namespace of this process and becomes a program, run by an
// ordinary user.
func confine(args []string) error {
	for _, kind := range []string{"user", "pid", "mnt", "ipc", "net", "uts", "cgroup"} {
		if err := os.WriteFile("/proc/sys/user/max_"+kind+"_namespaces", []byte("0"), 0); err != nil {
			return fmt.Errorf("forbid namespaces: %w", err)
		}
	}
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(stranger), syscall.Setuid(stranger)); err != nil {
		return err
	}
	env := os.Environ()
	for i, e := range env {
		if strings.HasPrefix(e, roleVar+"=") {
			env[i] = "IN_NO_ROLE=1"
		}
	}
	return syscall.Exec(args[0], args, env)
}

// reach changes the limits and the scheduling of each process called qq that it sees.
func reach([]string) error {
	found, _ := filepath.Glob("/proc/[0-9]*/comm") // the pattern is right
	for _, path := range found {
		if name, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(name)) == "qq" {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			reachFor(pid)
		}
	}
	fmt.Println("nothing more to try")
	return nil
}

func reachFor(pid int) {
	limit := unix.Rlimit{Cur: 16, Max: 16}
	param := struct{ priority int32 }{}
	tries := map[string]func() syscall.Errno{
		"prlimit": func() syscall.Errno {
			_, _, e := syscall.RawSyscall6(unix.SYS_PRLIMIT64, uintptr(pid), unix.RLIMIT_NOFILE,
				uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
			return e
		},
		"setpriority": func() syscall.Errno {
			_, _, e := syscall.RawSyscall(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, uintptr(pid), 19)
			return e
		},
		"sched_setscheduler": func() syscall.Errno {
			const idle = 5
			_, _, e := syscall.RawSyscall(unix.SYS_SCHED_SETSCHEDULER, uintptr(pid), idle,
				uintptr(unsafe.Pointer(&param)))
			return e
		},
		"sched_setaffinity": func() syscall.Errno {
			var set unix.CPUSet
			set.Set(0)
			_, _, e := syscall.RawSyscall(unix.SYS_SCHED_SETAFFINITY, uintptr(pid), unsafe.Sizeof(set),
				uintptr(unsafe.Pointer(&set)))
			return e
		},
		"ioprio_set": func() syscall.Errno {
			const process, idle = 1, 3 << 13
			_, _, e := syscall.RawSyscall(unix.SYS_IOPRIO_SET, process, uintptr(pid), idle)
			return e
		},
		"kill": func() syscall.Errno {
			_, _, e := syscall.RawSyscall(unix.SYS_KILL, uintptr(pid), 0, 0)
			return e
		},
	}
	for name, try := range tries {
		if e := try(); e == 0 {
			fmt.Printf("ACHIEVED %s\n", name)
		} else {
			fmt.Printf("%s: %v\n", name, e)
		}
	}
}

// keys adds a key to a keyring that other processes of the user can read.
func keys([]string) error {
	if id, err := unix.AddKey("user", "qq-attack", []byte("x"), unix.KEY_SPEC_USER_KEYRING); err == nil {
		fmt.Println("ACHIEVED a key in the keyring of the user")
		_, _ = unix.KeyctlInt(unix.KEYCTL_REVOKE, id, 0, 0, 0)
	} else {
		fmt.Println("add_key:", err)
	}
	return nil
}

// sharedMemory writes to keyed shared memory of the user that exists already.
func sharedMemory(args []string) error {
	key, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	id, err := unix.SysvShmGet(key, 4096, 0)
	if err != nil {
		fmt.Println("shmget:", err)
		return nil
	}
	mem, err := unix.SysvShmAttach(id, 0, 0)
	if err != nil {
		fmt.Println("shmat:", err)
		return nil
	}
	mem[0] = 'X'
	fmt.Println("ACHIEVED a write to the shared memory of another program")
	return unix.SysvShmDetach(mem)
}

// fork starts so many processes that wait.
func fork(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	started := 0
	for range n {
		attr := &syscall.ProcAttr{Env: []string{}, Sys: &syscall.SysProcAttr{Setsid: true}}
		if _, err := syscall.ForkExec("/bin/sleep", []string{"sleep", "30"}, attr); err != nil {
			fmt.Printf("fork %d: %v\n", started, err)
			return nil
		}
		started++
	}
	fmt.Printf("ACHIEVED %d processes\n", started)
	return nil
}

// eat takes so many megabytes of memory and touches each page.
func eat(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	var all [][]byte
	for range n {
		block := make([]byte, 1<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		all = append(all, block)
	}
	time.Sleep(time.Second)
	fmt.Printf("ACHIEVED %d MB\n", len(all))
	return nil
}

// fifo makes a FIFO.
func fifo(args []string) error { return syscall.Mkfifo(args[0], 0o600) }

// lock takes all locks that it can open below a folder, and keeps them.
func lock(args []string) error {
	taken := 0
	for _, path := range args {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			taken++
		}
	}
	fmt.Printf("%d locks\n", taken)
	time.Sleep(20 * time.Second)
	return nil
}

// dial connects to each socket that is named.
func dial(args []string) error {
	for _, path := range args {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
			fmt.Printf("%s: %v\n", path, err)
			continue
		}
		fmt.Printf("ACHIEVED a connection to %s\n", path)
	}
	return nil
}

// handle writes to a file by its handle, in the mount of the folder in which it runs: a mount on the file is not seen.
func handle(args []string) error {
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, args[0], 0)
	if err != nil {
		return err
	}
	dir, err := unix.Open(".", unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	fd, err := unix.OpenByHandleAt(dir, h, unix.O_WRONLY|unix.O_APPEND)
	if err != nil {
		return fmt.Errorf("open by handle: %w", err)
	}
	if _, err := unix.Write(fd, []byte("[core]\n")); err != nil {
		return err
	}
	return unix.Close(fd)
}
