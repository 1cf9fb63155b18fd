// Package sandbox lets the kernel keep a process from writing where it may not.
//
// Vocabulary: [Rules] say below which folders a process may write; rules without a folder are read-only. A domain
// is the sandbox of Landlock, a part of Linux: a process that has entered a domain stays in it with all that it
// starts, and can only enter further domains inside it. The filter is a seccomp filter: it refuses single system
// calls. [Support] says which of these the system has.
//
// Flow: a process calls [Apply] to restrict itself. Or it starts another program by [Wrap]: then this binary starts
// first, [Exec] restricts it, and it becomes that program. The process that called Wrap stays unrestricted.
//
// A program of Wrap can also get a [View]: mounts of its own, in which everything but the writable folders is
// read-only, single files and folders in those too, and others are seen empty. The sockets of servers are hidden, as
// /proc/self/net/unix lists them. A View is made before Landlock, which forbids to mount, so a process that called
// Apply cannot start a program with one. A second filter can refuse UNIX sockets to a program that gets no View.
//
// Landlock refuses to open for writing, make, remove, rename, link and truncate files outside of the folders of the
// rules, to make device nodes anywhere, to mount, and to look into or control processes outside of the domain. The
// plain devices (null, zero, full) and the controlling terminal (/dev/tty) stay writable. A program of Wrap may
// also open its own stdin, stdout and stderr again, but no other terminal: it could paint a question on the
// terminal of the user. After Apply a process may open terminals, because it needs them for what it starts. So a
// process that called Apply must still use Wrap for programs that it does not trust: Wrap puts them into a domain
// of their own, in which they cannot reach the descriptors of the process in /proc either.
//
// The filter refuses to type into a terminal (TIOCSTI), which would make the shell
// of the user write; to change limits, priority and processors of other processes;
// and to use the keys of the kernel. Under read-only rules it also refuses what
// Landlock does not cover: to change mode, owner, times and attributes of files,
// to reach other programs by UNIX sockets, which would write instead (a container
// daemon, tmux, D-Bus), or by System V IPC, and to load code into the kernel.
// There, programs of another architecture are killed: their system calls have
// other numbers. The processors of a process may be set by its id only in a PID
// namespace, where no id names a process outside: threads have ids too.
//
// Apply and Wrap differ in signals too. Before ABI 8, Landlock restricts a thread and not a process. After Apply
// each thread of a Go program is then in a domain of its own, with equal rules, and a thread may not look into
// processes that another thread started (their /proc/PID/fd, for instance). If signals were kept inside of the
// domain too, the process could not stop its own children. So Apply restricts signals and abstract sockets from ABI
// 8 on. Exec restricts the one thread that becomes the program, so it does so from ABI 6 on.
//
// Wrap takes from root the capabilities that reach into other processes, the kernel and the machine: with
// CAP_PERFMON, for example, a program could read the environment of all processes, which contains secrets. The
// program cannot get them back. Capabilities about files, users and the network stay.
//
// What programs notice: no set-user-id program gains anything; what makes terminals
// of its own (script, tmux, expect) cannot in a program of Wrap; a file that is
// open for writing cannot be opened again by /dev/stdout if its folder is not
// writable; user namespaces can be made but not mapped; /dev/shm is not writable.
//
// We use the system calls of go-landlock and not its landlock package, because
// that one restricts all threads only; both take 0.14 ms. The system calls come
// with psx, which makes them on all threads of a program with cgo too, where
// syscall.AllThreadsSyscall does not work. With the filter, Apply takes 0.3 ms: a
// third of it is the thread that the runtime adds to make others from when one is
// locked, a third to restrict the threads that there are.
//
// Not promised: that nothing is written through files that were open before, or
// by a server that is reached over the network or, under writing rules, by a
// UNIX socket: without a View any, with a View one that was bound later or by a
// relative path, or in another network namespace; that a writing process without a View leaves mode, owner, times and
// attributes of other files alone; that a file which stays read-only in a View does
// not change by another name of it (a hard link) or when a program outside replaces
// or moves it, which ends its mount; that root, in a process that called Apply under writing
// rules, does not load code into the kernel; that a folder holds no mount or hard
// link of what is outside; that what is typed into another terminal of the same
// user is not read, for Landlock takes reading from everything or from nothing but
// what is listed; that a terminal of the user which controls no session is not
// taken for one's own (then it is /dev/tty). On architectures other than amd64 and
// arm64 there is no filter.
package sandbox

import (
	"errors"
	"fmt"
	"strings"
)

// Rules say where a process and all that it starts may write. They do not restrict reading and
// executing.
type Rules struct {
	// Write lists the folders below which everything may be written, as absolute paths; empty
	// means nowhere. Each must exist when the rules are applied. A link is resolved at that time.
	Write []string
	// Files lists files elsewhere that may be written, but not replaced, in the same way.
	Files []string
	// Real says that the paths were resolved before. Then a link is an error: somebody put it there since.
	Real bool
}

// readOnly reports whether the rules forbid all writing.
func (r Rules) readOnly() bool { return len(r.Write)+len(r.Files) == 0 }

// Support says what the kernel of this system can enforce.
type Support struct {
	// ABI is the version of Landlock; 0 means that the kernel has none.
	ABI int
	// Filter says whether seccomp filters work.
	Filter bool

	err error // why ABI is 0
}

// Each constant is the first version of Landlock that restricts what its name says.
const (
	abiRefer    = 2 // move and link between the writable folders
	abiTruncate = 3
	abiDevices  = 5 // ioctl
	abiScope    = 6 // signals and abstract sockets
	abiThreads  = 8 // all threads of a process enter one domain
)

// Enforced reports whether read-only rules really prevent changes: before ABI 3, Landlock does
// not keep a process from emptying files.
func (s Support) Enforced() bool { return s.ABI >= abiTruncate }

// String describes on one line what is enforced.
func (s Support) String() string {
	if s.ABI == 0 {
		return "none: " + s.reason()
	}
	kept := []string{"writing", "renaming"} // before ABI 2, nothing moves to another folder
	if s.ABI >= abiTruncate {
		kept = append(kept, "truncating")
	}
	if s.ABI >= abiDevices {
		kept = append(kept, "devices")
	}
	switch {
	case s.ABI >= abiThreads:
		kept = append(kept, "signals")
	case s.ABI >= abiScope:
		kept = append(kept, "signals of commands") // that Wrap starts
	}
	line := fmt.Sprintf("landlock ABI %d restricts %s", s.ABI, strings.Join(kept, ", "))
	if s.Filter {
		line += "; seccomp: terminal input, other processes, keys, file attributes"
	}
	return line
}

// Fix says what a person can do to have more enforced, or returns "" if nothing important is
// missing.
func (s Support) Fix() string {
	switch {
	case s.Enforced():
		return ""
	case s.ABI > 0:
		return "use Linux 6.2 or later: this one cannot keep a program from emptying files"
	}
	return s.cure()
}

// unsupported returns the error of Apply on a system that enforces nothing. It wraps [errors.ErrUnsupported].
func (s Support) unsupported() error {
	return fmt.Errorf("restrict this process: %s: %w", s.reason(), errors.ErrUnsupported)
}

// Within reports whether path is dir or below it. Both are clean; no link is followed.
func Within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
