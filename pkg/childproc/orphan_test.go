package childproc

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// orphanVar makes the test binary a child that can neither end its task nor what it has started.
const orphanVar = "CHILDPROC_TEST_ORPHAN"

type stuck struct{}

func (stuck) Run(context.Context, *Start, task.Job, supervisor.Parent) task.Result { select {} }
func (stuck) Abandon()                                                             { select {} }

func playOrphan() int {
	orphanLimit = 200 * time.Millisecond
	c := newConn(os.NewFile(downFD, "down"), os.NewFile(upFD, "up"))
	_, err := c.Serve("test", strings.NewReader("text"), os.Stdout, stuck{})
	fmt.Println(err)
	return 3
}

// TestStuckOrphan: a child whose root is gone exits, even if it cannot end what it has started.
func TestStuckOrphan(t *testing.T) {
	down, downW, err := os.Pipe()
	require.NoError(t, err)
	upR, up, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.ExtraFiles = append(os.Environ(), orphanVar+"=1"), []*os.File{down, up}
	require.NoError(t, cmd.Start())
	down.Close()
	up.Close()
	root := newConn(upR, downW)
	require.NoError(t, root.send(Frame{Type: TypeStart, Start: &Start{Protocol: Version}}))
	hello, err := newReader(upR, MaxDown).next()
	require.NoError(t, err)
	assert.Equal(t, TypeHello, hello.Type)
	downW.Close()
	upR.Close()
	late := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	_ = cmd.Wait()
	assert.Equal(t, 1, cmd.ProcessState.ExitCode(), cmd.ProcessState)
}
