package overlayfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
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

// Mounter mounts overlays over one folder, the tree.
type Mounter struct {
	host  *proc.Host
	exe   string       // the path of this program
	owned func() error // why a user namespace does not help, see foreign
}

// NewMounter returns a Mounter for a tree. exe is the path of this program, whose main calls [sandbox.Exec].
func NewMounter(host *proc.Host, exe, tree string) *Mounter {
	return &Mounter{host, exe, sync.OnceValue(func() error { return foreign(tree) })}
}

// Mount mounts an overlay: in this process if it may mount, else by a process in a user namespace.
func (m *Mounter) Mount(l sandbox.Layers) (*os.File, error) {
	f, err := l.Mount()
	if !errors.Is(err, unix.EPERM) {
		return f, err
	}
	if err := m.owned(); err != nil {
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
	p, err := m.host.Start(proc.Command{
		Path: m.exe, Args: args, Env: []string{env}, Dir: "/", Stderr: write, Extra: []*os.File{yours},
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
	return Receive(mine)
}

// foreign returns an error about a file in the folder tree that belongs to another user or group. In a user namespace
// the kernel cannot copy such a file.
func foreign(tree string) error {
	return filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == ".git" {
			return fs.SkipDir
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !ours(info) {
			err = fmt.Errorf("%s belongs to another user or group", path)
		}
		return err
	})
}
