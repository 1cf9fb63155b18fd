package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Mount mounts the overlay. It needs the right to mount; without it, the error is [unix.EPERM].
func (l Layers) Mount() (*os.File, error) {
	config, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("use the overlay file system: %w", err)
	}
	defer unix.Close(config)
	for _, layer := range [][2]string{{"lowerdir+", l.Lower}, {"upperdir", l.Upper}, {"workdir", l.Work}} {
		fd, err := unix.Open(layer[1], unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: layer[1], Err: err}
		}
		err = unix.FsconfigSetFd(config, layer[0], fd)
		unix.Close(fd)
		if err != nil {
			return nil, fmt.Errorf("use %s in an overlay: %w%s", layer[1], err, complaint(config))
		}
	}
	// The attributes of users, which whoever owns the files may set. An upper folder is used once, so nobody needs it
	// to be on the disk: volatile.
	for _, flag := range []string{"userxattr", "volatile"} {
		if err := unix.FsconfigSetFlag(config, flag); err != nil {
			return nil, fmt.Errorf("set %s of an overlay: %w", flag, err)
		}
	}
	if err := unix.FsconfigCreate(config); err != nil {
		return nil, fmt.Errorf("mount an overlay with its changes in %s: %w%s", l.Upper, err, complaint(config))
	}
	fd, err := unix.Fsmount(config, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOSUID)
	if err != nil {
		return nil, fmt.Errorf("mount an overlay: %w", err)
	}
	// Each process that sees the overlay gets a copy of the mount.
	copied, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("share an overlay (Linux 6.15 is needed): %w", err)
	}
	unix.Close(copied)
	return os.NewFile(uintptr(fd), "overlay"), nil
}

// complaint returns what the kernel says about a mount that failed, after a colon. One that says nothing does not know
// folders as descriptors yet.
func complaint(config int) string {
	text := make([]byte, 512)
	n, err := unix.Read(config, text)
	if err != nil || n <= 0 {
		return " (Linux 6.15 is needed)"
	}
	return ": " + strings.TrimPrefix(strings.TrimSpace(string(text[:n])), "e overlay: ")
}

// sendOverlays carries out the command of [MountArgs].
func sendOverlays(socket string) error {
	to, err := strconv.Atoi(socket)
	if err != nil || to < 3 {
		return fmt.Errorf("descriptor %q is not valid", socket)
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil { // who mounts must own the mount namespace
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	request := make([]byte, 32<<10) // three paths
	for {
		n, err := unix.Read(to, request)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return err
		}
		if err := sendOverlay(to, request[:n]); err != nil {
			return err
		}
	}
}

// sendOverlay answers a request for an overlay.
func sendOverlay(to int, request []byte) error {
	l, err := readLayers(request)
	var f *os.File
	if err == nil {
		f, err = l.Mount()
	}
	if err != nil {
		return unix.Sendmsg(to, []byte(err.Error()), nil, nil, unix.MSG_NOSIGNAL)
	}
	defer f.Close() // the overlay ends with its copy
	return unix.Sendmsg(to, []byte{0}, unix.UnixRights(int(f.Fd())), nil, unix.MSG_NOSIGNAL)
}

// enter makes the calling thread see the overlay of the order. After an error the program must not run: it would
// write to the folder itself.
func (o Order) enter() error {
	over := o.Overlay
	if over == nil {
		return nil
	}
	if err := over.attach(); err != nil {
		return fmt.Errorf("give the command its copy of %s: %w", over.Dir, err)
	}
	return nil
}

func (over Overlay) attach() error {
	dir, err := syscall.Getwd()
	if err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("part from the mounts outside: %w", err)
	}
	tree, err := unix.OpenTree(over.File, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err := errors.Join(err, unix.Close(over.File)); err != nil {
		return fmt.Errorf("open the overlay: %w", err)
	}
	at, err := pin(over.Dir)
	if err != nil {
		return errors.Join(err, unix.Close(tree))
	}
	err = unix.MoveMount(tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	if err := errors.Join(err, unix.Close(at), unix.Close(tree)); err != nil {
		return fmt.Errorf("attach the overlay: %w", err)
	}
	return syscall.Chdir(dir) // the same folder in the overlay
}
