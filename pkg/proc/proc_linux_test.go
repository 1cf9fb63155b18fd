package proc

import (
	"bufio"
	"bytes"
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
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// behindEach runs f with a Host behind each fence that this system allows, and with keepers.
func behindEach(t *testing.T, f func(t *testing.T, h *Host)) {
	for _, fence := range []fence{pidNamespace, userNamespace, group} {
		t.Run(fences[fence], func(t *testing.T) { f(t, hostBehind(t, fence)) })
	}
	t.Run("keeper", func(t *testing.T) {
		h := hostBehind(t, group)
		keeping.Store(h, true)
		t.Cleanup(func() { keeping.Delete(h) })
		f(t, h)
	})
}

// keeping has the Hosts whose commands have a keeper.
var keeping sync.Map

func hostBehind(t testing.TB, f fence) *Host {
	h := NewHost()
	h.fence = f
	t.Cleanup(h.Close)
	if got := h.Isolation(); got != fences[f] {
		t.Skipf("this system gives a %s", got)
	}
	return h
}

// enter starts c with a pulse.
func enter(t testing.TB, h *Host, c Command) *stage {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	if _, ok := keeping.Load(h); ok {
		c.Keeper = c.Path
	}
	p, err := h.Start(c.with(append([]*os.File{w}, c.Extra...)...))
	require.NoError(t, w.Close())
	require.NoError(t, err)
	t.Cleanup(func() { p.Kill(); p.Wait(); r.Close() })
	return &stage{p, r, bufio.NewReader(r)}
}

// hear returns the next line that one of the helpers says.
func (s *stage) hear(t testing.TB) string {
	require.NoError(t, s.pulse.SetReadDeadline(time.Now().Add(20*time.Second)))
	line, err := s.lines.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(line)
}

// assertGone fails unless within a second every process is dead that the stage
// held.
func (s *stage) assertGone(t testing.TB) {
	assert.NoError(t, s.pulse.SetReadDeadline(time.Now().Add(time.Second)))
	_, err := io.Copy(io.Discard, s.lines)
	assert.NoError(t, err, "something still holds the pulse")
}

// alive reads /proc, because kill(pid, 0) calls a zombie alive.
func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	return !bytes.Contains([]byte("ZX"), fields[0])
}

func outputFile(t testing.TB) *os.File {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func TestExitCode(t *testing.T) {
	behindEach(t, func(t *testing.T, h *Host) {
		for _, code := range []string{"0", "1", "255"} {
			s := enter(t, h, helper("exit", code))
			exit := s.Wait()
			assert.Equal(t, code, fmt.Sprint(exit.Code))
			assert.Zero(t, exit.Signal)
			assert.Zero(t, exit.Left)
			assert.Positive(t, exit.User+exit.System)
			assert.Greater(t, exit.MaxRSS, int64(1<<20))
			s.assertGone(t)
		}
	})
}

func TestDiesBySignal(t *testing.T) {
	behindEach(t, func(t *testing.T, h *Host) {
		exit := enter(t, h, helper("die")).Wait()
		if h.fence < group { // an init cannot kill itself
			assert.Equal(t, 7, exit.Code)
			return
		}
		assert.Equal(t, -1, exit.Code)
		assert.Equal(t, syscall.SIGKILL, exit.Signal)
	})
}

func TestKill(t *testing.T) {
	behindEach(t, func(t *testing.T, h *Host) {
		s := enter(t, h, helper("ignoreTerm"))
		s.hear(t)
		s.Kill()
		exit := s.Wait()
		assert.Equal(t, -1, exit.Code)
		assert.Equal(t, syscall.SIGKILL, exit.Signal)
		s.assertGone(t)
		s.Kill() // nobody's any more
		s.Stop()
	})
}

func TestStopLadder(t *testing.T) {
	for _, tc := range []struct {
		name, role string
		grace      time.Duration
		stopped    bool
		killed     bool
		code       int
	}{
		{"obeys", "obeyTerm", time.Minute, false, false, 5},
		{"obeys, stopped", "obeyTerm", time.Minute, true, false, 5},
		{"ignores", "ignoreTerm", 20 * time.Millisecond, false, true, -1},
		{"ignores, stopped", "ignoreTerm", 20 * time.Millisecond, true, true, -1},
		{"ignores, no grace", "ignoreTerm", 0, false, true, -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			behindEach(t, func(t *testing.T, h *Host) {
				c := helper(tc.role)
				c.Grace = tc.grace
				s := enter(t, h, c)
				s.hear(t)
				if tc.stopped {
					require.NoError(t, syscall.Kill(s.PID(), syscall.SIGSTOP))
				}
				begin := time.Now()
				for range 3 {
					go s.Stop()
				}
				s.Stop()
				exit := s.Wait()
				took := time.Since(begin)
				assert.Equal(t, tc.code, exit.Code)
				assert.Equal(t, tc.killed, exit.Signal == syscall.SIGKILL)
				assert.Less(t, took, 5*time.Second)
				if tc.killed {
					assert.GreaterOrEqual(t, took, tc.grace)
				}
				s.assertGone(t)
			})
		})
	}
}

// A program without a handler for SIGTERM: as an init it is not killed by it,
// but Go's runtime makes it exit.
func TestStopHangs(t *testing.T) {
	behindEach(t, func(t *testing.T, h *Host) {
		c := helper("hang")
		c.Grace = 5 * time.Second
		s := enter(t, h, c)
		s.hear(t)
		s.Stop()
		exit := s.Wait()
		if h.fence < group {
			assert.Equal(t, 2, exit.Code)
		} else {
			assert.Equal(t, syscall.SIGTERM, exit.Signal)
		}
		s.assertGone(t)
	})
}

func TestLeaderLeavesChildThatHoldsOutput(t *testing.T) {
	behindEach(t, func(t *testing.T, h *Host) {
		c := helper("leaveChild")
		c.Stdout = outputFile(t)
		s := enter(t, h, c)
		exit := s.Wait()
		assert.Zero(t, exit.Code)
		if h.fence == group {
			assert.Equal(t, 1, exit.Left)
		}
		s.assertGone(t)
	})
}

// Without a subreaper the group is all there is, and it is killed all the same.
func TestGroupIsKilledWithoutSubreaper(t *testing.T) {
	h := NewHost()
	defer h.Close()
	h.fence, h.adopting = group, true // as if the system had refused it
	require.Equal(t, "process group", h.Isolation())
	s := enter(t, h, helper("leaveChild"))
	exit := s.Wait()
	assert.Zero(t, exit.Code)
	assert.Zero(t, exit.Left)
	s.assertGone(t)
}

func TestDaemon(t *testing.T) {
	for _, kind := range []string{"marked", "bare"} {
		t.Run(kind, func(t *testing.T) {
			behindEach(t, func(t *testing.T, h *Host) {
				c := helper("daemon", kind, "go")
				c.Marker = "PROC_TEST=a"
				s := enter(t, h, c)
				exit := s.Wait()
				assert.Zero(t, exit.Code)
				if h.fence == group {
					assert.Equal(t, 1, exit.Left)
				}
				s.assertGone(t)
			})
		})
	}
}

func TestStopTakesDaemonAlong(t *testing.T) {
	behindEach(t, func(t *testing.T, h *Host) {
		c := helper("daemon", "marked", "wait")
		c.Marker = "PROC_TEST=a"
		s := enter(t, h, c)
		pid := s.hear(t)
		require.True(t, alive(pid))
		s.Stop()
		s.Wait()
		assert.False(t, alive(pid))
		s.assertGone(t)
	})
}

func TestDaemonOfAnotherProcessLivesOn(t *testing.T) {
	behindEach(t, func(t *testing.T, h *Host) {
		a, b := helper("daemon", "marked", "wait"), helper("daemon", "marked", "wait")
		a.Marker, b.Marker = "PROC_TEST=a", "PROC_TEST=ab"
		first, second := enter(t, h, a), enter(t, h, b)
		pidA, pidB := first.hear(t), second.hear(t)
		first.Stop()
		first.Wait()
		first.assertGone(t)
		assert.False(t, alive(pidA))
		assert.True(t, alive(pidB))
		h.sweep(nil)
		assert.True(t, alive(pidB))
		second.Stop()
		second.Wait()
		second.assertGone(t)
	})
}

// A daemon that cannot be told to be A's may be B's: it goes when B goes.
func TestUnknownDaemonWaitsForAllThatMayOwnIt(t *testing.T) {
	h := hostBehind(t, group)
	a := helper("daemon", "bare", "wait")
	a.Marker = "PROC_TEST=a"
	first, second := enter(t, h, a), enter(t, h, helper("hang"))
	pid := first.hear(t)
	second.hear(t)
	first.Kill()
	first.Wait()
	assert.True(t, alive(pid))
	second.Kill()
	assert.Equal(t, 1, second.Wait().Left)
	first.assertGone(t)
}

// A child with a Host of its own is killed: what it ran is adopted here, with
// the marks of both Hosts.
func TestNestedHostIsKilled(t *testing.T) {
	behindEach(t, func(t *testing.T, h *Host) {
		c := helper("nest", "wait")
		c.Marker = "PROC_TEST_OUTER=a"
		s, other := enter(t, h, c), enter(t, h, helper("hang"))
		pid := s.hear(t)
		other.hear(t)
		require.True(t, alive(pid))
		s.Kill()
		exit := s.Wait()
		if h.fence == group {
			// The daemon, the leader in its group, and maybe the one between them.
			assert.GreaterOrEqual(t, exit.Left, 2)
		}
		s.assertGone(t)
	})
}

// In a namespace the Host counts processes differently than /proc does.
func TestNestedHostSweeps(t *testing.T) {
	behindEach(t, func(t *testing.T, h *Host) {
		s := enter(t, h, helper("nest", "go"))
		said := s.hear(t)
		if !strings.HasPrefix(said, "left") { // the daemon came to speak before it was killed
			said = s.hear(t)
		}
		assert.Equal(t, "left 1", said)
		assert.Zero(t, s.Wait().Code)
		s.assertGone(t)
	})
}

func TestOrphansAreReapedMeanwhile(t *testing.T) {
	h := hostBehind(t, group)
	s := enter(t, h, helper("orphans", "5"))
	var pids []string
	for range 5 {
		pids = append(pids, s.hear(t))
	}
	assert.Eventually(t, func() bool {
		for _, pid := range pids {
			if _, err := os.Stat("/proc/" + pid); err == nil {
				return false
			}
		}
		return true
	}, 10*time.Second, 20*time.Millisecond)
	s.Kill()
	assert.Zero(t, s.Wait().Left)
}

func TestChildrenFromBeforeAreLeftAlone(t *testing.T) {
	pulse, w, err := os.Pipe()
	require.NoError(t, err)
	c := helper("hang").with(w)
	before := exec.Command(c.Path)
	before.Env, before.ExtraFiles = c.Env, c.Extra
	require.NoError(t, before.Start())
	require.NoError(t, w.Close())
	h := hostBehind(t, group)
	enter(t, h, helper("exit", "0")).Wait()
	h.Close()
	s := &stage{nil, pulse, bufio.NewReader(pulse)}
	assert.True(t, alive(s.hear(t)))
	require.NoError(t, before.Process.Kill())
	require.Error(t, before.Wait())
	s.assertGone(t)
}

func TestFloodCostsNoMemory(t *testing.T) {
	megabytes := 500
	if testing.Short() {
		megabytes = 20
	}
	behindEach(t, func(t *testing.T, h *Host) {
		c := helper("flood", fmt.Sprint(megabytes))
		c.Stdout = outputFile(t)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s := enter(t, h, c)
		assert.Zero(t, s.Wait().Code)
		runtime.ReadMemStats(&after)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
		info, err := c.Stdout.Stat()
		require.NoError(t, err)
		assert.Equal(t, int64(megabytes)<<20, info.Size())
		require.NoError(t, c.Stdout.Truncate(0))
	})
}

func TestBytesAreIntact(t *testing.T) {
	behindEach(t, func(t *testing.T, h *Host) {
		c := helper("bytes")
		c.Stdout = outputFile(t)
		enter(t, h, c).Wait()
		got, err := os.ReadFile(c.Stdout.Name())
		require.NoError(t, err)
		assert.Equal(t, oddBytes, string(got))
	})
}

func TestStdin(t *testing.T) {
	behindEach(t, func(t *testing.T, h *Host) {
		c := helper("echo")
		c.Stdin = outputFile(t)
		_, err := c.Stdin.WriteString("line of input\n")
		require.NoError(t, err)
		_, err = c.Stdin.Seek(0, io.SeekStart)
		require.NoError(t, err)
		s := enter(t, h, c)
		assert.Equal(t, "line of input", s.hear(t))
		assert.Zero(t, s.Wait().Code)
		assert.Zero(t, enter(t, h, helper("echo")).Wait().Code, "/dev/null ends at once")
	})
}

// The thread that called Start may end; the parent death signal must not care.
func TestOutlivesThreadOfStart(t *testing.T) {
	behindEach(t, func(t *testing.T, h *Host) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		c := helper("echo")
		c.Stdin = r
		started := make(chan *stage)
		tid := 0
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			tid = syscall.Gettid()
			started <- enter(t, h, c)
		}()
		s := <-started
		require.NoError(t, r.Close())
		if tid != os.Getpid() { // the main thread never ends
			require.Eventually(t, func() bool {
				_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", tid))
				return os.IsNotExist(err)
			}, 10*time.Second, time.Millisecond)
		}
		_, err = w.WriteString("still here\n")
		require.NoError(t, err)
		assert.Equal(t, "still here", s.hear(t))
		require.NoError(t, w.Close())
		assert.Zero(t, s.Wait().Code)
	})
}

// A supervisor is killed by SIGKILL. Only a namespace or a keeper helps then, and it does so
// for a stopped child and for a daemon too.
func TestSupervisorIsKilled(t *testing.T) {
	for _, f := range []fence{pidNamespace, userNamespace, group} {
		t.Run(fences[f], func(t *testing.T) {
			hostBehind(t, f).Close() // not a subreaper now
			pulse, w, err := os.Pipe()
			require.NoError(t, err)
			c := helper("supervise", fences[f]).with(w)
			cmd := exec.Command(c.Path, c.Args[1:]...)
			cmd.Env, cmd.ExtraFiles, cmd.Stderr = c.Env, c.Extra, os.Stderr
			require.NoError(t, cmd.Start())
			require.NoError(t, w.Close())
			s := &stage{nil, pulse, bufio.NewReader(pulse)}
			pids := []string{s.hear(t), s.hear(t)} // the stopped one may have come too late to speak
			for _, pid := range pids {
				assert.True(t, alive(pid))
			}
			require.NoError(t, cmd.Process.Kill())
			require.Error(t, cmd.Wait())
			s.assertGone(t)
			for _, pid := range pids { // descriptors are closed a little before the end
				assert.Eventually(t, func() bool { return !alive(pid) }, time.Second, time.Millisecond)
			}
		})
	}
}

func TestClose(t *testing.T) {
	behindEach(t, func(t *testing.T, h *Host) {
		c := helper("daemon", "marked", "wait")
		c.Marker = "PROC_TEST=a"
		s := enter(t, h, c)
		s.hear(t)
		h.Close()
		select {
		case <-s.Done():
		default:
			t.Error("Close returned before the process was done")
		}
		assert.Equal(t, syscall.SIGKILL, s.Wait().Signal)
		s.assertGone(t)
		_, err := h.Start(helper("exit", "0"))
		require.ErrorIs(t, err, ErrClosed)
		h.Close()
		h.Isolation() // starts nothing
	})
}

// TestSettle: work that was held when the Host was closed is waited for, and none begins later.
func TestSettle(t *testing.T) {
	h := NewHost()
	require.NoError(t, h.Hold())
	h.Close()
	require.ErrorIs(t, h.Hold(), ErrClosed)
	assert.False(t, h.Settle(time.Millisecond))
	h.Release()
	assert.True(t, h.Settle(time.Minute))
}

// TestMarkerMakesNoKeeper: neither the environment nor the marker of a command makes the program a keeper.
func TestMarkerMakesNoKeeper(t *testing.T) {
	h := NewHost()
	defer h.Close()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	p, err := h.Start(Command{
		Path: "/usr/bin/env", Env: []string{keepVar + "=1", "A=1"}, Marker: keepVar + "=2", Stdout: w,
	})
	require.NoError(t, err)
	require.NoError(t, w.Close())
	p.Wait()
	said, err := io.ReadAll(r)
	require.NoError(t, err)
	assert.Equal(t, "A=1\n", string(said))
}
