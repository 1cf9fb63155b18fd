package dialog

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestDrainUnderSignals: a signal, such as those with which the runtime preempts goroutines, may come at any moment of
// drain. It once read an empty pipe then, and the run hung after the answer to its question.
func TestDrainUnderSignals(t *testing.T) {
	wake, call, err := os.Pipe()
	require.NoError(t, err)
	defer wake.Close()
	defer call.Close() // ends a read that hangs
	p := &Terminal{wake: wake, call: call}
	thread, done := make(chan int), make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		thread <- unix.Gettid()
		for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
			p.rouse()
			p.drain()
		}
	}()
	pid, tid, hung := os.Getpid(), <-thread, time.After(10*time.Second)
	for {
		select {
		case <-done:
			return
		case <-hung:
			t.Fatal("drain does not return")
		default:
			_ = unix.Tgkill(pid, tid, unix.SIGURG) // the thread may have ended
		}
	}
}
