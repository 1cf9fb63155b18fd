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

// Mounter mounts overlays over one folder, the tree. Several goroutines may use it.
type Mounter struct {
	host  *proc.Host
	exe   string       // the path of this program
	owned func() error // why a user namespace does not help, see foreign

	mu     sync.Mutex // held while an overlay is mounted
	helper *helper    // nil if none runs
}

// NewMounter returns a Mounter for a tree. exe is the path of this program, whose main calls [sandbox.Exec].
func NewMounter(host *proc.Host, exe, tree string) *Mounter {
	return &Mounter{host: host, exe: exe, owned: sync.OnceValue(func() error { return foreign(tree) })}
}

// Mount mounts an overlay: in this process if it may mount, else by a process in a user namespace, which stays for the
// next ones until Close.
func (m *Mounter) Mount(l sandbox.Layers) (*os.File, error) {
	f, err := l.Mount()
	if !errors.Is(err, unix.EPERM) {
		return f, err
	}
	if err := m.owned(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		fresh := m.helper == nil
		if fresh {
			if m.helper, err = start(m.host, m.exe); err != nil {
				return nil, err
			}
		}
		f, err = m.helper.ask(l)
		if !errors.Is(err, errEnded) {
			return f, err
		}
		why := m.helper.end()
		if m.helper = nil; fresh { // an older one may have been killed
			return nil, why
		}
	}
}

// Close ends the process that mounts. The overlays stay.
func (m *Mounter) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.helper != nil {
		_ = m.helper.end()
		m.helper = nil
	}
}

// helper is a process in a user namespace that mounts overlays.
type helper struct {
	process *proc.Process
	socket  int
	said    *os.File // its stderr
}

// errEnded says that a helper has ended.
var errEnded = errors.New("the process that mounts has ended")

func start(host *proc.Host, exe string) (*helper, error) {
	pair, err := sockets()
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	h := &helper{socket: pair[0]}
	yours := os.NewFile(uintptr(pair[1]), "socket")
	defer yours.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a pipe: %w", err), unix.Close(h.socket))
	}
	defer write.Close()
	args, env := sandbox.MountArgs(3)
	h.said = read
	h.process, err = host.Start(proc.Command{
		Path: exe, Args: args, Env: []string{env}, Dir: "/", Stderr: write, Extra: []*os.File{yours},
		Namespace: true, Overlays: true, Marker: "QQ_COMMAND_ID_MOUNT=" + task.NewID(),
	})
	if err != nil {
		return nil, errors.Join(err, read.Close(), unix.Close(h.socket))
	}
	return h, nil
}

// sockets returns two sockets that are connected. No process inherits one that another goroutine starts meanwhile: not
// all systems can make them so.
func sockets() (pair [2]int, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if pair, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0); err != nil {
		return pair, err
	}
	for _, fd := range pair {
		unix.CloseOnExec(fd)
	}
	return pair, nil
}

// ask has an overlay mounted. The error is errEnded if the process is no longer there.
func (h *helper) ask(l sandbox.Layers) (*os.File, error) {
	if _, err := unix.Write(h.socket, l.Request()); errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		return nil, errEnded
	} else if err != nil {
		return nil, fmt.Errorf("ask for an overlay: %w", err)
	}
	f, err := receive(h.socket)
	if errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) {
		return nil, errEnded
	}
	return f, err
}

// end ends the process, and returns what it said, or else errEnded.
func (h *helper) end() error {
	_ = unix.Close(h.socket)
	text, _ := io.ReadAll(io.LimitReader(h.said, 4096))
	_ = h.said.Close()
	h.process.Wait()
	if said := strings.TrimPrefix(strings.TrimSpace(string(text)), "qq: sandbox: "); said != "" {
		return errors.New(said)
	}
	return errEnded
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
