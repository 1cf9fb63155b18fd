package sandbox

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// serve makes servers of the viewer in dir: stream and datagrams.
func (v viewer) serve(t *testing.T, dir string) {
	stream, err := net.Listen("unix", filepath.Join(dir, "stream socket")) // a name with a space
	require.NoError(t, err)
	t.Cleanup(func() { stream.Close() })
	datagrams, err := net.ListenPacket("unixgram", filepath.Join(dir, "datagrams"))
	require.NoError(t, err)
	t.Cleanup(func() { datagrams.Close() })
	for _, name := range []string{"stream socket", "datagrams"} {
		require.NoError(t, os.Chmod(filepath.Join(dir, name), 0o777))
	}
}

// reach is a text for a shell that reaches for the servers in dir and says which it reached.
func (v viewer) reach(t *testing.T, dir string) string {
	exe := filepath.Join(v.folder(t), "exe")
	require.NoError(t, os.Link(self(), exe))
	played.Store("dial", true)
	played.Store("datagram", true)
	return roleEnv + "=dial " + exe + " '" + dir + "/stream socket' 2>/dev/null && echo stream; " +
		roleEnv + "=datagram " + exe + " " + dir + "/datagrams 2>/dev/null && echo datagrams; true"
}

// TestViewHidesServers: a program with a view reaches no server by a UNIX socket, but for those in its own folders and
// those that are named. It can have servers of its own.
func TestViewHidesServers(t *testing.T) {
	needs(t, abiTruncate)
	const both = "stream\ndatagrams\n"
	for _, v := range viewers(t) {
		t.Run(v.name, func(t *testing.T) {
			work, other := v.folder(t), v.folder(t)
			v.serve(t, work)
			v.serve(t, other)
			link := filepath.Join(v.folder(t), "link")
			require.NoError(t, os.Symlink(other, link))
			o := Order{Rules: Rules{Write: []string{work}}, View: &View{}}
			for _, dir := range []string{other, link} {
				out, ok := v.run(t, work, o, v.reach(t, dir))
				assert.True(t, ok)
				assert.Empty(t, out)
			}
			out, _ := v.run(t, work, o, v.reach(t, work))
			assert.Equal(t, both, out, "its own folder")
			o.View.Sockets = []string{other}
			out, _ = v.run(t, work, o, v.reach(t, other))
			assert.Equal(t, both, out, "named")
			o.View = &View{Empty: []string{other + "/datagrams", other + "/gone"}, Sockets: []string{other}}
			out, _ = v.run(t, work, o, v.reach(t, other))
			assert.Equal(t, "stream\n", out, "a socket that is hidden by its name")
		})
	}
}

// TestNoSockets: a program that should have a view and gets none reaches no server at all.
func TestNoSockets(t *testing.T) {
	needs(t, abiTruncate)
	if !Probe().Filter {
		t.Skip("this system has no filter")
	}
	for _, v := range viewers(t) {
		dir := v.folder(t)
		v.serve(t, dir)
		for _, c := range []struct {
			order Order
			want  string
		}{
			{Order{NoSockets: true}, ""},
			{Order{NoSockets: true, View: &View{}}, ""}, // which it may not make
			{Order{}, "stream\ndatagrams\n"},
		} {
			c.order.Rules.Write = []string{dir}
			if v.uid == 0 && c.order.View != nil {
				continue // root may
			}
			cmd, _ := v.command(t, dir, c.order, v.reach(t, dir))
			cmd.SysProcAttr.AmbientCaps = nil
			out, err := cmd.CombinedOutput()
			if exit := (*exec.ExitError)(nil); err != nil && !assert.ErrorAs(t, err, &exit) {
				t.Skip(err)
			}
			assert.Equal(t, c.want, string(out), v.name)
		}
	}
}

func TestServes(t *testing.T) {
	for line, want := range map[string]string{
		"Num       RefCount Protocol Flags    Type St Inode Path":                            "",
		"0000000027d42e9f: 00000003 00000000 00000000 0001 03  1523":                         "",
		"000000008a19c6c4: 00000002 00000000 00010000 0001 01 73225 /tmp/tmux-0/a b":         "/tmp/tmux-0/a b",
		"000000008a19c6c4: 00000003 00000000 00000000 0001 03 73226 /tmp/tmux-0/default":     "",
		"000000008a19c6c4: 00000002 00000000 00000000 0002 01 73225 /run/systemd/notify":     "/run/systemd/notify",
		"000000008a19c6c4: 00000002 00000000 00010000 0001 01 73225 @/tmp/.X11-unix/X0":      "",
		"000000008a19c6c4: 00000002 00000000 00010000 0001 01 73225 relative/name":           "",
		"000000008a19c6c4: 00000002 00000000 0001000g 0001 01 73225 /x":                      "",
		"000000008a19c6c4: 00000002 00000000 00010000 0005 01 73225 /run/udev/control":       "/run/udev/control",
		"000000008a19c6c4: 00000002 00000000 00010000 0001 01 73225 1 /run/udev/control two": "",
	} {
		got, ok := serves(line)
		assert.Equal(t, want != "", ok, line)
		if ok {
			assert.Equal(t, want, got)
		}
	}
}
