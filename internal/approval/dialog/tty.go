package dialog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"qq/internal/approval"
	"qq/internal/terminal"
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

// errResumed says that the process was stopped, by Control-Z for example, and goes on in the foreground.
var errResumed = errors.New("the process was stopped and goes on")

// settleTime is how long after a line is read the news may come that the process was stopped before.
var settleTime = 50 * time.Millisecond

// watch makes await return when ctx ends, when the process goes on after a stop and when the questions of desk change,
// which may be nil. The caller must call stop before the next question.
func (p *Terminal) watch(ctx context.Context, desk approval.Desk) (stop func()) {
	ended := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		defer close(ended)
		p.rouse()
	})
	done := make(chan struct{})
	var telling sync.WaitGroup
	if p.screen != nil {
		select {
		case <-p.screen.Resumed(): // before the question
		default:
		}
		telling.Go(func() { p.tellResumed(done) })
	}
	if desk != nil {
		telling.Go(func() { p.tellChanged(desk, done) })
	}
	return func() {
		if !unhook() {
			<-ended
		}
		close(done)
		telling.Wait()
		p.wasResumed()
		p.drain()
	}
}

// tellResumed makes await return each time the process goes on after a stop, until done.
func (p *Terminal) tellResumed(done <-chan struct{}) {
	for {
		select {
		case <-p.screen.Resumed():
		case <-done:
			return
		}
		select {
		case p.resumed <- struct{}{}:
			p.rouse()
		default:
		}
	}
}

// tellChanged makes await return each time the questions of desk change, until done.
func (p *Terminal) tellChanged(desk approval.Desk, done <-chan struct{}) {
	for {
		changed := desk.Changed()
		p.rouse()
		select {
		case <-changed:
		case <-done:
			return
		}
	}
}

// rouse makes await look at what has happened.
func (p *Terminal) rouse() { _, _ = p.call.Write([]byte{0}) }

// drain takes back what rouse did. It reads only what is there: a read of an empty pipe would never return.
func (p *Terminal) drain() {
	roused := []unix.PollFd{{Fd: int32(p.wake.Fd()), Events: unix.POLLIN}}
	for {
		switch n, err := unix.Poll(roused, 0); {
		case n > 0:
			_, _ = p.wake.Read(make([]byte, 1))
		case err == nil || !again(err):
			return
		}
	}
}

// wasResumed reports whether the process was stopped and goes on, since it was last asked.
func (p *Terminal) wasResumed() bool {
	select {
	case <-p.resumed:
		return true
	default:
		return false
	}
}

// exchange shows text, discards what was typed until now, which was not meant as an answer, and returns the line that
// is typed after choice. With fresh the text is new to the person: choice follows when the keyboard is quiet. After
// errResumed the person may have lost sight of the text: the caller shows it again.
func (p *Terminal) exchange(ctx context.Context, text, choice string, fresh bool) (string, error) {
	if err := p.write(ctx, text); err != nil {
		return "", err
	}
	if fresh {
		if err := p.listen(ctx); err != nil {
			return "", err
		}
	}
	if err := terminal.Flush(p.tty); err != nil {
		return "", fmt.Errorf("drop what was typed before the question: %w", err)
	}
	if err := p.write(ctx, choice); err != nil {
		return "", err
	}
	line, err := p.readLine(ctx)
	if err != nil {
		return "", err
	}
	select {
	case <-p.resumed: // the line was typed for the shell
		return "", errResumed
	case <-time.After(settleTime):
		return line, nil
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
// error of ctx if that ends first, and errResumed if the process was stopped before. While one question is
// shown, it returns errSeveral when others are open. In the background
// it goes on to wait: to touch the terminal would stop the process again.
//
// It uses select(2), because kqueue and poll do not support /dev/tty on all systems. Its
// descriptors are small numbers, as select requires, because they are opened before any child
// starts.
func (p *Terminal) await(ctx context.Context, toWrite bool) error {
	for {
		p.drain()
		if err := ctx.Err(); err != nil {
			return err
		}
		if p.wasResumed() && p.foreground() == nil {
			return errResumed
		}
		if p.desk != nil && len(p.desk.Waiting()) > 1 {
			return errSeveral
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
