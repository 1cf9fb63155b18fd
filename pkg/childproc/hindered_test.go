package childproc

import (
	"context"
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/task"
)

// unprepared is a Program whose jobs cannot be prepared.
type unprepared struct {
	*testConfig
	err error
}

func (p unprepared) Prepare(context.Context, task.Job) (Start, error) { return Start{}, p.err }

// TestHindered tells what the machine did not allow from what is wrong with a task or a setting.
func TestHindered(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*testConfig)
		agent    string
		status   task.Status
		hindered bool
	}{
		"no working directory": {func(c *testConfig) { c.Dir = "/nowhere" }, "echo", task.Unavailable, true},
		"no folder for its files": {func(c *testConfig) { c.dir = filepath.Join(c.dir, "gone") }, "echo",
			task.Unavailable, true},
		"no program":                     {func(c *testConfig) { c.Path = "/nowhere" }, "echo", task.Failed, false},
		"it dies before it could begin":  {nil, "mute", task.NoResult, true},
		"it dies after that":             {nil, "no-result", task.NoResult, false},
		"it cannot be prepared":          {prepare(errors.New("no")), "echo", task.Failed, false},
		"it is configured in a bad way":  {prepare(&task.Error{Status: task.Misused}), "echo", task.Misused, false},
		"there is no room to prepare it": {prepare(syscall.ENOSPC), "echo", task.Failed, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := launcher(t, c.change).Launch(t.Context(), job(c.agent, "hello"))
			assert.Equal(t, c.status, r.Status, r.Err())
			assert.Equal(t, c.hindered, r.Hindered)
		})
	}
}

func prepare(err error) func(*testConfig) {
	return func(c *testConfig) { c.Program = unprepared{c, err} }
}

// TestRelief: a job that cannot be started ends the staged children of others, which are started again
// when their turn comes.
func TestRelief(t *testing.T) {
	l := launcher(t, nil)
	waits := l.Stage(job("echo", "hello"))
	require.NotNil(t, waits)
	first := waits.proc
	l.Launcher.cfg.Dir = "/nowhere"
	r := l.Launch(t.Context(), job("mute", "hello"))
	assert.True(t, r.Hindered)
	<-first.Done()
	assert.Zero(t, l.children.Load())
	l.Launcher.cfg.Dir = ""
	r = waits.Launch(t.Context(), job("echo", "hello"))
	assert.Equal(t, task.Completed, r.Status, r.Err())
	waits.Discard() // is no harm
}
