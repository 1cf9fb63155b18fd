package alive

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// holdEnv names the folder in which the test binary, as a process of its own,
// holds the lock of its first argument until its input ends.
const holdEnv = "ALIVE_TEST_HOLD"

func TestMain(m *testing.M) {
	if path := os.Getenv(holdEnv); path != "" {
		k, err := Dir{Path: path, Wait: time.Second}.Hold(os.Args[1])
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("ready")
		io.Copy(io.Discard, os.Stdin)
		if k.Release() != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// holder is a process that holds a lock.
type holder struct {
	*exec.Cmd
	stdin io.Closer
}

func hold(t *testing.T, d Dir, id string) holder {
	t.Helper()
	cmd := exec.Command(os.Args[0], id)
	cmd.Env = append(os.Environ(), holdEnv+"="+d.Path)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	return holder{cmd, in}
}

func here(t *testing.T) Dir { return Dir{Path: filepath.Join(t.TempDir(), "locks"), Wait: time.Minute} }

// files are the names in the folder.
func files(t *testing.T, d Dir) []string {
	t.Helper()
	names, err := d.Left("")
	require.NoError(t, err)
	return names
}

func TestKillFreesTheLock(t *testing.T) {
	d := here(t)
	live, err := d.Live()
	require.NoError(t, err, "a folder that there is not")
	assert.Empty(t, live)
	a, b := hold(t, d, "a"), hold(t, d, "b")
	live, err = d.Live()
	require.NoError(t, err)
	assert.Equal(t, map[string]bool{"a": true, "b": true}, live)

	require.NoError(t, a.Process.Kill())
	require.Error(t, a.Wait())
	live, err = d.Live()
	require.NoError(t, err)
	assert.Equal(t, map[string]bool{"b": true}, live)
	assert.Equal(t, []string{"a.lock", "b.lock"}, files(t, d), "it could not remove its file")
	require.NoError(t, d.Sweep())
	assert.Equal(t, []string{"b.lock"}, files(t, d))

	require.NoError(t, b.stdin.Close())
	require.NoError(t, b.Wait())
	assert.Empty(t, files(t, d))
	yes, err := d.Alive("b")
	require.NoError(t, err)
	assert.False(t, yes)
	info, err := os.Stat(d.Path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

// Children of a holder that outlive it do not keep it alive.
func TestChildrenInheritNothing(t *testing.T) {
	d := here(t)
	k, err := d.Hold("a")
	require.NoError(t, err)
	hold(t, d, "child")
	require.NoError(t, k.file.Close()) // as at the end of this process
	yes, err := d.Alive("a")
	require.NoError(t, err)
	assert.False(t, yes)
}

func TestHoldWaitsItsTime(t *testing.T) {
	d := here(t)
	hold(t, d, "a")
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := d.Hold("a")
		var locked *LockedError
		require.ErrorAs(t, err, &locked)
		assert.Equal(t, LockedError{filepath.Join(d.Path, "a.lock"), time.Minute}, *locked)
		if runtime.GOOS != "linux" {
			assert.Equal(t, d.Path+"/a.lock has been locked for 1m0s", err.Error())
			return
		}
		assert.Regexp(t, "^"+d.Path+`/a\.lock has been locked by process \d+ \("alive.test"\) for 1m0s$`, err.Error())
		assert.Equal(t, time.Minute, time.Since(start))
	})
}

func TestAloneIsNotLife(t *testing.T) {
	d := here(t)
	require.NoError(t, os.Mkdir(d.Path, 0o700))
	synctest.Test(t, func(t *testing.T) {
		k, err := d.Alone("opening")
		require.NoError(t, err)
		_, err = d.Alone("opening")
		require.ErrorAs(t, err, new(*LockedError))
		live, err := d.Live()
		require.NoError(t, err)
		assert.Empty(t, live)
		require.NoError(t, k.Release())
		k, err = d.Alone("opening")
		require.NoError(t, err)
		require.NoError(t, k.Release())
	})
	require.NoError(t, d.Sweep())
	assert.Equal(t, []string{"opening"}, files(t, d), "its file stays: others wait for it")
}

func TestOddIDs(t *testing.T) {
	d := here(t)
	for _, id := range []string{"", ".", "../x", ".hidden", "a/b", "a\x00b"} {
		_, err := d.Hold(id)
		require.ErrorContains(t, err, "is no id", id)
	}
	assert.Empty(t, files(t, d))
	d.Path = filepath.Join(d.Path, "50% of [what]? #1 é")
	k, err := d.Hold("*")
	require.NoError(t, err)
	yes, err := d.Alive("*")
	require.NoError(t, err)
	assert.True(t, yes)
	require.NoError(t, k.Release())
}

// Whoever holds a lock holds that of a file which has a name, however others
// sweep meanwhile; and there is one of them.
func TestHoldAmongSweepers(t *testing.T) {
	d := here(t)
	var all sync.WaitGroup
	var held, sweeps sync.Mutex
	for range 3 {
		all.Go(func() {
			for range 300 {
				k, err := d.Hold("a")
				if !assert.NoError(t, err) {
					return
				}
				assert.True(t, held.TryLock(), "two hold it")
				for range 20 {
					yes, err := d.Alive("a")
					assert.NoError(t, err)
					assert.True(t, yes, "one that lives is not known")
				}
				held.Unlock()
				assert.NoError(t, k.file.Close()) // it is killed
			}
		})
		all.Go(func() {
			for range 3000 {
				sweeps.Lock()
				assert.NoError(t, d.Sweep())
				sweeps.Unlock()
			}
		})
	}
	all.Wait()
}

// Nobody who looks takes one that sweeps for the holder.
func TestSweepersAreNotAlive(t *testing.T) {
	d := here(t)
	require.NoError(t, os.Mkdir(d.Path, 0o700))
	for range 2000 {
		require.NoError(t, os.WriteFile(filepath.Join(d.Path, "a.lock"), nil, 0o600)) // it was killed
		swept := make(chan error)
		go func() { swept <- d.Sweep() }()
		for done := false; !done; {
			select {
			case err := <-swept:
				require.NoError(t, err)
				done = true
			default:
			}
			yes, err := d.Alive("a")
			require.NoError(t, err)
			require.False(t, yes)
		}
	}
	assert.Empty(t, files(t, d))
}

func TestLookAsksAgain(t *testing.T) {
	d := here(t)
	asked := []int{}
	var locks []*Lock
	err := d.Look(func(live map[string]bool) error {
		asked = append(asked, len(live))
		if len(asked) < 3 { // one is born while it looks
			k, err := d.Hold(fmt.Sprint(len(asked)))
			locks = append(locks, k)
			return err
		}
		return locks[0].Release() // one that ends is no reason
	})
	require.NoError(t, err)
	assert.Equal(t, []int{0, 1, 2}, asked)
	assert.Equal(t, io.EOF, d.Look(func(map[string]bool) error { return io.EOF }))
	require.NoError(t, locks[1].Release())
}

// Two that look at the same time do not take each other for the holder.
func TestLookersAreNotAlive(t *testing.T) {
	d := here(t)
	k, err := d.Hold("a")
	require.NoError(t, err)
	require.NoError(t, k.file.Close())
	other, err := os.Open(k.file.Name())
	require.NoError(t, err)
	defer other.Close()
	free, err := try(other, syscall.LOCK_SH)
	require.NoError(t, err)
	require.True(t, free)
	yes, err := d.Alive("a")
	require.NoError(t, err)
	assert.False(t, yes)
}

// What cannot be looked at is not taken for dead.
func TestFolderThatCannotBeRead(t *testing.T) {
	d := Dir{Path: filepath.Join(t.TempDir(), "file")}
	require.NoError(t, os.WriteFile(d.Path, nil, 0o600))
	_, err := d.Live()
	require.ErrorIs(t, err, syscall.ENOTDIR)
	_, err = d.Alive("a")
	require.ErrorIs(t, err, syscall.ENOTDIR)
	require.ErrorIs(t, d.Look(func(map[string]bool) error { return nil }), syscall.ENOTDIR)
	require.ErrorIs(t, d.Sweep(), syscall.ENOTDIR)
	require.ErrorIs(t, d.Terminate("a", os.Getpid(), ""), syscall.ENOTDIR)
}

func TestTerminate(t *testing.T) {
	d := here(t)
	for _, stopped := range []bool{false, true} {
		p := hold(t, d, "a")
		identity := Identity(p.Process.Pid)
		if stopped {
			require.NoError(t, p.Process.Signal(syscall.SIGSTOP))
		}
		require.NoError(t, d.Terminate("a", p.Process.Pid, identity))
		require.Error(t, p.Wait())
		assert.Equal(t, syscall.SIGTERM, p.ProcessState.Sys().(syscall.WaitStatus).Signal())
		require.ErrorIs(t, d.Terminate("a", p.Process.Pid, identity), ErrEnded)
		assert.Empty(t, Identity(p.Process.Pid))
	}
}

// Only the process that was recorded is signalled, and only while its id is alive.
func TestTerminateSparesOthers(t *testing.T) {
	d := here(t)
	p := hold(t, d, "a")
	pid, identity := p.Process.Pid, Identity(p.Process.Pid)
	for _, id := range []string{"", "b"} {
		require.ErrorIs(t, d.Terminate(id, pid, identity), ErrEnded, "an id that is not alive")
	}
	require.ErrorIs(t, d.Terminate("a", 0, identity), ErrEnded, "no process, or all of the group")
	require.ErrorIs(t, d.Terminate("a", -1, identity), ErrEnded, "no process, or all there are")
	if identity != "" {
		for _, other := range []string{"", identity + "0", "x" + identity, Identity(os.Getpid())} {
			require.ErrorIs(t, d.Terminate("a", pid, other), ErrEnded, "a later process with the same pid")
		}
	}
	require.NoError(t, p.stdin.Close())
	require.NoError(t, p.Wait(), "it ended by itself")
}

func TestEnd(t *testing.T) {
	for _, c := range []struct {
		term, cont, want error
	}{
		{nil, nil, nil},
		{syscall.ESRCH, nil, ErrEnded},
		{nil, syscall.ESRCH, nil}, // it was quick
		{syscall.EPERM, nil, syscall.EPERM},
		{nil, syscall.EPERM, syscall.EPERM},
	} {
		var sent []string
		err := end(func(s syscall.Signal) error {
			sent = append(sent, s.String())
			if s == syscall.SIGTERM {
				return c.term
			}
			return c.cont
		})
		assert.Equal(t, c.want, err)
		assert.Equal(t, c.term == nil, len(sent) == 2, strings.Join(sent, " "))
	}
}
