package proc

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary plays the programs that misbehave. roleEnv names the part;
// pulse is the descriptor that each of them, and all it starts, keeps open: what
// a test reads from its other end ends when the last of them is dead.
const (
	roleEnv  = "PROC_TEST_ROLE"
	deepEnv  = "PROC_TEST_DEPTH" // of helpers that start helpers: a bomb goes out here
	deepest  = 5
	pulseFD  = 3
	lifetime = time.Minute // of a helper that a broken test left behind
)

func roles() map[string]func(args []string) {
	return map[string]func(args []string){
		"exit":       func(args []string) { os.Exit(number(args[0])) },
		"hang":       func([]string) { hang() },
		"ignoreTerm": func([]string) { signal.Ignore(syscall.SIGTERM); hang() },
		"obeyTerm":   func([]string) { obeyTerm() },
		"leaveChild": leaveChild,
		"daemon":     daemon,
		"flood":      func(args []string) { flood(number(args[0])) },
		"bytes":      func([]string) { os.Stdout.WriteString(oddBytes) },
		"die":        func([]string) { syscall.Kill(os.Getpid(), syscall.SIGKILL); os.Exit(7) },
		"echo":       func([]string) { io.Copy(pulse(), os.Stdin) },
		"supervise":  func(args []string) { supervise(args[0]) },
		"nest":       nest,
		"orphans":    func(args []string) { orphans(number(args[0])) },
		"scarce":     func([]string) { scarce() },
		"refused":    func([]string) { refusedHost() },
		"world":      func([]string) { world() },
	}
}

var (
	played   sync.Map // the roles that a test gave away
	oddBytes = "\xff\xfe no UTF-8 \x00 NUL \xc3"
	pulse    = sync.OnceValue(func() *os.File { return os.NewFile(pulseFD, "pulse") })
)

func TestMain(m *testing.M) {
	if IsKeeper(os.Environ()) {
		ch := make(chan os.Signal, 4)
		signal.Notify(ch, syscall.SIGTERM, syscall.SIGHUP)
		os.Exit(Keep(os.Args[1:], os.Environ(), ch))
	}
	if role := os.Getenv(roleEnv); role != "" {
		if depth() > deepest {
			panic("helpers nest too deeply: " + role)
		}
		roles()[role](os.Args[1:])
		os.Exit(0)
	}
	code := m.Run()
	whole := flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.bench").Value.String() == "" &&
		flag.Lookup("test.skip").Value.String() == "" && flag.Lookup("test.list").Value.String() == ""
	for role := range roles() {
		if _, ok := played.Load(role); !ok && whole && code == 0 {
			fmt.Fprintf(os.Stderr, "helper %q is used by no test\n", role)
			code = 1
		}
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// depth is 0 in a test, 1 in a helper that a test starts, and so on.
func depth() int {
	if d := os.Getenv(deepEnv); d != "" {
		return number(d)
	}
	return 0
}

// cast is env for a helper that plays role. A program reads the first of two
// entries of a name, so the own role has to go.
func cast(env []string, role string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		return strings.HasPrefix(e, roleEnv+"=") || strings.HasPrefix(e, "GORACE=") || strings.HasPrefix(e, deepEnv+"=")
	})
	return append(env, "GORACE=atexit_sleep_ms=0", roleEnv+"="+role, fmt.Sprintf("%s=%d", deepEnv, depth()+1))
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// say writes a line to the pulse.
func say(args ...any) { fmt.Fprintln(pulse(), args...) }

// outerPID is the process id as the mounted /proc counts, also in a namespace.
func outerPID() string {
	pid, err := os.Readlink("/proc/self")
	if err != nil {
		panic(err)
	}
	return pid
}

// hang says its id and does nothing more.
func hang() {
	say(outerPID())
	time.Sleep(lifetime)
}

func obeyTerm() {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGTERM)
	say(outerPID())
	select {
	case <-ch:
		os.Exit(5)
	case <-time.After(lifetime):
	}
}

// again runs this binary in another role, with the pulse and the output.
func again(attr *syscall.SysProcAttr, env []string, role string, args ...string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = cast(env, role)
	cmd.Stdout, cmd.ExtraFiles, cmd.SysProcAttr = os.Stdout, []*os.File{pulse()}, attr
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	return cmd
}

// leaveChild exits and leaves a child in its group that holds the output.
func leaveChild([]string) { again(nil, os.Environ(), "hang") }

// daemon leaves a process in a session of its own whose parent is dead; with
// "wait" it stays itself, with "bare" the process has no environment to know it by.
func daemon(args []string) {
	switch args[0] {
	case "middle":
		env := os.Environ()
		if args[1] == "bare" {
			env = nil
		}
		again(&syscall.SysProcAttr{Setsid: true}, env, "hang")
		return
	}
	if err := again(&syscall.SysProcAttr{Setsid: true}, os.Environ(), "daemon", "middle", args[0]).Wait(); err != nil {
		panic(err)
	}
	if args[1] == "wait" {
		time.Sleep(lifetime)
	}
}

func flood(megabytes int) {
	block := make([]byte, 1<<20)
	for range megabytes {
		if _, err := os.Stdout.Write(block); err != nil {
			panic(err)
		}
	}
}

// orphans starts n processes that are orphaned, name themselves and end.
func orphans(n int) {
	if n == 0 {
		say(outerPID())
		return
	}
	if syscall.Getpgrp() != os.Getpid() { // not the leader
		again(nil, os.Environ(), "orphans", "0")
		return
	}
	for range n {
		again(nil, os.Environ(), "orphans", "1").Wait()
	}
	time.Sleep(lifetime)
}

// supervise is a supervisor for a test to kill: with a child that hangs, one
// that is stopped, and one with a daemon.
func supervise(fence string) {
	h := NewHost()
	h.fence = fenceNamed(fence)
	for _, role := range [][]string{{"hang"}, {"ignoreTerm"}, {"daemon", "marked", "wait"}} {
		c := helper(role[0], role[1:]...).with(pulse())
		c.Keeper = c.Path
		p, err := h.Start(c)
		if err != nil {
			panic(err)
		}
		if p.fenced == (p.leash != nil) {
			panic("neither a namespace nor a keeper")
		}
		if role[0] == "ignoreTerm" && p.fenced { // else it would be the keeper
			syscall.Kill(p.PID(), syscall.SIGSTOP)
		}
	}
	runtime.GC()
	time.Sleep(lifetime)
}

// nest has a Host of its own, in which it runs a daemon. With "wait" the daemon
// and its leader stay; else it says how many the sweep found.
func nest(args []string) {
	h := NewHost()
	c := helper("daemon", "marked", args[0]).with(pulse())
	c.Env = cast(os.Environ(), "daemon")
	c.Marker, c.Namespace = "PROC_TEST_INNER=1", false
	p, err := h.Start(c)
	if err != nil {
		panic(err)
	}
	left := p.Wait().Left
	h.Close()
	say("left", left)
}

// scarce starts processes until the descriptors are used up.
func scarce() {
	h := NewHost()
	defer h.Close()
	limit := syscall.Rlimit{Cur: 12, Max: 12}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		panic(err)
	}
	for {
		if _, err := os.Open(os.DevNull); err != nil {
			break
		}
	}
	_, err := h.Start(helper("hang"))
	say(err)
}

// refusedHost forbids more namespaces in its own, and runs a Host there.
func refusedHost() {
	if err := os.WriteFile("/proc/sys/user/max_pid_namespaces", []byte("0"), 0); err != nil {
		say("skip", err)
		return
	}
	h := NewHost()
	defer h.Close()
	p, err := h.Start(helper("exit", "3"))
	if err != nil {
		panic(err)
	}
	say(p.Wait().Code, p.fenced, h.fence == group, h.Isolation())
}

// world prints what it was started with.
func world() {
	dir, _ := os.Getwd()
	fmt.Println(os.Args, os.Environ(), dir)
	for fd := range 8 {
		if link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err == nil {
			fmt.Println(fd, link)
		}
	}
	sid, _, _ := syscall.RawSyscall(syscall.SYS_GETSID, 0, 0, 0)
	_, err := os.Open("/dev/tty")
	fmt.Println("leads group", syscall.Getpgrp() == os.Getpid(), "session", int(sid) == os.Getpid(),
		"terminal", err == nil)
}

// helper is the command that plays role.
func helper(role string, args ...string) Command {
	if roles()[role] == nil {
		panic("no helper " + role)
	}
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	played.Store(role, true)
	return Command{
		Path: exe, Args: append([]string{role}, args...), Env: cast(nil, role),
		Namespace: true, Stderr: os.Stderr,
	}
}

func (c Command) with(extra ...*os.File) Command {
	c.Extra = extra
	return c
}

func fenceNamed(name string) fence {
	for f, n := range fences {
		if n == name {
			return f
		}
	}
	panic("no fence " + name)
}

var fences = map[fence]string{
	pidNamespace: "pid namespace", userNamespace: "user and pid namespace", group: "subreaper",
}

// stage is a started helper and the other end of its pulse.
type stage struct {
	*Process
	pulse *os.File
	lines *bufio.Reader
}
