package alive

import (
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHolderIn(t *testing.T) {
	for _, c := range []struct {
		line string
		pid  int
	}{
		{"1: FLOCK  ADVISORY  WRITE 71 fe:00:99 0 EOF", 71},
		{"1: FLOCK  ADVISORY  READ  71 fe:00:99 0 EOF", 71},
		{"1: -> FLOCK  ADVISORY  WRITE 72 fe:00:99 0 EOF", 0}, // it waits
		{"1: POSIX  ADVISORY  WRITE 71 fe:00:99 0 EOF", 0},
		{"1: FLOCK  ADVISORY  WRITE 71 fe:00:98 0 EOF", 0},
		{"1: FLOCK  ADVISORY  WRITE -1 fe:00:99 0 EOF", -1},
		{"1: FLOCK", 0},
		{"", 0},
	} {
		assert.Equal(t, c.pid, holderIn(c.line, "fe:00:99"), c.line)
	}
}

// TestStoppedHolder: nobody waits long for a process that is stopped while it holds a lock. When it goes on, the lock
// is free again.
func TestStoppedHolder(t *testing.T) {
	d := here(t)
	h := hold(t, d, "a")
	require.NoError(t, h.Process.Signal(syscall.SIGSTOP))
	require.Eventually(t, func() bool { return stopped(h.Process.Pid) }, time.Minute, time.Millisecond)
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := d.Hold("a")
		require.ErrorAs(t, err, new(*LockedError))
		assert.Regexp(t, `/a\.lock has been locked by process \d+ \("alive.test"\), which is stopped, for 2s$`, err.Error())
		assert.Equal(t, lookTime, time.Since(start))
	})
	require.NoError(t, h.Process.Signal(syscall.SIGCONT))
	require.NoError(t, h.stdin.Close())
	k, err := d.Hold("a")
	require.NoError(t, err)
	require.NoError(t, k.Release())
}
