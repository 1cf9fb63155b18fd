// Package terminal reads single keys from the terminal of a person, and puts the mode of the terminal back in every
// case.
//
// Flow: [Open] opens the controlling terminal and changes nothing. [Terminal.Start] changes the mode, so that each key
// comes at once and is not shown, and asks for pasted text in one piece. From then on [Terminal.Events] delivers keys,
// changes of the size, and that the process goes on after it was stopped. [Terminal.Stop] puts the mode back; the
// terminal can be started again. So a question that reads a whole line stops the terminal first.
//
// Output is not changed: a newline still begins a line at its beginning. Whoever shows something writes to the
// terminal elsewhere.
//
// The mode is put back by Stop and Close, before the process stops (Control-Z, SIGTSTP), and at once when SIGINT,
// SIGTERM or SIGHUP comes: then the program is expected to end. A panic in a goroutine that has deferred
// Close puts it back as well. Not promised: SIGKILL, and a panic in another goroutine. Both end the process by a
// signal; shells then put their own mode back.
//
// In the background of a shell nothing is read, and the mode is not changed: it belongs to others.
package terminal

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"qq/internal/terminal/keys"
)

// Kind says what an [Event] is.
type Kind int

// The kinds of events.
const (
	Key     Kind = iota // a key was pressed
	Resized             // the size has changed
	Resumed             // the process was stopped and goes on: what was drawn may be gone
	Closed              // the terminal is gone: no key will come
)

// Event is what happened at a terminal.
type Event struct {
	Kind Kind
	Key  keys.Key // of a Key
}

// Config says how a terminal is used.
type Config struct {
	// Name is the path of the terminal; empty means the controlling one.
	Name string
	// Signals leaves Control-C, Control-Z and Control-\ what they are: signals for the process. Without it they are
	// keys.
	Signals bool
	// Guest draws on the terminal; nil if nobody does, or if what is drawn may stay when the process stops.
	Guest Guest
	// Plain means a terminal that knows no control sequences: pasted text comes as if it were typed.
	Plain bool
}

// Guest is who draws on a terminal.
type Guest interface {
	// Leave removes what is drawn: the process is about to stop. A Resumed follows.
	Leave()
}

// Terminal is the controlling terminal of this process. Its methods may be called by several goroutines.
type Terminal struct {
	config Config
	tty    int // a descriptor that does not block
	wake   *os.File
	call   *os.File // writing to it makes wake readable
	events chan Event

	mu     sync.Mutex
	normal *unix.Termios // the mode before it was changed; nil if it is not changed
	on     bool          // Start was called, and not Stop
	closed bool
	done   chan struct{}  // closed by Close
	ends   sync.WaitGroup // of the goroutines
	caught chan os.Signal
}

// Pasted text is put between two marks.
const (
	marksOn  = "\x1b[?2004h"
	marksOff = "\x1b[?2004l"
)

// backgroundWait is how often a process in the background looks whether it is in the foreground.
const backgroundWait = 200 * time.Millisecond

// errBackground says that the terminal belongs to another job of the shell.
var errBackground = errors.New("the terminal belongs to another job")

// Open opens the controlling terminal. It returns an error if there is none, or if it belongs to another job.
func Open(c Config) (*Terminal, error) { return open(cmp.Or(c.Name, "/dev/tty"), c) }

func open(name string, c Config) (*Terminal, error) {
	tty, err := unix.Open(name, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	t := &Terminal{
		config: c, tty: tty, events: make(chan Event), done: make(chan struct{}), caught: make(chan os.Signal, 8),
	}
	if err = errBackground; t.foreground() {
		t.wake, t.call, err = os.Pipe()
	}
	if err != nil {
		unix.Close(tty)
		return nil, err
	}
	if _, err := unix.IoctlGetTermios(tty, getMode); err != nil {
		return nil, errors.Join(fmt.Errorf("read the mode of the terminal: %w", err), unix.Close(tty), t.wake.Close(),
			t.call.Close())
	}
	signal.Notify(t.caught, syscall.SIGWINCH, syscall.SIGCONT)
	t.ends.Go(t.read)
	t.ends.Go(t.follow)
	return t, nil
}

// Events returns the channel of what happens. It is closed by Close. Keys wait in the terminal until they are taken.
func (t *Terminal) Events() <-chan Event { return t.events }

// Size returns the number of columns and rows. A terminal that does not tell has the usual ones.
func (t *Terminal) Size() (columns, rows int) {
	w, err := unix.IoctlGetWinsize(t.tty, unix.TIOCGWINSZ)
	if err != nil || w.Col == 0 || w.Row == 0 {
		return 80, 24
	}
	return int(w.Col), int(w.Row)
}

// foreground reports whether this process may use the terminal. One that is not its controlling terminal it may use.
func (t *Terminal) foreground() bool {
	group, err := unix.IoctlGetInt(t.tty, unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}

// ending are the signals that end a program. SIGQUIT is not one of them: it may be wanted to print goroutines.
var ending = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}

// Start changes the mode of the terminal and begins to read keys. Before it, the program must handle the signals that
// end it: from now on they do not end it by themselves.
func (t *Terminal) Start() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return os.ErrClosed
	}
	if t.on {
		return nil
	}
	if err := t.raw(); err != nil {
		return err
	}
	t.on = true
	signal.Notify(t.caught, ending...)
	stops.add(t)
	t.rouse()
	return nil
}

// Stop puts the mode back and ends the reading of keys. What is typed from now on belongs to others. A key that was
// read before may still come.
func (t *Terminal) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stop()
}

func (t *Terminal) stop() {
	if !t.on {
		return
	}
	t.on = false
	t.restore()
	signal.Stop(t.caught)
	if !t.closed {
		signal.Notify(t.caught, syscall.SIGWINCH, syscall.SIGCONT)
	}
	t.rouse()
}

// Discard drops what was typed and not read yet.
func (t *Terminal) Discard() { _ = Flush(t.tty) }

// Close puts the mode back and releases the terminal.
func (t *Terminal) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	t.stop()
	stops.remove(t)
	signal.Stop(t.caught)
	close(t.done)
	t.rouse()
	t.mu.Unlock()
	t.ends.Wait()
	close(t.events)
	return errors.Join(unix.Close(t.tty), t.wake.Close(), t.call.Close())
}

// raw changes the mode. The caller holds t.mu.
func (t *Terminal) raw() error {
	if t.normal != nil {
		return nil
	}
	if !t.foreground() {
		return errBackground
	}
	normal, err := unix.IoctlGetTermios(t.tty, getMode)
	if err != nil {
		return fmt.Errorf("read the mode of the terminal: %w", err)
	}
	mode := *normal
	mode.Iflag &^= unix.ICRNL | unix.INLCR | unix.IGNCR | unix.ISTRIP | unix.IXON
	mode.Lflag &^= unix.ICANON | unix.ECHO | unix.ECHONL | unix.IEXTEN
	if !t.config.Signals {
		mode.Lflag &^= unix.ISIG
	}
	mode.Cc[unix.VMIN], mode.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(t.tty, setMode, &mode); err != nil {
		return fmt.Errorf("set the mode of the terminal: %w", err)
	}
	t.normal = normal
	t.mark(marksOn)
	return nil
}

// restore puts the mode back. The caller holds t.mu.
func (t *Terminal) restore() {
	if t.normal == nil {
		return
	}
	if t.foreground() { // else the kernel would stop this process, and the shell has put its own mode
		t.mark(marksOff)
		_ = unix.IoctlSetTermios(t.tty, setMode, t.normal)
	}
	t.normal = nil
}

// markWait is how long a mark waits for the terminal.
const markWait = 500 * time.Millisecond

// mark writes a mark. The terminal does not take it while somebody else writes to it, as the face of the process may.
func (t *Terminal) mark(text string) {
	for late := time.Now().Add(markWait); text != "" && !t.config.Plain; {
		n, err := unix.Write(t.tty, []byte(text))
		text = text[max(n, 0):]
		switch {
		case err == nil:
		case errors.Is(err, unix.EAGAIN) && time.Now().Before(late):
			time.Sleep(time.Millisecond)
		case !errors.Is(err, unix.EINTR):
			return
		}
	}
}

// Suspend stops this process and its group, as Control-Z does. [Resumed] follows. It does nothing and returns false if
// no shell could make it go on.
func (t *Terminal) Suspend() bool {
	return !alone() && !signal.Ignored(syscall.SIGTSTP) && unix.Kill(0, unix.SIGTSTP) == nil
}

// alone reports whether the group of this process is the first one of its session: nobody would make it go on.
func alone() bool {
	session, err := unix.Getsid(0)
	return err != nil || session == unix.Getpgrp()
}

// follow handles signals.
func (t *Terminal) follow() {
	for {
		select {
		case <-t.done:
			return
		case sig := <-t.caught:
			switch sig {
			case syscall.SIGWINCH:
				t.tell(Event{Kind: Resized})
			case syscall.SIGCONT:
				t.resume()
			default: // the program ends
				t.mu.Lock()
				t.stop()
				t.mu.Unlock()
			}
		}
	}
}

// resume changes the mode again after the process was stopped. Whoever made it go on may have set another one.
func (t *Terminal) resume() {
	t.mu.Lock()
	on := t.on
	if on && t.foreground() {
		if t.normal != nil { // it was stopped by SIGSTOP
			normal := t.normal
			if t.normal = nil; t.raw() == nil {
				t.normal = normal
			}
		}
		_ = t.raw()
	}
	t.rouse()
	t.mu.Unlock()
	if on {
		t.tell(Event{Kind: Resumed})
	}
}

// tell delivers e, unless the terminal is closed.
func (t *Terminal) tell(e Event) {
	select {
	case t.events <- e:
	case <-t.done:
	}
}
