package overlayfs

import (
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

// TestSocketsAreNotInherited: a process that starts while sockets are made has none of them.
func TestSocketsAreNotInherited(t *testing.T) {
	inherited := func() int {
		out, err := exec.Command("/bin/sh", "-c", "ls -l /proc/$$/fd").Output()
		assert.NoError(t, err)
		return strings.Count(string(out), "socket:")
	}
	before := inherited()
	var all sync.WaitGroup
	var ended atomic.Bool
	for range 4 {
		all.Go(func() {
			for !ended.Load() {
				pair, err := sockets()
				if assert.NoError(t, err) {
					unix.Close(pair[0])
					unix.Close(pair[1])
				}
			}
		})
	}
	for range 50 {
		assert.Equal(t, before, inherited())
	}
	ended.Store(true)
	all.Wait()
}
