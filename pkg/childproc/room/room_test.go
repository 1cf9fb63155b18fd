package room

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/task"
)

// TestRoom: a child is not started when too few descriptors are left, unless it is the only one.
func TestRoom(t *testing.T) {
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	defer func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)) }()
	open, err := os.ReadDir("/dev/fd")
	require.NoError(t, err)
	few := limit
	few.Cur = uint64(len(open)) + perChild + perStart + reserve + 2
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few))
	require.NoError(t, ForChild("", 1))
	few.Cur -= 4
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few))
	err = ForChild("", 1)
	assert.True(t, task.MachineFault(err))
	assert.EqualError(t, err, fmt.Sprintf("children at once: at most 1, because this process may open only %d files\n"+
		"hint: raise `ulimit -n`", few.Cur))
	require.NoError(t, ForChild("", 0))
}

// TestRefused: the working directory of the tree went away while a child was started. That may pass, and no task is at
// fault. The folder of a single task is its own matter.
func TestRefused(t *testing.T) {
	_, err := os.Stat(t.TempDir() + "/gone")
	assert.True(t, task.MachineFault(Refused("/proc/self/exe", true, err)))
	assert.False(t, task.MachineFault(Refused("/nowhere", true, err)))
	assert.False(t, task.MachineFault(Refused("/proc/self/exe", false, err)))
	assert.False(t, task.MachineFault(Refused("/proc/self/exe", true, os.ErrPermission)))
	assert.ErrorContains(t, Refused("/nowhere", true, err), "start child: stat ")
}
