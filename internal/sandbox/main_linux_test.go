package sandbox

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// The test binary plays the programs that run in a sandbox. roleEnv names the
// part, rulesEnv the rules of the parts that apply some.
const (
	roleEnv  = "SANDBOX_TEST_ROLE"
	rulesEnv = "SANDBOX_TEST_RULES"
	nextEnv  = "SANDBOX_TEST_NEXT" // the part of the program that such a part starts
)

// how are the ways into a sandbox; free is none.
type how string

const (
	free    how = "free"
	applied how = "applied" // the process restricts itself and starts the program
	wrapped how = "wrapped" // the process becomes the program
)

var played sync.Map // the roles that a test gave away

func TestMain(m *testing.M) {
	Exec(os.Environ())
	if role := os.Getenv(roleEnv); role != "" {
		os.Unsetenv(roleEnv)
		code := 0
		if err := roles()[role](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		if testing.CoverMode() != "" {
			syscall.Exit(code) // os.Exit would write a warning about coverage data to stderr
		}
		os.Exit(code)
	}
	code := m.Run()
	whole := flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == "" &&
		flag.Lookup("test.list").Value.String() == "" && flag.Lookup("test.bench").Value.String() == "" &&
		flag.Lookup("test.fuzz").Value.String() == ""
	for role := range roles() {
		if _, ok := played.Load(role); !ok && whole && code == 0 && role != "time" { // which benchmarks play
			fmt.Fprintf(os.Stderr, "role %q is played by no test\n", role)
			code = 1
		}
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// roles are the parts of the test binary. One that fails exits with code 1.
func roles() map[string]func(args []string) error {
	return map[string]func(args []string) error{
		"apply":      applyAndRun,
		"outdated":   outdatedAndRun,
		"time":       timeApply,
		"threads":    writeOnThreads,
		"offspring":  endOffspring,
		"root":       func(args []string) error { return writeByRoot(args[0]) },
		"set":        func(args []string) error { return setAttribute(args[0]) },
		"empty":      func(args []string) error { return empty(args[0]) },
		"flags":      func(args []string) error { return setFlags(args[0]) },
		"datagram":   func(args []string) error { return sendDatagram(args[0]) },
		"dial":       func(args []string) error { return dial(args[0]) },
		"listen":     func(args []string) error { return listen(args[0]) },
		"detached":   func(args []string) error { return writeByDetachedMount(args[0]) },
		"uring":      func([]string) error { return startRing() },
		"type":       func([]string) error { return typeIntoTerminal() },
		"victim":     victim,
		"attach":     func(args []string) error { return attach(args[0]) },
		"takeOver":   func(args []string) error { return takeDescriptor(args[0]) },
		"signal":     func(args []string) error { return signal(args[0]) },
		"memory":     writeMemory,
		"privileges": func([]string) error { return privileges() },
		"steer":      func(args []string) error { return steer(args[0]) },
		"parent":     func(args []string) error { return parent(args[0], args[1]) },
	}
}

func self() string {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return exe
}

// env is the environment of a helper that plays role.
func env(role string, more ...string) []string {
	played.Store(role, true)
	e := []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GORACE=atexit_sleep_ms=0", "SELF=" + self()}
	if role != "" {
		e = append(e, roleEnv+"="+role)
	}
	return append(e, more...)
}

func rulesEntry(r Rules) string {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return rulesEnv + "=" + string(text)
}

// command runs path in a sandbox that is entered like h says.
func command(h how, r Rules, environ []string, path string, args ...string) *exec.Cmd {
	args = append([]string{path}, args...)
	var cmd *exec.Cmd
	switch h {
	case free:
		cmd = &exec.Cmd{Path: path, Args: args, Env: environ}
	case applied:
		// The role of the program comes after that of the process that starts it.
		for i, e := range environ {
			if name, ok := strings.CutPrefix(e, roleEnv+"="); ok {
				environ[i] = nextEnv + "=" + name
			}
		}
		cmd = &exec.Cmd{Path: self(), Args: append([]string{self()}, args...),
			Env: append(environ, roleEnv+"=apply", rulesEntry(r))}
		played.Store("apply", true)
	case wrapped:
		p, a, entry := Wrap(self(), Order{Path: path, Rules: r}, args)
		cmd = &exec.Cmd{Path: p, Args: a, Env: append(environ, entry)}
	}
	return cmd
}

// script is a shell that runs text.
func script(h how, r Rules, text string, more ...string) *exec.Cmd {
	return command(h, r, env("", more...), "/bin/sh", "-c", text)
}

// role is the test binary that plays name.
func role(h how, r Rules, name string, args ...string) *exec.Cmd {
	return command(h, r, env(name), self(), args...)
}

// applyAndRun restricts itself and starts the program args.
func applyAndRun(args []string) error {
	return run(Apply, args)
}

// outdatedAndRun does so with what a kernel of ABI 2 can enforce.
func outdatedAndRun(args []string) error {
	return run(func(r Rules) error { return enforce(Support{ABI: abiTruncate - 1}, r, true) }, args)
}

func run(apply func(Rules) error, args []string) error {
	var r Rules
	if err := json.Unmarshal([]byte(os.Getenv(rulesEnv)), &r); err != nil {
		return err
	}
	if err := apply(r); err != nil {
		return err
	}
	if next := os.Getenv(nextEnv); next != "" {
		os.Setenv(roleEnv, next)
	}
	cmd := &exec.Cmd{Path: args[0], Args: args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	return cmd.Run()
}

// needs skips a test where the kernel cannot do what it is about.
func needs(t testing.TB, abi int) {
	t.Helper()
	if s := Probe(); s.ABI < abi || !s.Filter {
		t.Skipf("needs Landlock ABI %d and a filter: %v", abi, s)
	}
}

// held skips a test of something that this system refuses, or has no program
// for, even to processes that are free. out is what the attempt said.
func held(t testing.TB, out []byte) {
	t.Helper()
	for _, word := range []string{"not permitted", "ermission denied", "not found", "not supported", "not implemented",
		"nappropriate ioctl"} {
		if strings.Contains(string(out), word) {
			t.Skipf("this system holds that anyway: %s", out)
		}
	}
}

// succeeds runs cmd, which must not fail.
func succeeds(t testing.TB, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}
