package isolate

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"qq/internal/isolate/files"
	"qq/internal/sandbox"
	"qq/pkg/proc"
	"qq/pkg/task"
)

// roleEnv names the part that the test binary plays in a process of its own.
const roleEnv = "ISOLATE_TEST_ROLE"

func TestMain(m *testing.M) {
	sandbox.Exec(os.Environ())
	switch os.Getenv(roleEnv) {
	case "write":
		play(writer(os.Args[1]))
	case "session":
		play(session(os.Args[1], os.Args[2]))
	}
	code := m.Run()
	host.Close()
	if templated != "" {
		_ = os.RemoveAll(templated)
	}
	os.Exit(code)
}

// host starts all processes of a test binary.
var host = proc.NewHost()

var templated string

// template returns a folder with what the script repository makes.
var template = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "isolate")
	if err != nil {
		panic(err)
	}
	templated = dir
	if out, err := output(proc.Command{Path: "/bin/sh", Args: []string{"sh", "-ec", repository}, Dir: dir,
		Env: gitEnv(dir)}); err != nil {
		panic(err.Error() + out)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		panic(err)
	}
	return dir
})

func play(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func self() string {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return exe
}

// yard is a tree with copies, for a test.
type yard struct {
	testing.TB
	*Tree
	host *proc.Host
	top  string // with all folders
}

// newYard returns a tree with the files that a script makes.
func newYard(t testing.TB, script string) *yard {
	y := &yard{TB: t, host: host, top: t.TempDir()}
	t.Cleanup(func() { _ = files.RemoveAll(y.top) }) // also what a task made unreadable
	require.NoError(t, os.Mkdir(y.path("tree"), 0o755))
	rest, isRepository := strings.CutPrefix(script, repository)
	if isRepository {
		y.shell(".", "cp -a "+template()+"/. tree")
	}
	y.shell("tree", rest)
	var err error
	y.Tree, err = Open(y.config())
	require.NoError(t, err)
	t.Cleanup(func() { // a test may have closed it
		require.NoError(t, y.Close())
		y.clean()
	})
	return y
}

func (y *yard) config() Config {
	return Config{Dir: y.path("tree"), State: y.path("state"), Patches: y.path("patches"), Host: y.host, Exe: self(),
		Env: gitEnv(y.top)}
}

func gitEnv(home string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a",
		"GIT_AUTHOR_EMAIL=a@localhost", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@localhost"}
}

// clean asserts that nothing is left of copies: no folder, worktree, branch, mount or temporary file.
func (y *yard) clean() {
	entries, err := os.ReadDir(y.path("state"))
	require.NoError(y, err)
	for _, e := range entries {
		require.False(y, e.IsDir() || strings.HasPrefix(e.Name(), "tree-"), "%s is left", e.Name())
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(y, err)
	require.NotContains(y, string(mounts), y.top)
	require.NoError(y, filepath.WalkDir(y.path("tree"), func(path string, _ fs.DirEntry, _ error) error {
		require.NotContains(y, path, files.TempPrefix)
		return nil
	}))
	if _, err := os.Stat(y.path("tree/.git")); err == nil {
		require.NoDirExists(y, y.path("tree/.git/worktrees"))
		require.Len(y, strings.Fields(y.shell("tree", "git branch --format='%(refname)'; true")), 1)
	}
}

func (y *yard) path(name string) string { return filepath.Join(y.top, name) }

func (y *yard) sh(script string) proc.Command {
	return proc.Command{Path: "/bin/sh", Args: []string{"sh", "-ec", script}, Env: gitEnv(y.top)}
}

// shell runs a script in a folder, not in a copy.
func (y *yard) shell(dir, script string) string {
	cmd := y.sh(script)
	cmd.Dir = y.path(dir)
	out, err := output(cmd)
	require.NoError(y, err, "%s\n%s", script, out)
	return out
}

// run runs a script in a copy.
func (y *yard) run(c *Copy, script string) string {
	cmd := y.sh(script)
	cmd.Dir = c.Dir
	require.NoError(y, c.Enter(&cmd))
	out, err := output(cmd)
	require.NoError(y, err, script)
	return out
}

// output runs a command and returns what it writes.
func output(cmd proc.Command) (string, error) {
	out, err := os.CreateTemp("", "")
	if err != nil {
		return "", err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	cmd.Stdout, cmd.Stderr, cmd.Grace = out, out, time.Second
	cmd.Marker = "QQ_COMMAND_ID_TEST=" + task.NewID()
	p, err := host.Start(cmd)
	if err != nil {
		return "", err
	}
	exit := p.Wait()
	text, err := os.ReadFile(out.Name())
	if exit.Code != 0 {
		err = fmt.Errorf("exit %d, %v: %s", exit.Code, exit.Signal, text)
	}
	return string(text), err
}

func (y *yard) make(mode Mode) *Copy {
	y.Helper()
	made++
	c, err := y.Make(context.Background(), fmt.Sprintf("t%d", made), mode)
	require.NoError(y, err)
	require.Equal(y, mode, c.Mode)
	return c
}

var made int

func (y *yard) patch(c *Copy) *Patch {
	y.Helper()
	p, err := c.Patch(context.Background())
	require.NoError(y, err)
	return p
}

func (y *yard) join(patches ...*Patch) []Outcome {
	y.Helper()
	out, err := y.Join(context.Background(), patches...)
	require.NoError(y, err)
	return out
}

// sum lists all that is in a folder: types, permissions, times if asked for, and content.
func sum(t testing.TB, dir string, times bool) string {
	var b strings.Builder
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if d.Name() == ".git" && !times || rel == ".git/worktrees" { // see clean
			return fs.SkipDir
		}
		fmt.Fprintf(&b, "%q %v ", rel, info.Mode())
		if times && !d.IsDir() {
			fmt.Fprint(&b, info.ModTime().UnixNano())
		}
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%x", sha256.Sum256(data))
		case info.Mode().Type() == fs.ModeSymlink:
			target, _ := os.Readlink(path)
			fmt.Fprintf(&b, "%q", target)
		}
		b.WriteByte('\n')
		return nil
	}))
	return b.String()
}

// modes runs a test with each mode that works here.
func modes(t *testing.T, test func(t *testing.T, mode Mode)) {
	for _, mode := range []Mode{Overlay, Worktree} {
		t.Run(string(mode), func(t *testing.T) {
			y := newYard(t, repository)
			c, err := y.Make(context.Background(), "probe", mode)
			if err != nil {
				t.Skip(err)
			}
			require.NoError(t, c.Remove())
			test(t, mode)
		})
	}
}

// repository is a script that makes a tree which git tracks.
const repository = `git init -q -b main .
mkdir -p src/deep empty2
printf 'one\ntwo\nthree\nfour\nfive\nsix\nseven\n' > src/a
printf 'b\n' > src/deep/b
printf 'x\0y' > bin
chmod +x src/deep/b
ln -s src/a link
printf 'out/\n*.log\n' > .gitignore
git add -A
git commit -qm first
mkdir -p out
printf 'ignored\n' > out/kept
printf 'dirty\n' >> bin
printf 'new\n' > untracked
`
