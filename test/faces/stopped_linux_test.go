package faces

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/control"
	"qq/internal/standin"
)

// TestStoppedFaces: a batch goes on without a pause, and its root keeps nothing of them, while a qq top, a qq runs watch
// and a qq serve are stopped and then killed, clients subscribe and never read, and 1,000 subscribers come and go.
func TestStoppedFaces(t *testing.T) {
	// Each begins to answer at once: a server that lets one wait would get fewer requests.
	w := newWorld(t, standin.Script{Start: "[[look]]", Text: strings.Repeat("It is there. ", 60),
		Fault: &standin.Fault{Between: time.Millisecond}},
		standin.Script{Start: "[[wait]]", Text: strings.Repeat("Not yet. ", 3000),
			Fault: &standin.Fault{Between: 100 * time.Millisecond}})
	const tasks, stuck = 40, 4
	args := []string{"batch", "-j", "5", "-a", "explorer", "--plan", "off", "-m", "{}", ":::", "[[wait]]"}
	for i := range tasks {
		args = append(args, fmt.Sprint("[[look]] ", i))
	}
	end := w.background(args...)
	var root control.Standing
	w.eventually("the run has a socket", func() bool {
		for _, root = range control.Look(w.home) {
			return root.Err == nil && root.Batch != nil
		}
		return false
	})
	pauser, err := control.Dial(root.Path)
	require.NoError(t, err)
	defer pauser.Close()
	require.NoError(t, pauser.Pause(true))
	top := w.sit(80, 24, "top")
	top.shows("paused")
	watch, served := w.face("runs", "watch", root.ID), w.face("serve")
	for range stuck {
		c, err := control.Dial(root.Path)
		require.NoError(t, err)
		defer c.Close()
		_, err = c.Subscribe(control.Subscribe{})
		require.NoError(t, err)
	}
	w.eventually("the faces have come", func() bool { return clientsOf(t, root.Path) >= stuck+4 })
	faces := []*os.Process{top.cmd.Process, watch, served}
	for _, p := range faces {
		require.NoError(t, p.Signal(syscall.SIGSTOP))
	}
	reads, err := control.Dial(root.Path)
	require.NoError(t, err)
	_, err = reads.Subscribe(control.Subscribe{})
	require.NoError(t, err)
	longest := pauses(reads)
	open := descriptors(t, root.Root.PID)
	require.NoError(t, pauser.Pause(false))

	var refused atomic.Int64
	var coming sync.WaitGroup
	const all, atOnce = 1000, 6
	for first := range atOnce {
		coming.Go(func() {
			for n := first; n < all; n += atOnce {
				c, err := control.Dial(root.Path)
				if err == nil {
					_, err = c.Subscribe(control.Subscribe{Light: n%2 == 0})
					c.Close()
				}
				var fault *control.Fault
				if errors.As(err, &fault) && fault.Code == control.CodeBusy {
					refused.Add(1)
				} else {
					assert.NoError(t, err)
				}
			}
		})
	}
	done := func() int {
		c, err := control.Dial(root.Path)
		if err != nil {
			return -1
		}
		defer c.Close()
		snap, err := c.Snapshot()
		if err != nil || snap.Batch == nil {
			return -1
		}
		return snap.Batch.Done
	}
	w.eventually("all tasks but one are done", func() bool { return done() == tasks })
	coming.Wait()
	reads.Close()
	pause := <-longest
	t.Logf("the longest pause of the root was %v", pause)
	assert.Positive(t, pause)
	assert.Less(t, pause, control.WriteTime, "an event waited for a reader")
	assert.Less(t, refused.Load(), int64(all/2))
	w.eventually("nothing is left of who has gone", func() bool { return descriptors(t, root.Root.PID) <= open+2 })
	for _, p := range faces {
		require.NoError(t, p.Kill())
	}
	w.eventually("nothing is left of who was killed", func() bool { return clientsOf(t, root.Path) <= stuck+1 })
	assert.Equal(t, tasks, done())
	end()
}

// pauses reads all events, at least ten a second. When c is closed, it tells the longest time between two of them. All
// come one after the other, and each has the time at which its turn came, so one that waits for a reader makes a pause.
func pauses(c *control.Client) <-chan time.Duration {
	told := make(chan time.Duration, 1)
	go func() {
		var last time.Time
		var longest time.Duration
		for {
			e, err := c.Next()
			if err != nil {
				told <- longest
				return
			}
			if !last.IsZero() {
				longest = max(longest, e.TS.Sub(last))
			}
			last = e.TS
		}
	}()
	return told
}

// face starts a qq without a terminal that is killed at the end.
func (w *world) face(args ...string) *os.Process {
	w.Helper()
	cmd := exec.CommandContext(w.Context(), w.bin, args...)
	cmd.Dir, cmd.Env = w.dir, w.env
	require.NoError(w, cmd.Start())
	w.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be killed already
		_ = cmd.Wait()
	})
	return cmd.Process
}

func (w *world) eventually(what string, is func() bool) {
	w.Helper()
	begun := time.Now()
	require.Eventually(w, is, 3*time.Minute, 10*time.Millisecond, what)
	w.Logf("%s after %v", what, time.Since(begun))
}

// descriptors returns how many files a process has open.
func descriptors(t *testing.T, pid int) int {
	t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	require.NoError(t, err)
	return len(list)
}

// clientsOf returns how many clients a socket has.
func clientsOf(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile("/proc/net/unix")
	require.NoError(t, err)
	return strings.Count(string(text), path[strings.LastIndexByte(path, '/'):]) - 1 // but for the one that listens
}
