package agent

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/event"
	"qq/pkg/supervisor"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// TestHasChanged: what commands did is seen in the folder, whatever it is, but for .git and what .gitignore excludes.
func TestHasChanged(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(dir string) error
		want bool
	}{
		"nothing": {func(string) error { return nil }, false},
		"a read":  {func(dir string) error { _, err := os.ReadFile(dir + "/a"); return err }, false},
		"a write": {func(dir string) error { return os.WriteFile(dir+"/sub/b", []byte("other"), 0o600) }, true},
		"of the same length": {func(dir string) error {
			later := time.Now().Add(time.Hour)
			return errors.Join(os.WriteFile(dir+"/a", []byte("2"), 0o600), os.Chtimes(dir+"/a", later, later))
		}, true},
		"a touch": {func(dir string) error {
			later := time.Now().Add(time.Hour)
			return errors.Join(os.WriteFile(dir+"/sub/b", []byte("b"), 0o600), os.Chtimes(dir+"/a", later, later))
		}, false},
		"a new file": {func(dir string) error { return os.WriteFile(dir+"/new", nil, 0o600) }, true},
		"a removal":  {func(dir string) error { return os.Remove(dir + "/sub/b") }, true},
		"a move":     {func(dir string) error { return os.Rename(dir+"/sub/b", dir+"/sub/c") }, true},
		"a mode":     {func(dir string) error { return os.Chmod(dir+"/a", 0o700) }, true},
		"the index":  {func(dir string) error { return os.WriteFile(dir+"/.git/index", []byte("x"), 0o600) }, false},
		"a build":    {func(dir string) error { return os.WriteFile(dir+"/out.o", []byte("x"), 0o600) }, false},
	} {
		dir := t.TempDir()
		for file, text := range map[string]string{"a": "1", "sub/b": "b", ".git/index": "", ".gitignore": "*.o\n"} {
			path := filepath.Join(dir, file)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		}
		root, err := os.OpenRoot(dir)
		require.NoError(t, err)
		r := &run{root: root, deeds: &deeds{}, job: task.Job{Task: task.Task{RequireChange: true}}}
		v, err := r.verifier(t.Context())
		require.NoError(t, err)
		require.NoError(t, c.do(dir))
		assert.False(t, v.hasChanged(t.Context()), "no command ran: another task did that")
		r.deeds.Ran(tool.Spec{Effect: tool.Executes}, tool.Call{}, tool.Result{})
		assert.Equal(t, c.want, v.hasChanged(t.Context()), name)
		root.Close()
	}
	r := &run{deeds: &deeds{}, job: task.Job{Task: task.Task{RequireChange: true}}}
	r.Setup.ReadOnly = true
	v, err := r.verifier(t.Context())
	require.NoError(t, err)
	assert.Nil(t, v, "who may only read is exempt")
}

// watched is a parent that records side effects and keeps the events.
type watched struct {
	supervisor.Parent
	err     error
	effects int
	events  []event.Event
}

func (w *watched) Active()            {}
func (w *watched) Emit(e event.Event) { w.events = append(w.events, e) }
func (w *watched) Effects() error {
	w.effects++
	return w.err
}

// command is a tool that runs commands, in name only.
type command struct {
	result tool.Result
	ran    int
}

func (*command) Spec() tool.Spec { return tool.Spec{Name: shellTool, Effect: tool.Executes} }
func (c *command) Run(context.Context, json.RawMessage) tool.Result {
	c.ran++
	return c.result
}

// TestCheck: what a check says, and that its side effects are recorded before it runs.
func TestCheck(t *testing.T) {
	ran := func(code int, content string) tool.Result {
		return tool.Result{Content: content, Ran: &tool.Command{Line: "make test", ExitCode: code}}
	}
	for name, c := range map[string]struct {
		result   tool.Result
		effects  error
		problem  string
		mendable bool
	}{
		"right": {ran(0, "ok\n[exit code 0]"), nil, "", false},
		"wrong": {ran(2, "a\n\n  b  c\n[exit code 2]"), nil,
			"the check `make test` failed with exit code 2; it printed: a | b c", true},
		"silent": {ran(1, "[no output]\n[exit code 1]"), nil,
			"the check `make test` failed with exit code 1 and printed nothing", true},
		"stopped": {ran(124, "x\n[timed out]"), nil,
			"the check `make test` failed with exit code 124; it printed: x", true},
		"not run": {tool.Failure("Error: no shell"), nil,
			"the check `make test` could not be run: Error: no shell", false},
		"no disk": {ran(0, ""), errors.New("disk full"), "the check was not run: disk full", false},
	} {
		up, cmd := &watched{err: c.effects}, &command{result: c.result}
		r := &run{parent: up, deeds: &deeds{}, commands: tool.Set{cmd}}
		r.job.Check = "make test"
		v, err := r.verifier(t.Context())
		require.NoError(t, err)
		fault := v.Verify(t.Context())
		assert.Equal(t, 1, up.effects, name)
		if c.effects != nil {
			assert.Zero(t, cmd.ran, name)
		}
		if c.problem == "" {
			assert.Nil(t, fault, name)
			continue
		}
		require.NotNil(t, fault, name)
		assert.Equal(t, c.problem, fault.Problem, name)
		assert.Equal(t, c.mendable, fault.Message != "", name)
		if c.mendable {
			assert.Contains(t, fault.Message, c.result.Content, name)
			assert.Len(t, up.events, 2, name)
			assert.True(t, up.events[1].Failed, name)
			did := r.deeds.did.Commands[0]
			assert.Contains(t, c.result.Content, did.Output, "%s: in lines", name)
			assert.Equal(t, name == "silent", did.Output == "", name)
			did.Output = ""
			assert.Equal(t, task.Command{Line: "make test", ExitCode: c.result.Ran.ExitCode, Check: true}, did, name)
		}
	}
}

// TestLongCheck: what a check prints is bounded, for the agent and in the error.
func TestLongCheck(t *testing.T) {
	long := "first\n" + strings.Repeat("ä line\n", 100_000) + "last\n[exit code 1]"
	text := excerpt(long)
	assert.Less(t, len([]rune(text)), maxReport+100)
	assert.True(t, strings.HasPrefix(text, "first\n") && strings.HasSuffix(text, "last\n[exit code 1]"))
	assert.Contains(t, text, "characters are left out here]")
	tail := tailOf(long)
	assert.Len(t, []rune(tail), maxTail+3)
	assert.True(t, strings.HasSuffix(tail, "| last"))
}
