package control

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxName is how many bytes the name of a socket may have.
const maxName = len(unix.RawSockaddrUnix{}.Path) - 1

// withName calls f with a name for the socket at path. For a path that is too long for a socket,
// this is one through a descriptor of its folder.
func withName(path string, f func(name string) error) error {
	if len(path) <= maxName {
		return f(path)
	}
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: filepath.Dir(path), Err: err}
	}
	defer unix.Close(dir)
	return f(fmt.Sprintf("/proc/self/fd/%d/%s", dir, filepath.Base(path)))
}

// allowed returns an error unless the process that has connected may use the socket. It must be of
// the same user or of the superuser. It must not be one that agents have started: such a process is
// below this one, or in another PID namespace, or in a sandbox that this one is not in. So the
// commands of another root's agents are kept out too. A process that cannot be looked at is refused.
func allowed(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	pidfd := -1
	ctlErr := raw.Control(func(fd uintptr) {
		if peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err != nil {
			return
		}
		pidfd, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
		if errors.Is(err, unix.ENOPROTOOPT) { // before Linux 6.5
			pidfd, err = -1, nil
		}
	})
	if pidfd >= 0 {
		defer unix.Close(pidfd)
	}
	if err := errors.Join(ctlErr, err); err != nil {
		return fmt.Errorf("the process that connects cannot be looked at: %w", err)
	}
	if int(peer.Uid) != os.Geteuid() && peer.Uid != 0 {
		return fmt.Errorf("user %d may not use the socket of user %d", peer.Uid, os.Geteuid())
	}
	if err := outside(int(peer.Pid)); err != nil {
		return err
	}
	if pidfd >= 0 { // what was looked at is not a later process with the same pid
		if err := unix.PidfdSendSignal(pidfd, 0, nil, 0); err != nil && !errors.Is(err, unix.EPERM) {
			return errors.New("the process that connects has ended")
		}
	}
	return nil
}

// outside returns an error unless the process pid runs outside of this process and of each sandbox
// that this one is not in.
func outside(pid int) error {
	const foreign = "a process in another PID namespace may not use the socket"
	if pid <= 0 {
		return errors.New(foreign)
	}
	if pid == os.Getpid() {
		return nil
	}
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return errors.New("the process that connects cannot be looked at: /proc is not of this PID namespace")
	}
	own, err := look("self")
	if err != nil {
		return err
	}
	it, err := look(strconv.Itoa(pid))
	switch {
	case err != nil:
		return err
	case it.spaces != own.spaces:
		return errors.New(foreign)
	case it.locked > own.locked || it.filters > own.filters:
		return errors.New("a process in a sandbox may not use the socket")
	}
	for at := it.parent; at > 0; {
		if at == os.Getpid() {
			return errors.New("a process that was started by the root may not use its socket")
		}
		up, err := look(strconv.Itoa(at))
		if errors.Is(err, fs.ErrNotExist) && errors.Is(unix.Kill(at, 0), unix.EPERM) {
			return nil // of another user, and hidden: not below this one
		}
		if err != nil {
			return err
		}
		at = up.parent
	}
	return nil
}

// status is what /proc tells of a process.
type status struct {
	parent  int // pid
	spaces  int // PID namespaces that it is in, as far as they are below the one of /proc
	locked  int // 1 if it can gain no privileges any more: a sandbox forbids that, and for ever
	filters int // of system calls; a sandbox adds some, and none can be removed
}

// look returns the status of a process.
func look(pid string) (status, error) {
	var s status
	text, err := os.ReadFile("/proc/" + pid + "/status")
	if err == nil {
		s, err = parseStatus(text)
	}
	if err != nil {
		err = fmt.Errorf("the process that connects cannot be looked at: %w", err)
	}
	return s, err
}

// parseStatus reads a file status of /proc. A kernel leaves out lines about what it does not have.
func parseStatus(text []byte) (s status, err error) {
	found := false
	for line := range bytes.Lines(text) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		fields := bytes.Fields(value)
		if len(fields) == 0 {
			continue
		}
		number := func() (n int) {
			n, numErr := strconv.Atoi(string(fields[0]))
			err = errors.Join(err, numErr)
			return n
		}
		switch string(name) {
		case "PPid":
			s.parent, found = number(), true
		case "NSpid":
			s.spaces = len(fields)
		case "NoNewPrivs":
			s.locked = number()
		case "Seccomp", "Seccomp_filters": // the mode, and since Linux 5.9 also the number
			s.filters = number()
		case "State":
			if state := fields[0][0]; state == 'Z' || state == 'X' {
				err = errors.Join(err, errors.New("it has ended"))
			}
		}
	}
	if !found {
		err = errors.Join(err, errors.New("it has no parent"))
	}
	return s, err
}
