// Package terminal makes pseudo-terminals for programs that a person would use.
package terminal

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

// Open makes a pseudo-terminal. person is the end that a person sees and types into, program the
// end for the program.
func Open() (person, program *os.File, err error) {
	// Non-blocking, so that a read of it has a deadline.
	fd, err := syscall.Open("/dev/ptmx", syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("open /dev/ptmx", err)
	}
	person = os.NewFile(uintptr(fd), "/dev/ptmx")
	var locked, number int32
	for request, value := range map[uintptr]*int32{syscall.TIOCSPTLCK: &locked, syscall.TIOCGPTN: &number} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), request,
			uintptr(unsafe.Pointer(value))); errno != 0 {
			return nil, nil, errors.Join(os.NewSyscallError("make a terminal", errno), person.Close())
		}
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, errors.Join(err, person.Close())
	}
	return person, program, nil
}
