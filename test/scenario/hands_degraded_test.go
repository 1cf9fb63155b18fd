package scenario

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// withoutLandlock makes the kernel one without Landlock for all that this test
// starts from its own goroutine: its thread gets a filter that answers the system
// calls of Landlock as an old kernel does, and what is started from there
// inherits it. The thread stays with the goroutine, and ends with it.
func withoutLandlock(t *testing.T) {
	t.Helper()
	const (
		noNewPrivs, setSeccomp, byFilter = 38, 22, 2 // prctl
		create, restrict                 = 444, 446  // the first and the last of the calls, on all architectures
		refuse, allow                    = 0x00050000 | uint32(syscall.ENOSYS), 0x7fff0000
	)
	filter := []syscall.SockFilter{
		{Code: syscall.BPF_LD | syscall.BPF_W | syscall.BPF_ABS}, // the number of the call stands at the beginning
		{Code: syscall.BPF_JMP | syscall.BPF_JGE | syscall.BPF_K, K: create, Jf: 2},
		{Code: syscall.BPF_JMP | syscall.BPF_JGT | syscall.BPF_K, K: restrict, Jt: 1},
		{Code: syscall.BPF_RET | syscall.BPF_K, K: refuse},
		{Code: syscall.BPF_RET | syscall.BPF_K, K: allow},
	}
	program := syscall.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread() // and never unlocked
	require.NotEqual(t, os.Getpid(), syscall.Gettid(), "the main thread does not end with its goroutine: see init")
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, noNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
		t.Fatal("give up new privileges:", errno)
	}
	_, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setSeccomp, byFilter, uintptr(unsafe.Pointer(&program)))
	if errors.Is(errno, syscall.EINVAL) || errors.Is(errno, syscall.ENOSYS) {
		t.Skip("this kernel has no filters of system calls:", errno)
	}
	require.Zero(t, errno, "filter system calls")
	_, _, errno = syscall.RawSyscall(create, 0, 0, 1)
	require.Equal(t, syscall.ENOSYS, errno, "Landlock is gone")
}

// TestWithoutLandlock: where the kernel cannot keep a command from writing, an
// agent that may only read has no shell, and whoever looks is told why.
func TestWithoutLandlock(t *testing.T) {
	const why = "run_pty_cmd was refused: this agent may only read, and this system cannot keep a command from writing"
	for _, place := range workPlaces {
		t.Run(place, func(t *testing.T) {
			withoutLandlock(t)
			r := recordPlayed(t, workPlay(t, map[string]workAgent{
				"look": workSteps(
					workDo(workCall("run_pty_cmd", "command", "echo x > by_shell.txt"),
						workCall("write_file", "path", "by_tool.txt", "content", "x"),
						workCall("read_file", "path", "notes.txt")),
					workText("Looked.")),
				"lead": workSteps(
					workDo(workCall("delegate_task", "agent", "guarded", "task", "Look. [[look]]", "read_only", true)),
					workText("It could only look.")),
			}))
			w := newWorld(t, r.host, played)
			w.file(".qq/agents/guarded.md", guarded)
			w.file("notes.txt", notes)
			check := w.unchanged()
			if place == "root" {
				e := w.qq("Look. [[look]]", "--agent", "guarded", "--read-only", "--auto-approve", "--json").failed(1,
					"refused")
				assert.Equal(t, why+"; write_file was refused: this agent may only read", *e.Error)
			} else {
				w.qq("Delegate. [[lead]]", "--auto-approve").answered("It could only look.")
				told := r.last(t, "[[lead]]").of("tool")
				require.Len(t, told, 1)
				assert.Contains(t, told[0], why)
			}
			check()
			c := r.last(t, "[[look]]")
			assert.NotContains(t, c.offered(), "run_pty_cmd")
			assert.Contains(t, c.offered(), "read_file")
			results := c.of("tool")
			require.Len(t, results, 3)
			assert.Equal(t, "Error: "+why, results[0])
			assert.Contains(t, results[2], "two")
		})
	}
	t.Run("doctor", func(t *testing.T) {
		w := newWorld(t, "127.0.0.1:1", played)
		withoutLandlock(t)
		assert.Equal(t, finding{"sandbox", "note", "none: this kernel has no Landlock; read-only agents get no shell",
			"use Linux 6.2 or later with CONFIG_SECURITY_LANDLOCK"}, w.doctor("sandbox"))
	})
}

// TestWithoutLandlockWriting: an agent that may write works as it does
// elsewhere, its shell included, and its file tools stay in the working
// directory: they never needed the kernel for that.
func TestWithoutLandlockWriting(t *testing.T) {
	for _, place := range workPlaces {
		t.Run(place, func(t *testing.T) {
			withoutLandlock(t)
			m := workPlay(t, map[string]workAgent{
				"write": workSteps(
					workDo(workCall("write_file", "path", "by_tool.txt", "content", "x\n"),
						workCall("write_file", "path", "../outside.txt", "content", "x\n"),
						workCall("write_file", "path", "link/outside.txt", "content", "x\n"),
						workCall("read_file", "path", "link/secret.txt")),
					workDo(workCall("run_pty_cmd", "command", `echo "$0" > by_shell.txt && cat by_tool.txt`)),
					workText("Written.")),
				"lead": workSteps(workDo(workCall("delegate_task", "agent", "guarded", "task", "Write. [[write]]")),
					workText("Written.")),
			})
			r := recordPlayed(t, m)
			w := newWorld(t, r.host, played)
			w.file(".qq/agents/guarded.md", guarded)
			outside := filepath.Join(w.dir, "outside")
			require.NoError(t, os.Mkdir(outside, 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(outside, "secret.txt"), []byte("canary\n"), 0o600))
			require.NoError(t, os.Symlink(outside, filepath.Join(w.work, "link")))
			args := []string{"Delegate. [[lead]]", "--auto-approve", "--json"}
			if place == "root" {
				args = []string{"Write. [[write]]", "--agent", "guarded", "--auto-approve", "--json"}
			}
			e := w.qq(args...)
			assert.Equal(t, []string{"by_tool.txt"}, e.changed())
			results := r.last(t, "[[write]]").of("tool")
			require.Len(t, results, 5)
			for _, denied := range results[1:4] {
				assert.True(t, strings.HasPrefix(denied, "Error: "), denied)
				assert.NotContains(t, denied, "canary")
			}
			assert.Equal(t, "x\n[exit code 0]", results[4])
			files := w.files("work")
			assert.Equal(t, "x\n", files["by_tool.txt"])
			assert.NotEmpty(t, files["by_shell.txt"])
			assert.NoFileExists(t, filepath.Join(w.dir, "outside.txt"))
			assert.Equal(t, map[string]string{"secret.txt": "canary\n"}, w.files("outside"))
		})
	}
}
