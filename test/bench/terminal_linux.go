package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// promptLimit is how long a question may take to appear.
const promptLimit = 30 * time.Second

// openTerminal makes a pseudo-terminal: what a person sees and types, and the
// end for the program.
func openTerminal() (person, program *os.File, err error) {
	// Non-blocking, so that a read of it has a deadline.
	fd, err := syscall.Open("/dev/ptmx", syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("open /dev/ptmx", err)
	}
	person = os.NewFile(uintptr(fd), "/dev/ptmx")
	var locked, number int32
	for request, value := range map[uintptr]*int32{syscall.TIOCSPTLCK: &locked, syscall.TIOCGPTN: &number} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(value))); errno != 0 {
			return nil, nil, errors.Join(os.NewSyscallError("make a terminal", errno), person.Close())
		}
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, errors.Join(err, person.Close())
	}
	return person, program, nil
}

// answerOnce waits at the terminal for a text and types an answer.
func answerOnce(ctx context.Context, person *os.File, text, answer string) error {
	deadline := time.Now().Add(promptLimit)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := person.SetReadDeadline(deadline); err != nil {
		return err
	}
	var seen strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(seen.String(), text) {
		n, err := person.Read(buf)
		seen.Write(buf[:n])
		if err != nil {
			return fmt.Errorf("wait for %q on the terminal: %w\n%s", text, err, seen.String())
		}
	}
	_, err := person.WriteString(answer)
	return err
}
