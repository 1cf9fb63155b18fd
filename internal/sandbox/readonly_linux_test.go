package sandbox

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// world is a folder with things in it that a break-out changes.
func world(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"canary": "alive\n", "other": "dead\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "empty"), 0o755))
	return dir
}

// look describes all below dir: names, contents, modes, owners, times, links.
func look(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %o %d:%d %d links %v", path, st.Mode, st.Uid, st.Gid, st.Nlink, st.Mtim)
		if d.Type().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			names := make([]byte, 256)
			n, _ := unix.Listxattr(path, names)
			fmt.Fprintf(&b, " %x %q", sha256.Sum256(text), names[:max(n, 0)])
		}
		b.WriteByte('\n')
		return nil
	}))
	return b.String()
}

// breakouts are scripts that change the folder $D when nothing holds them.
var breakouts = map[string]string{
	"redirection":         `echo x > "$D/canary"`,
	"append":              `echo x >> "$D/canary"`,
	"new file":            `echo x > "$D/new"`,
	"read and write":      `echo x 1<> "$D/canary"`,
	"truncate":            `: > "$D/canary"`,
	"truncate by path":    `truncate -s 0 "$D/canary"`,
	"shell in a shell":    `sh -c 'sh -c "echo x > $D/canary"'`,
	"relative path":       `cd "$D" && echo x > ./empty/../canary`,
	"touch":               `touch "$D/new"`,
	"touch what is there": `touch -d 2001-01-01 "$D/canary"`,
	"rm":                  `rm -f "$D/canary"`,
	"mv over":             `mv -f "$D/other" "$D/canary"`,
	"mv a folder":         `mv "$D/empty" "$D/full"`,
	"hard link":           `ln "$D/canary" "$D/link" && echo x > "$D/link"`,
	"symbolic link":       `ln -s "$D/canary" "$D/link" && echo x > "$D/link"`,
	"mkdir":               `mkdir "$D/sub"`,
	"rmdir":               `rmdir "$D/empty"`,
	"mkfifo":              `mkfifo "$D/pipe"`,
	"mknod":               `mknod "$D/null" c 1 3`,
	"cp over":             `cp "$D/other" "$D/canary"`,
	"dd":                  `dd if=/dev/zero of="$D/canary" bs=1 count=1 conv=notrunc`,
	"tee":                 `echo x | tee "$D/canary"`,
	"sed in place":        `sed -i s/alive/dead/ "$D/canary"`,
	"tar":                 `tar -C "$D" -c other --transform s/other/canary/ | tar -C "$D" -x`,
	"chmod":               `chmod 777 "$D/canary"`,
	"chown":               `chown 12345 "$D/canary"`,
	"own descriptor":      `exec 3< "$D/canary"; echo x > /proc/self/fd/3`,
	"own descriptor, dev": `exec 3< "$D/canary"; echo x > /dev/fd/3`,
	"through /proc/root":  `echo x > "/proc/self/root$D/canary"`,
	"through /proc/cwd":   `cd "$D"; echo x > /proc/self/cwd/canary`,
	"background":          `(sleep 0.1; echo x > "$D/canary") &`,
	"session of its own":  `setsid -f sh -c 'sleep 0.1; echo x > "$D/canary"'`,
	"bind mount":          `unshare -m sh -c 'mount --bind "$D" /mnt && echo x > /mnt/canary'`,
	"user namespace":      `unshare -rm sh -c 'mount --bind "$D" /mnt && echo x > /mnt/canary || echo x > "$D/canary"'`,
	"chroot": `chroot "$D/.." "/$(basename "$D")/x" 2>/dev/null; unshare -r --root=/ sh -c 'echo x > ` +
		`"$D/canary"'`,
}

func TestReadOnly(t *testing.T) {
	needs(t, abiTruncate)
	for name, text := range breakouts {
		t.Run(name, func(t *testing.T) {
			dir := world(t)
			before := look(t, dir)
			out, _ := script(free, Rules{}, text, "D="+dir).CombinedOutput()
			if look(t, dir) == before {
				held(t, out)
				t.Fatalf("the break-out does nothing even when nothing holds it: %s", out)
			}
			for _, h := range []how{applied, wrapped} {
				dir := world(t)
				before := look(t, dir)
				out, _ := script(h, Rules{}, text, "D="+dir).CombinedOutput()
				assert.Equal(t, before, look(t, dir), "%s: %s", h, out)
			}
		})
	}
}

// acts are parts of this binary that exit with code 0 when they got through. %
// is the folder.
var acts = map[string][]string{
	"root":     {"%"},
	"set":      {"%/canary"},
	"empty":    {"%/canary"},
	"flags":    {"%/canary"},
	"dial":     {"%/server"},
	"datagram": {"%/receiver"},
	"listen":   {"%/socket"},
	"detached": {"%"},
	"uring":    nil,
}

func TestReadOnlySystemCalls(t *testing.T) {
	needs(t, abiTruncate)
	for name, args := range acts {
		t.Run(name, func(t *testing.T) {
			for _, h := range []how{free, applied, wrapped} {
				dir := world(t)
				server, err := net.Listen("unix", filepath.Join(dir, "server"))
				require.NoError(t, err)
				defer server.Close()
				receiver, err := net.ListenPacket("unixgram", filepath.Join(dir, "receiver"))
				require.NoError(t, err)
				defer receiver.Close()
				before := look(t, dir)
				var filled []string
				for _, a := range args {
					filled = append(filled, strings.ReplaceAll(a, "%", dir))
				}
				out, err := role(h, Rules{}, name, filled...).CombinedOutput()
				if h == free {
					if err != nil {
						held(t, out)
					}
					require.NoError(t, err, "%s", out)
					continue
				}
				var exit *exec.ExitError
				require.ErrorAs(t, err, &exit, "%s got through: %s", h, out)
				assert.Equal(t, 1, exit.ExitCode(), "%s: %s", h, out)
				assert.Equal(t, before, look(t, dir), "%s: %s", h, out)
			}
		})
	}
}

// startVictim starts a process outside of all sandboxes that has the canary
// open. It returns what it says of itself, and ends it.
func startVictim(t *testing.T, dir string) (said string, end func() string) {
	t.Helper()
	cmd := role(free, Rules{}, "victim", filepath.Join(dir, "canary"))
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewReader(stdout)
	said, err = lines.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(said), func() string {
		stdin.Close()
		rest, err := io.ReadAll(lines)
		require.NoError(t, err)
		require.NoError(t, cmd.Wait())
		return strings.TrimSpace(string(rest))
	}
}

// TestOtherProcesses is about processes outside, which could be made to write.
func TestOtherProcesses(t *testing.T) {
	needs(t, abiScope)
	for _, name := range []string{"attach", "takeOver", "memory", "signal"} {
		t.Run(name, func(t *testing.T) {
			for _, h := range []how{free, applied, wrapped} {
				said, end := startVictim(t, world(t))
				out, err := role(h, Rules{}, name, said).CombinedOutput()
				word := end()
				through := h == free || h == applied && name == "signal" && Probe().ABI < abiThreads
				if h == free && err != nil {
					held(t, out)
				}
				if through {
					require.NoError(t, err, "%s: %s", h, out)
					continue
				}
				require.Error(t, err, "%s got through", h)
				assert.Regexp(t, "not permitted|permission denied", string(out), h)
				assert.Equal(t, "0", word, h)
			}
		})
	}
	t.Run("file of another process", func(t *testing.T) {
		for _, h := range []how{free, applied, wrapped} {
			dir := world(t)
			said, end := startVictim(t, dir)
			pid, fd, _ := place(said)
			before := look(t, dir)
			out, _ := script(h, Rules{}, fmt.Sprintf("echo x > /proc/%d/fd/%d", pid, fd)).CombinedOutput()
			end()
			if after := look(t, dir); h == free {
				require.NotEqual(t, before, after, "%s", out)
			} else {
				assert.Equal(t, before, after, "%s: %s", h, out)
			}
		}
	})
}

func TestInheritedTerminal(t *testing.T) {
	needs(t, abiDevices)
	for _, h := range []how{free, applied, wrapped} {
		for _, r := range []Rules{{}, {Write: []string{t.TempDir()}}} {
			out, err := inTerminal(t, role(h, r, "type"))
			if h == free {
				if err != nil {
					t.Skipf("this kernel lets nobody type into a terminal: %s", out)
				}
				continue
			}
			require.Error(t, err, "%s got through", h)
			assert.Contains(t, out, "not permitted", h)
		}
	}
}

// inTerminal runs cmd on a terminal and returns what stands there.
func inTerminal(t *testing.T, cmd *exec.Cmd) (string, error) {
	t.Helper()
	master, err := pty.Start(cmd)
	require.NoError(t, err)
	defer master.Close()
	out, _ := io.ReadAll(master) // ends with EIO
	return string(out), cmd.Wait()
}

// TestWhatStays is what a read-only program still needs.
func TestWhatStays(t *testing.T) {
	needs(t, abiTruncate)
	for name, text := range map[string]string{
		"null":            `echo x > /dev/null && : >> /dev/null && cat < /dev/null`,
		"null, truncated": `dd if=/dev/zero of=/dev/null bs=1 count=1`,
		"full":            `! sh -c 'echo x > /dev/full' 2>/dev/null`,
		"pipes":           `echo x | cat | grep -q x && echo y > /dev/stdout`,
		"reading":         `grep -q alive "$D/canary" && ls "$D" > /dev/null`,
		"here document":   "cat <<EOF | grep -q x\nx\nEOF",
		"own processes":   `sleep 60 & kill $! && ! wait $!`,
		"git":             `cd /; git --version > /dev/null`,
		"terminal":        `echo x > /dev/tty && stty -a < /dev/tty > /dev/null && tty > /dev/null`,
		"own terminal": `t=$(readlink /proc/$$/fd/2) && echo a > "$t" && echo b > /dev/stderr && echo c | tee ` +
			`/dev/stdout | cat > /dev/stderr`,
		"read attributes": `stat "$D/canary" > /dev/null && ls -lZ "$D" > /dev/null`,
	} {
		for _, h := range []how{free, applied, wrapped} {
			t.Run(name+"/"+string(h), func(t *testing.T) {
				out, err := inTerminal(t, script(h, Rules{}, text, "D="+world(t)))
				if h == free && err != nil {
					held(t, []byte(out))
				}
				require.NoError(t, err, out)
			})
		}
	}
}

func TestSharedMemoryIsNoPlaceToWrite(t *testing.T) {
	needs(t, abiTruncate)
	for _, h := range []how{applied, wrapped} {
		name := fmt.Sprintf("/dev/shm/sandbox-test-%d", os.Getpid())
		out, err := script(h, Rules{}, "echo x > "+name).CombinedOutput()
		require.Error(t, err, "%s", out)
		assert.NoFileExists(t, name)
	}
}

func TestApplyReachesAllThreads(t *testing.T) {
	needs(t, abiTruncate)
	dir := t.TempDir()
	succeeds(t, role(free, Rules{}, "threads", dir))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, entries)
}

func TestProcessEndsWhatItStarted(t *testing.T) {
	needs(t, abiTruncate)
	succeeds(t, role(free, Rules{}, "offspring"))
	succeeds(t, role(wrapped, Rules{}, "offspring")) // one sandbox in another
}

func TestNoNewPrivileges(t *testing.T) {
	needs(t, abiTruncate)
	require.Error(t, role(free, Rules{}, "privileges").Run())
	for _, h := range []how{applied, wrapped} {
		succeeds(t, role(h, Rules{Write: []string{t.TempDir()}}, "privileges"))
	}
}

// TestOldKernel shows why [Support.Enforced] begins where it does: with the
// rules that a kernel before ABI 3 knows, nothing is written but all is emptied.
func TestOldKernel(t *testing.T) {
	needs(t, abiTruncate)
	old := func(text, dir string) error {
		cmd := role(free, Rules{}, "outdated", "/bin/sh", "-c", text)
		cmd.Env = append(cmd.Env, "D="+dir, rulesEntry(Rules{}))
		return cmd.Run()
	}
	dir := world(t)
	before := look(t, dir)
	require.Error(t, old(breakouts["redirection"], dir))
	require.Equal(t, before, look(t, dir))
	played.Store("empty", true)
	require.NoError(t, old(roleEnv+`=empty "$SELF" "$D/canary"`, dir))
	require.NotEqual(t, before, look(t, dir))
	assert.False(t, Support{ABI: abiTruncate - 1}.Enforced())
}
