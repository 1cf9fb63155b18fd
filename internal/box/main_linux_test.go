package box

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"qq/internal/box/cgroup"
	"qq/internal/sandbox"
	"qq/pkg/proc"
)

func TestMain(m *testing.M) {
	sandbox.Exec(os.Environ()) // the test binary starts commands in the sandbox
	if path := os.Getenv(dialVar); path != "" {
		conn, err := net.Dial("unix", path)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		conn.Close()
		os.Exit(0)
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// dialVar names a socket to which the test binary connects.
const dialVar = "BOX_TEST_DIAL"

// yard is a Box with a working directory.
type yard struct {
	*Box
	t testing.TB
}

// newYard plants files and makes a Box for their folder. Where the kernel has no sandbox, the test is skipped.
func newYard(t testing.TB, files map[string]string, change ...func(*Config)) *yard {
	t.Helper()
	if !sandbox.Probe().Enforced() {
		t.Skip("this system has no sandbox:", sandbox.Probe())
	}
	exe, err := os.Executable()
	require.NoError(t, err)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	cfg := Config{Host: proc.NewHost(), Exe: exe, Dir: dir, Rules: sandbox.Rules{Write: []string{dir}}, Confined: true,
		Mounts: true, Namespace: true}
	t.Cleanup(cfg.Host.Close)
	for _, f := range change {
		f(&cfg)
	}
	y := &yard{New(cfg), t}
	for name, text := range files {
		y.write(name, text)
	}
	return y
}

// needsViews skips the test where this process cannot make views.
func (y *yard) needsViews() {
	y.t.Helper()
	if out, _ := y.run("grep -c ' ro,' /proc/self/mounts"); strings.HasPrefix(out, "0\n") {
		y.t.Skip("this system lets nobody mount")
	}
}

func (y *yard) path(name string) string { return filepath.Join(y.Dir, name) }

func (y *yard) write(name, text string) {
	y.t.Helper()
	require.NoError(y.t, os.MkdirAll(filepath.Dir(y.path(name)), 0o755))
	require.NoError(y.t, os.WriteFile(y.path(name), []byte(text), 0o644))
}

func (y *yard) read(name string) string {
	y.t.Helper()
	text, err := os.ReadFile(y.path(name))
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
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a",
			"GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"},
	}
}

// run runs text to its end and returns what it said.
func (y *yard) run(text string, show ...string) (string, Outcome) {
	y.t.Helper()
	c := y.shell(text)
	r, err := y.Start(c, show)
	require.NoError(y.t, err)
	o := r.Wait()
	said, err := os.ReadFile(c.Stdout.Name())
	require.NoError(y.t, err)
	return string(said), o
}

// names lists the names in the working directory.
func (y *yard) names() (names []string) {
	entries, err := os.ReadDir(y.Dir)
	require.NoError(y.t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// git runs git outside of the sandbox.
func (y *yard) git(args ...string) string {
	y.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", y.Dir, "-c", "user.name=a", "-c", "user.email=a@b", "-c",
		"init.defaultBranch=main"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	require.NoError(y.t, err, "%s", out)
	return string(out)
}

// withoutGroups makes this process one that cannot make cgroups.
func withoutGroups(t *testing.T) {
	was := parents
	parents = func() cgroup.Parents { return cgroup.Parents{} }
	t.Cleanup(func() { parents = was })
}

// view and noView are the two ways in which commands are kept from obeyed files.
func views(t *testing.T, test func(t *testing.T, view bool)) {
	for _, view := range []bool{true, false} {
		t.Run(map[bool]string{true: "view", false: "no view"}[view], func(t *testing.T) { test(t, view) })
	}
}

func viewed(view bool) func(*Config) { return func(c *Config) { c.Mounts = view } }

// assertOnly asserts that a folder has these names and no placeholder.
func (y *yard) assertOnly(names ...string) {
	y.t.Helper()
	assert.ElementsMatch(y.t, names, y.names())
}
