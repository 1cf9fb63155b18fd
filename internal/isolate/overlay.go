package isolate

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"qq/internal/sandbox"
	"qq/pkg/proc"
	"qq/pkg/task"
)

// ours reports whether the file that info is about has the user and group of this process.
func ours(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid() && int(st.Gid) == os.Getegid()
}

// overlay mounts an overlay: in this process if it may mount, else by a process in a user namespace.
func (t *Tree) overlay(l sandbox.Layers) (*os.File, error) {
	f, err := l.Mount()
	if !errors.Is(err, unix.EPERM) {
		return f, err
	}
	if err := t.owned(); err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	for _, fd := range pair {
		unix.CloseOnExec(fd)
	}
	mine, yours := pair[0], os.NewFile(uintptr(pair[1]), "socket")
	defer unix.Close(mine)
	defer yours.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	defer read.Close()
	defer write.Close()
	args, env := l.MountArgs(3)
	p, err := t.Host.Start(proc.Command{
		Path: t.Exe, Args: args, Env: []string{env}, Dir: "/", Stderr: write, Extra: []*os.File{yours},
		Namespace: true, Overlays: true, Marker: "QQ_COMMAND_ID_MOUNT=" + task.NewID(),
	})
	if err != nil {
		return nil, err
	}
	write.Close()
	yours.Close()
	said, _ := io.ReadAll(io.LimitReader(read, 4096))
	if exit := p.Wait(); exit.Code != 0 {
		return nil, errors.New(strings.TrimPrefix(strings.TrimSpace(string(said)), "qq: sandbox: "))
	}
	return receive(mine)
}

// receive returns the file that was sent over a socket.
func receive(socket int) (*os.File, error) {
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, make([]byte, 1), control, 0)
	if err != nil {
		return nil, fmt.Errorf("receive an overlay: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return nil, errors.New("no overlay was received")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.New("no overlay was received")
	}
	unix.CloseOnExec(fds[0])
	return os.NewFile(uintptr(fds[0]), "overlay"), nil
}

// mountBelow returns an error about a mount in a folder: an overlay would show an empty folder there.
func mountBelow(dir string) error {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer f.Close()
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 4 {
			if at := unescape.Replace(fields[4]); at != dir && sandbox.Within(at, dir) {
				return fmt.Errorf("another file system is mounted at %s", at)
			}
		}
	}
	return nil
}

// whiteout reports whether info is about what stands for a removed file in the upper folder of an overlay.
func whiteout(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode()&fs.ModeCharDevice != 0 && st.Rdev == 0
}

// opaque reports whether a folder in the upper one of an overlay hides that of the tree.
func opaque(path string) bool {
	value := make([]byte, 1)
	n, err := unix.Lgetxattr(path, "user.overlay.opaque", value)
	return err == nil && n == 1 && value[0] == 'y'
}
