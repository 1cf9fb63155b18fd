package isolate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"qq/internal/isolate/overlayfs"
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
	return overlayfs.Receive(mine)
}
