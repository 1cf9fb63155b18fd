package remote

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"qq/internal/box"
	"qq/internal/sandbox"
	"qq/pkg/proc"
)

func TestMain(m *testing.M) {
	sandbox.Exec(os.Environ()) // the test binary starts commands in the sandbox
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// yard is a Box with a working directory.
type yard struct {
	*box.Box
	t testing.TB
}

// newYard makes a Box. Where the kernel has no sandbox, the test is skipped.
func newYard(t testing.TB, change ...func(*box.Config)) *yard {
	t.Helper()
	if !sandbox.Probe().Enforced() {
		t.Skip("this system has no sandbox:", sandbox.Probe())
	}
	exe, err := os.Executable()
	require.NoError(t, err)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	cfg := box.Config{Host: proc.NewHost(), Exe: exe, Dir: dir, Rules: sandbox.Rules{Write: []string{dir}},
		Confined: true, Mounts: true, Namespace: true}
	t.Cleanup(cfg.Host.Close)
	for _, f := range change {
		f(&cfg)
	}
	return &yard{box.New(cfg), t}
}

// serveTo serves the commands of a child of y, and returns what the child starts them with. When the test ends, all
// of them have ended.
func (y *yard) serveTo() (*Client, *Children) {
	y.t.Helper()
	var c Children
	f, err := c.Open("id")
	require.NoError(y.t, err)
	r, err := New(f)
	require.NoError(y.t, err)
	require.True(y.t, c.Serve("id", y.Box))
	y.t.Cleanup(func() { r.conn.Close(); c.Close("id") })
	return r, &c
}

// read returns the content of a file in the working directory, "gone" if there is none.
func (y *yard) read(name string) string {
	y.t.Helper()
	text, err := os.ReadFile(filepath.Join(y.Dir, name))
	if os.IsNotExist(err) {
		return "gone"
	}
	require.NoError(y.t, err)
	return string(text)
}

// shell is the command that runs text, with its output in a file.
func (y *yard) shell(text string) proc.Command {
	out, err := os.Create(filepath.Join(y.t.TempDir(), "out"))
	require.NoError(y.t, err)
	y.t.Cleanup(func() { out.Close() })
	return proc.Command{
		Path: "/bin/sh", Args: []string{"sh", "-c", text}, Dir: y.Dir, Stdout: out, Stderr: out, Grace: time.Second,
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent"},
	}
}

// run runs text to its end and returns its outcome and what it said.
func (y *yard) run(text string) (box.Outcome, string) {
	y.t.Helper()
	c := y.shell(text)
	r, err := y.Start(c, nil)
	require.NoError(y.t, err)
	o := r.Wait()
	said, err := os.ReadFile(c.Stdout.Name())
	require.NoError(y.t, err)
	return o, string(said)
}
