package control

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"qq/pkg/task"
)

// maxName is how many bytes the name of a socket may have.
const maxName = len(unix.RawSockaddrUnix{}.Path) - 1

// withName calls f with the name of the socket at path.
func withName(path string, f func(name string) error) error {
	if len(path) > maxName {
		return task.Hinted("set QQ_HOME to a shorter path",
			"the path of the control socket has %d bytes, at most %d", len(path), maxName)
	}
	return f(path)
}

// allowed returns an error unless the process that has connected is of the same user or of the
// superuser.
func allowed(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Xucred
	ctlErr := raw.Control(func(fd uintptr) {
		peer, err = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	})
	if err := errors.Join(ctlErr, err); err != nil {
		return fmt.Errorf("the process that connects cannot be looked at: %w", err)
	}
	if int(peer.Uid) != os.Geteuid() && peer.Uid != 0 {
		return fmt.Errorf("user %d may not use the socket of user %d", peer.Uid, os.Geteuid())
	}
	return nil
}
