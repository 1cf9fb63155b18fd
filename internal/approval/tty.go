package approval

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLine is how many bytes of a typed line are kept; terminals do not pass on longer lines.
const maxLine = 4096

// size is the number of rows and columns of a terminal.
type size struct{ rows, columns int }

// size asks the terminal for its size, and assumes the usual one if the terminal does not answer.
func (p *Terminal) size() size {
	s := size{24, 80}
	if w, err := unix.IoctlGetWinsize(p.tty, unix.TIOCGWINSZ); err == nil && w.Row > 0 && w.Col > 0 {
		s = size{int(w.Row), int(w.Col)}
	}
	return s
}

// watch makes await return when ctx ends. The caller must call stop before the next question.
func (p *Terminal) watch(ctx context.Context) (stop func()) {
	unhook := context.AfterFunc(ctx, func() { _, _ = p.call.Write([]byte{0}) })
	return func() {
		if !unhook() {
			_, _ = p.wake.Read(make([]byte, 1)) // waits for the write as well
		}
	}
}

// readLine returns the text typed until Enter, with the line end and at most maxLine bytes. Control-D or a closed
// terminal gives errEOF.
func (p *Terminal) readLine(ctx context.Context) (string, error) {
	var line []byte
	buf := make([]byte, maxLine)
	for {
		if err := p.await(ctx, false); err != nil {
			return "", err
		}
		n, err := unix.Read(p.tty, buf)
		switch {
		case again(err):
			continue
		case err != nil:
			return "", fmt.Errorf("read the terminal: %w", err)
		case n == 0:
			return "", errEOF
		}
		line = append(line, buf[:min(n, maxLine-len(line))]...)
		if strings.ContainsAny(string(buf[:n]), "\r\n") {
			return string(line), nil
		}
	}
}

// write writes all of text to the terminal. It waits while the terminal takes no more, and returns the error of ctx
// if that ends first.
func (p *Terminal) write(ctx context.Context, text string) error {
	for rest := []byte(text); len(rest) > 0; {
		n, err := unix.Write(p.tty, rest)
		switch {
		case err == nil:
			rest = rest[n:]
		case !again(err):
			return fmt.Errorf("write to the terminal: %w", err)
		default: // it is slow, or halted by Control-S
			if err := p.await(ctx, true); err != nil {
				return err
			}
		}
	}
	return nil
}

func again(err error) bool { return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) }

// await waits until the terminal can be read from or, with toWrite, written to. It returns the
// error of ctx if that ends first.
//
// It uses select(2), because kqueue and poll do not support /dev/tty on all systems. Its
// descriptors are small numbers, as select requires, because they are opened before any child
// starts.
func (p *Terminal) await(ctx context.Context, toWrite bool) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		ready, err := wait(p.tty, int(p.wake.Fd()), toWrite)
		if err != nil {
			return os.NewSyscallError("select", err)
		}
		if ready {
			return ctx.Err()
		}
	}
}

// wait waits for tty or wake, and reports whether tty is ready.
func wait(tty, wake int, toWrite bool) (bool, error) {
	if max(tty, wake) >= unix.FD_SETSIZE {
		return false, unix.EMFILE
	}
	var reads, writes unix.FdSet
	reads.Set(wake)
	set := &reads
	if toWrite {
		set = &writes
	}
	set.Set(tty)
	_, err := unix.Select(max(tty, wake)+1, &reads, &writes, nil, nil)
	if errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return err == nil && set.IsSet(tty), err
}
