package shell

import (
	"os"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// The size of the terminal. Programs cut their lines to its width, so it is a
// wide one.
const (
	columns = 200
	rows    = 50
)

// openTerminal opens a pseudo-terminal. tty is the end for the command; screen, the end from
// which its output is read, supports deadlines.
func openTerminal() (screen, tty *os.File, err error) {
	ptmx, tty, err := pty.Open()
	if err != nil {
		return nil, nil, err
	}
	defer ptmx.Close()
	defer func() {
		if err != nil {
			tty.Close()
		}
	}()
	if err := pty.Setsize(ptmx, &pty.Winsize{Rows: rows, Cols: columns}); err != nil {
		return nil, nil, err
	}
	if err := neverWait(tty); err != nil {
		return nil, nil, err
	}
	// The library has made the file a blocking one, which has no deadlines.
	fd, err := unix.FcntlInt(ptmx.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, nil, err
	}
	return os.NewFile(uintptr(fd), ptmx.Name()), tty, nil
}

// neverWait makes each read from tty return at once, as at the end of a file. A program that asks
// for a password reads from its terminal even if it has no input.
func neverWait(tty *os.File) error {
	mode, err := unix.IoctlGetTermios(int(tty.Fd()), getMode)
	if err != nil {
		return err
	}
	mode.Lflag &^= unix.ICANON
	mode.Cc[unix.VMIN], mode.Cc[unix.VTIME] = 0, 0
	return unix.IoctlSetTermios(int(tty.Fd()), setMode, mode)
}
