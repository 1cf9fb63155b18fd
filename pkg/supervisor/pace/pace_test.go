package pace

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// told is what a person was told.
type told []string

func (n *told) Note(format string, args ...any) { *n = append(*n, fmt.Sprintf(format, args...)) }

// ram is a machine with so much memory available.
type ram struct {
	free int64
	err  error
}

func (r *ram) Available() (int64, error) { return r.free, r.err }

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pace{Delay: 3 * time.Second}
		assert.Zero(t, p.Next(), "the first task starts at once")
		time.Sleep(time.Second)
		assert.Equal(t, 2*time.Second, p.Next())
		time.Sleep(2 * time.Second)
		assert.Zero(t, p.Next())
		assert.Equal(t, 3*time.Second, p.Next(), "the time counts from the start before")
		time.Sleep(time.Hour)
		assert.Zero(t, p.Next())
	})
}

// TestMemory: no task starts while too little is available, and a person is told so once.
func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said told
		has := &ram{free: 5 << 20}
		p := &Pace{Memory: has, Free: 10 << 20, Notes: &said}
		for range 5 {
			assert.Equal(t, poll, p.Next())
			time.Sleep(poll)
		}
		assert.Empty(t, said, "it may be over soon")
		for range 5 {
			assert.Equal(t, poll, p.Next())
			time.Sleep(poll)
		}
		assert.Equal(t, told{"5 MB of memory are available, 10 are asked for: no further task starts"}, said)
		has.free = 10 << 20
		assert.Zero(t, p.Next())
		has.free, has.err = 0, errors.New("gone")
		assert.Zero(t, p.Next(), "what is not known does not matter")
	})
}

func TestMachine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc/meminfo")
	}
	free, err := Machine{}.Available()
	require.NoError(t, err)
	assert.Greater(t, free, int64(1<<20))
}
