package box

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/sandbox"
)

// TestSocketsOfServers: a command reaches no server by a UNIX socket, unless a person named the socket. With a view it
// can have servers of its own.
func TestSocketsOfServers(t *testing.T) {
	if !sandbox.Probe().Filter {
		t.Skip("this system has no filter")
	}
	views(t, func(t *testing.T, view bool) {
		at, err := filepath.EvalSymlinks(t.TempDir())
		require.NoError(t, err)
		for _, name := range []string{"other", "session", "named", "named too"} {
			require.NoError(t, os.MkdirAll(filepath.Join(at, name), 0o755))
			l, err := net.Listen("unix", filepath.Join(at, name, "s"))
			require.NoError(t, err)
			defer l.Close()
		}
		link := filepath.Join(at, "link")
		require.NoError(t, os.Symlink(filepath.Join(at, "named", "s"), link))
		reach := func(y *yard, name string) bool {
			exe, err := os.Executable()
			require.NoError(y.t, err)
			_, o := y.run(dialVar + "='" + filepath.Join(at, name) + "' " + exe)
			return o.Code == 0
		}
		servers := []string{filepath.Join(at, "session"), filepath.Join(at, "gone"), filepath.Join(at, "named"),
			filepath.Join(at, "named too", "s")}
		strict := newYard(t, nil, viewed(view), func(c *Config) { c.Servers = servers })
		for _, name := range []string{"other/s", "session/s", "named/s", "link"} {
			assert.False(t, reach(strict, name), name)
		}
		l, err := net.Listen("unix", strict.path("own"))
		require.NoError(t, err)
		defer l.Close()
		assert.Equal(t, view, reach(strict, "../../../"+strict.path("own")))

		y := newYard(t, nil, viewed(view), func(c *Config) {
			c.Servers, c.Writable = servers, []string{link, filepath.Join(at, "named too", "s")}
		})
		assert.True(t, reach(y, "named/s"))
		assert.True(t, reach(y, "named too/s"))
		assert.Equal(t, !view, reach(y, "other/s"), "without a view it is all or none")
	})
}

// TestServerAroundTheWork: a folder with servers does not hide the working directory.
func TestServerAroundTheWork(t *testing.T) {
	for _, write := range []bool{true, false} {
		y := newYard(t, map[string]string{"f": "old\n"}, func(c *Config) {
			c.Servers = []string{c.Dir, filepath.Dir(c.Dir)}
			if !write {
				c.Rules.Write = nil
			}
		})
		y.needsViews()
		out, _ := y.run("cat f; ls .. | wc -l")
		assert.Equal(t, "old\n1\n", out)
	}
}

func TestServers(t *testing.T) {
	env := map[string]string{"HOME": "/home/a", "XDG_RUNTIME_DIR": "/run/user/7", "TMUX_TMPDIR": "/t",
		"SSH_AUTH_SOCK": "x"}
	get := func(name string) string { return env[name] }
	got := Servers(get, 7)
	assert.Subset(t, got, []string{"/run/user/7", "/t/tmux-7", "/tmp/tmux-7", "/run/screen", "/home/a/.screen",
		"/tmp/.X11-unix", "/run/docker.sock"})
	assert.NotContains(t, got, "x")
	env["XDG_RUNTIME_DIR"], env["SSH_AUTH_SOCK"] = "/home/a/", "/"
	got = Servers(get, 7)
	assert.NotContains(t, got, "/home/a/")
	assert.NotContains(t, got, "/")
	assert.NotContains(t, Servers(func(string) string { return "" }, 7), ".screen")
}
