package sandbox

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// nobody is an ordinary user.
const nobody = 65534

// viewer is who runs a program in a view: root, or an ordinary user in a user namespace.
type viewer struct {
	name string
	uid  int
}

// viewers are those of this machine.
func viewers(t *testing.T) []viewer {
	if os.Getuid() == 0 {
		return []viewer{{"root", 0}, {"user", nobody}}
	}
	return []viewer{{"user", os.Getuid()}}
}

// folder is a folder of the viewer that it may enter.
func (v viewer) folder(t *testing.T) string {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	require.NoError(t, os.Chown(dir, v.uid, v.uid))
	return dir
}

// plant writes files of the viewer into dir. A name that ends in a slash is a folder.
func (v viewer) plant(t *testing.T, dir string, names ...string) {
	for _, name := range names {
		path := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			require.NoError(t, os.MkdirAll(path, 0o755))
		} else {
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.WriteFile(path, []byte("old\n"), 0o644))
		}
		for at := path; len(at) > len(dir); at = filepath.Dir(at) {
			require.NoError(t, os.Chown(at, v.uid, v.uid))
		}
	}
}

// command runs text in dir as o says. reported returns what the report says, after the end.
func (v viewer) command(t *testing.T, dir string, o Order, text string) (cmd *exec.Cmd, reported func() string) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	o.Path, o.Report = "/bin/sh", 3
	exe := self()
	if v.uid != os.Getuid() { // the folder of the test binary is closed to others
		exe = filepath.Join(v.folder(t), "exe")
		require.NoError(t, os.Link(self(), exe))
	}
	path, args, entry := Wrap(exe, o, []string{"sh", "-c", text})
	cmd = &exec.Cmd{Path: path, Args: args, Env: append(env(""), entry), Dir: dir, ExtraFiles: []*os.File{w}}
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if v.uid != 0 {
		id := []syscall.SysProcIDMap{{ContainerID: v.uid, HostID: v.uid, Size: 1}}
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWPID,
			UidMappings: id, GidMappings: id, AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN}}
		if v.uid != os.Getuid() {
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(v.uid), Gid: uint32(v.uid), NoSetGroups: true}
		}
	}
	return cmd, func() string {
		w.Close()
		line, err := bufio.NewReader(r).ReadString('\n')
		if err != io.EOF {
			require.NoError(t, err)
		}
		return strings.TrimSpace(line)
	}
}

// run runs text and returns what it said, and whether it succeeded. The view must be in force.
func (v viewer) run(t *testing.T, dir string, o Order, text string) (string, bool) {
	t.Helper()
	cmd, reported := v.command(t, dir, o, text)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Skipf("this system has no user namespaces: %v", err)
	}
	require.Equal(t, Viewed, reported(), "%s", out)
	return string(out), err == nil
}

func TestView(t *testing.T) {
	needs(t, abiTruncate)
	for _, v := range viewers(t) {
		t.Run(v.name, func(t *testing.T) {
			work, home := v.folder(t), v.folder(t)
			v.plant(t, work, ".git/config", ".git/hooks/", ".env", "lib/deep/.git/config", "src/a", "made/")
			v.plant(t, home, "ledger/journal", "outputs/mine.txt", "outputs/other.txt", "run/tmp/", "outside")
			at := func(names ...string) (paths []string) {
				for _, n := range names {
					paths = append(paths, filepath.Join(work, n))
				}
				return paths
			}
			o := Order{Rules: Rules{Write: []string{work, home + "/run/tmp"}}, View: &View{
				ReadOnly: at(".git", ".env", "lib/deep/.git", "gone"), Fixed: at("lib", "lib/deep"),
				Empty: []string{home, home + "-gone"}, Show: []string{home + "/outputs/mine.txt"},
			}}
			for _, c := range [][2]string{
				{"echo x > src/a && echo x > new && mkdir d && mv src lib/ && mv lib/src . && chmod 700 src", ""},
				{"cat .git/config .env lib/deep/.git/config", "old\nold\nold\n"},
				{"echo x > $HOME_DIR/run/tmp/x && cat $HOME_DIR/run/tmp/x", "x\n"},
				{"cat $HOME_DIR/outputs/mine.txt && ls $HOME_DIR $HOME_DIR/outputs | tr '\\n' ' '",
					"old\n" + home + ": outputs run  " + home + "/outputs: mine.txt "},
				{"pwd && cat $PWD/src/a", work + "\nx\n"},
				{"(cd /; ls) > listing && echo x > /dev/null && test -s listing", ""},
			} {
				text, want := c[0], c[1]
				out, ok := v.run(t, work, o, "HOME_DIR="+home+"; "+text)
				assert.True(t, ok, "%s: %s", text, out)
				assert.Equal(t, want, out, text)
			}
			for _, text := range []string{
				"echo x > .git/config", "echo x > .git/hooks/pre-commit", "mkdir .git/new", "rm .git/config",
				"rm -r .git",
				"mv .git away", "mv lib away", "mv lib/deep away", "echo x > lib/deep/.git/config", "echo x > .env",
				"mv new .env", "rm .env", "chmod 777 .env", "touch -d 2001-01-01 .git/config", "ln .env hard",
				"chmod 777 $HOME_DIR-outside", "cat $HOME_DIR/ledger/journal", "cat $HOME_DIR/outputs/other.txt",
				"echo x > $HOME_DIR/outputs/mine.txt", "umount .git", "mount -o remount,rw .git", "umount $HOME_DIR",
				"mount -t tmpfs x .git", "unshare -Ur umount .git", "unshare -Urm mount -o remount,bind,rw .git",
			} {
				v.plant(t, filepath.Dir(home), filepath.Base(home)+"-outside")
				before := state(t, work, home, home+"-outside")
				out, ok := v.run(t, work, o, "HOME_DIR="+home+"; "+text)
				assert.False(t, ok, "%s: %s", text, out)
				assert.Subset(t, state(t, work, home, home+"-outside"), before, text)
			}
			out, ok := v.run(t, work, Order{Rules: Rules{Write: []string{"/"}}, View: o.View},
				"echo x > /tmp/qq-view-$$ && rm /tmp/qq-view-$$ && ! echo x > .env")
			assert.True(t, ok, out)
			readonly, ok := v.run(t, work, Order{View: &View{}}, "ls -A | grep -c git; echo x > src/a")
			assert.False(t, ok)
			assert.True(t, strings.HasPrefix(readonly, "1\n"), readonly)
		})
	}
}

// state names the files below paths, with mode, time and content.
func state(t *testing.T, paths ...string) (lines []string) {
	for _, root := range paths {
		require.NoError(t, filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
			if err == nil && info.Mode().IsRegular() {
				text, err := os.ReadFile(path)
				lines = append(lines, fmt.Sprintf("%s %v %v %q", path, info.Mode(), info.ModTime(), text))
				return err
			}
			lines = append(lines, path)
			return err
		}))
	}
	return lines
}

// TestViewRefused: whoever cannot mount is told so, and the program sees all.
func TestViewRefused(t *testing.T) {
	needs(t, abiTruncate)
	v := viewers(t)[len(viewers(t))-1]
	dir := v.folder(t)
	cmd, reported := v.command(t, dir, Order{View: &View{}}, "echo ran")
	cmd.SysProcAttr.AmbientCaps = nil
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Skip(err)
	}
	require.NoError(t, err)
	assert.Equal(t, "make namespaces: operation not permitted", reported())
	assert.Equal(t, "ran\n", string(out))

	cmd, reported = v.command(t, dir, Order{View: &View{}, Mountable: true}, "echo ran")
	cmd.SysProcAttr.AmbientCaps = nil
	out, err = cmd.CombinedOutput()
	assert.Error(t, err, "others may mount")
	assert.Equal(t, "qq: sandbox: give the command its view of the files: make namespaces: operation not permitted\n",
		string(out))
	assert.Empty(t, reported())
}

// TestViewHasItsOwnIPC: a program with a view does not see System V IPC of others.
func TestViewHasItsOwnIPC(t *testing.T) {
	needs(t, abiTruncate)
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o666)
	require.NoError(t, err)
	defer unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	count := "tail -n +2 /proc/sysvipc/shm | wc -l"
	assert.NotEqual(t, "0\n", succeeds(t, script(wrapped, Rules{}, count)))
	for _, v := range viewers(t) {
		out, _ := v.run(t, v.folder(t), Order{View: &View{}}, count)
		assert.Equal(t, "0\n", out, v.name)
	}
}

func TestLimits(t *testing.T) {
	needs(t, abiTruncate)
	for _, v := range viewers(t) {
		dir := v.folder(t)
		o := Order{Rules: Rules{Write: []string{dir}}, View: &View{}, FileSize: 1 << 20, Processes: 50}
		out, ok := v.run(t, dir, o, "head -c 1048576 /dev/zero > f && ! head -c 1048577 /dev/zero > g; "+
			"ulimit -f unlimited && echo raised")
		assert.False(t, ok, out)
		assert.NotContains(t, out, "raised")
		info, err := os.Stat(dir + "/g")
		require.NoError(t, err)
		assert.EqualValues(t, 1<<20, info.Size(), v.name)
		out, ok = v.run(t, dir, o, "for i in $(seq 60); do sleep 0.2 & done; echo all; wait")
		all := ok && strings.HasPrefix(out, "all\n")
		assert.Equal(t, v.uid == 0, all, "%s: root has no such limit: %s", v.name, out)
	}
}
