package control

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// playVar names what a process of its own does, and in which folder.
const playVar = "CONTROL_TEST_PLAY"

// play does what playVar says, and reports whether it says something.
func play() bool {
	what, dir, _ := strings.Cut(os.Getenv(playVar), "|")
	f := newForest(dir)
	switch what {
	case "":
		return false
	case "serve", "serve and start": // a root; the latter also starts a client
		s := Start(f.config())
		s.opening.Wait()
		if err := os.Chmod(f.path(), 0o666); err != nil { // so that only the look at the peer keeps others out
			fmt.Println(err)
		}
		if what == "serve" {
			fmt.Println("ready")
		} else {
			out, err := player("dial", dir).Output()
			fmt.Print(string(out), errors.Join(err))
			fmt.Println()
		}
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		s.Close()
	case "dial", "dial locked":
		if what != "dial" {
			if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
				fmt.Println(err)
			}
		}
		_, err := Dial(f.path())
		fmt.Println("dialled:", err)
	}
	return true
}

// player is a process that plays.
func player(what, dir string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), playVar+"="+what+"|"+dir)
	return cmd
}

// host starts a root as a process of its own, and returns what it says first.
func host(t *testing.T, what, dir string) string {
	t.Helper()
	cmd := player(what, dir)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		assert.NoError(t, cmd.Wait())
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(line)
}

// TestPeers: who may connect to the socket of a root.
func TestPeers(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "qq-peers-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	require.Equal(t, "ready", host(t, "serve", dir))
	attempt := func(cmd *exec.Cmd) string {
		out, err := cmd.Output()
		require.NoError(t, err)
		return strings.TrimSpace(string(out))
	}
	locked, err := look("self")
	require.NoError(t, err)
	assert.Equal(t, "dialled: <nil>", attempt(player("dial", dir)), "one beside it")
	if locked.locked == 0 { // else these tests run in a sandbox themselves
		refused := attempt(player("dial locked", dir))
		assert.Contains(t, refused, "dialled: a process in a sandbox may not")
		assert.Contains(t, refused, "of sandboxes (no_new_privs, seccomp)")
	}
	below := t.TempDir()
	assert.Contains(t, host(t, "serve and start", below), "dialled: a process that was started by the root may not")
	if os.Geteuid() != 0 {
		t.Log("the other cases need root")
		return
	}
	space := player("dial", dir)
	space.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	assert.Contains(t, attempt(space), "dialled: a process in another PID namespace may not use the socket")
	exe := filepath.Join(dir, "test") // the folder of this one may be closed to others
	text, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(exe, text, 0o755))
	stranger := player("dial", dir)
	stranger.Path, stranger.Dir = exe, "/"
	stranger.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	assert.Contains(t, attempt(stranger), "dialled: user 65534 may not use the socket of user 0")
}

func TestStatus(t *testing.T) {
	const whole = "Name:\tx\nState:\tS (sleeping)\nPPid:\t12\nNSpid:\t34\t5\n" +
		"NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t3\n"
	for text, want := range map[string]status{
		whole:                         {12, 2, 1, 3},
		"PPid:\t1\nSeccomp:\t2\n":     {parent: 1, filters: 2}, // an old kernel
		"Name:\tPPid:\t7\nPPid:\t0\n": {},
	} {
		got, err := parseStatus([]byte(text))
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for _, text := range []string{"", "Name:\tx\n", "PPid:\tx\n", "PPid:\t1\nState:\tZ (zombie)\n"} {
		_, err := parseStatus([]byte(text))
		assert.Error(t, err, text)
	}
	assert.Error(t, outside(0))
	assert.NoError(t, outside(os.Getpid()))
	assert.NoError(t, outside(os.Getppid()))
}

func FuzzStatus(f *testing.F) {
	own, err := os.ReadFile("/proc/self/status")
	require.NoError(f, err)
	f.Add(own)
	f.Add([]byte("PPid:\t1\nState:\n"))
	f.Fuzz(func(_ *testing.T, text []byte) { _, _ = parseStatus(text) })
}
