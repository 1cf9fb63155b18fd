package terminal

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"qq/internal/terminal/keys"
)

// chunk is how many bytes are read at once. The kernel keeps at most 4096 for a terminal.
const chunk = 4096

// read reads keys and delivers them.
func (t *Terminal) read() {
	var d keys.Decoder
	buf := make([]byte, chunk)
	for {
		ready, open := t.await(d.Wait())
		if !open {
			return
		}
		var pressed []keys.Key
		if !ready {
			pressed = d.Flush()
		} else {
			n, err := t.take(buf)
			switch {
			case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
				continue
			case err != nil || n == 0: // hung up
				t.tell(Event{Kind: Closed})
				return
			}
			pressed = d.Feed(buf[:n])
		}
		for _, key := range pressed {
			t.tell(Event{Kind: Key, Key: key})
		}
	}
}

// take reads what is typed, unless that belongs to others now.
func (t *Terminal) take(buf []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.normal == nil || !t.foreground() {
		return 0, unix.EAGAIN
	}
	return unix.Read(t.tty, buf)
}

// await waits until something is typed, and reports that as ready. It is not ready after the limit, if that is not 0.
// open is false when the terminal is closed.
//
// It uses select(2), because kqueue and poll do not support /dev/tty on all systems.
func (t *Terminal) await(limit time.Duration) (ready, open bool) {
	var until time.Time
	if limit > 0 {
		until = time.Now().Add(limit)
	}
	behind := false
	for {
		t.mu.Lock()
		was := behind
		if behind = t.on && !t.foreground(); was && !behind && t.on {
			_ = t.raw() // some shells send no SIGCONT to a job that runs
		}
		closed, reads := t.closed, t.normal != nil
		t.mu.Unlock()
		if closed {
			return false, false
		}
		left := time.Duration(-1)
		if limit > 0 {
			if left = time.Until(until); left <= 0 {
				return false, true
			}
		}
		if behind {
			reads = false
			if left < 0 || left > backgroundWait {
				left = backgroundWait
			}
		}
		if t.wait(reads, left) {
			return true, true
		}
	}
}

// wait waits for the terminal, if reads is set, and for a call of rouse, at most so long; a negative time means no
// limit. It reports whether the terminal can be read.
func (t *Terminal) wait(reads bool, limit time.Duration) bool {
	wake := int(t.wake.Fd())
	if max(t.tty, wake) >= unix.FD_SETSIZE {
		time.Sleep(backgroundWait) // never: both were opened before any child
		return reads
	}
	var set unix.FdSet
	set.Set(wake)
	if reads {
		set.Set(t.tty)
	}
	var timeout *unix.Timeval
	if limit >= 0 {
		value := unix.NsecToTimeval(int64(limit))
		timeout = &value
	}
	if _, err := unix.Select(max(t.tty, wake)+1, &set, nil, nil, timeout); err != nil {
		if !errors.Is(err, unix.EINTR) {
			time.Sleep(backgroundWait)
		}
		return false
	}
	if set.IsSet(wake) {
		_, _ = unix.Read(wake, make([]byte, 64))
	}
	return set.IsSet(t.tty)
}

// rouse makes wait return.
func (t *Terminal) rouse() { _, _ = t.call.Write([]byte{0}) }
