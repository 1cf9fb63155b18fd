package dialog

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// hide stops the terminal from showing what is typed, until shown is called.
func hide(tty int) (shown func(), err error) {
	mode, err := unix.IoctlGetTermios(tty, getMode)
	if err != nil {
		return nil, fmt.Errorf("read the mode of the terminal: %w", err)
	}
	hidden := *mode
	hidden.Lflag &^= unix.ECHO
	if err := unix.IoctlSetTermios(tty, setMode, &hidden); err != nil {
		return nil, fmt.Errorf("set the mode of the terminal: %w", err)
	}
	return func() { _ = unix.IoctlSetTermios(tty, setMode, mode) }, nil
}
