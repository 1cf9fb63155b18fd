package alive

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestIdentity(t *testing.T) {
	own := Identity(os.Getpid())
	assert.Len(t, strings.Fields(own), 2)
	assert.Equal(t, own, Identity(os.Getpid()))
	assert.NotEqual(t, own, Identity(os.Getppid()))
	assert.Empty(t, Identity(0))
	assert.Empty(t, Identity(1<<30))

	// The system tells the name as it is.
	odd := filepath.Join(t.TempDir(), "x) Z 1 (")
	require.NoError(t, os.Symlink(os.Args[0], odd))
	cmd := exec.Command(odd, "a")
	cmd.Env = append(os.Environ(), holdEnv+"="+t.TempDir())
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	one := strings.Fields(Identity(cmd.Process.Pid))
	require.Len(t, one, 2)
	assert.Equal(t, strings.Fields(own)[0], one[0])
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())

	// One that has ended and that nobody has waited for.
	cmd = exec.Command(os.Args[0], "-test.run=^$")
	require.NoError(t, cmd.Start())
	require.NoError(t, unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil))
	assert.Empty(t, Identity(cmd.Process.Pid))
	require.NoError(t, cmd.Wait())
}
