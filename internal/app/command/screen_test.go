package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/command/block"
)

// display is a Screen with outputs that end in files, so that a test sees what was written.
type display struct {
	*Screen
	t        *testing.T
	out, err *Output // both on the terminal
	script   *Output // in another file
}

func newDisplay(t *testing.T) *display {
	t.Helper()
	open := func(name string) *os.File {
		f, err := os.OpenFile(filepath.Join(t.TempDir(), name), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
		require.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	s, tty := NewScreen(), open("tty")
	d := &display{Screen: s, t: t, out: s.Output(tty), err: s.Output(tty), script: s.Output(open("script"))}
	d.out.terminal, d.err.terminal = true, true
	return d
}

// shows returns what was written to o.
func (d *display) shows(o *Output) string {
	d.t.Helper()
	text, err := os.ReadFile(o.file.Name())
	require.NoError(d.t, err)
	return string(text)
}

func (d *display) hold() (release func()) {
	d.t.Helper()
	release, err := d.Hold(d.t.Context())
	require.NoError(d.t, err)
	return release
}

func say(t *testing.T, o *Output, text string) {
	t.Helper()
	n, err := o.WriteString(text)
	require.NoError(t, err)
	require.Equal(t, len(text), n)
}

// While the screen is held nothing comes to the terminal; afterwards all does, in order. A file does not wait.
func TestScreenHold(t *testing.T) {
	d := newDisplay(t)
	say(t, d.out, "before\n")
	release := d.hold()
	say(t, d.out, "answer of 1")
	say(t, d.err, "note\n")
	say(t, d.script, "for a script\n")
	say(t, d.out, "answer of 2\n")
	assert.Equal(t, "before\n", d.shows(d.out))
	assert.Equal(t, "for a script\n", d.shows(d.script))
	release()
	assert.Equal(t, "before\nanswer of 1note\nanswer of 2\n", d.shows(d.out))
	say(t, d.out, "after\n")
	assert.True(t, strings.HasSuffix(d.shows(d.out), "2\nafter\n"))
}

// What is held back has a bound: beyond it a writer waits.
func TestScreenBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisplay(t)
		release := d.hold()
		text := strings.Repeat("x", maxHeld/2)
		said := 0
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 4 {
				fmt.Fprint(d.out.Raw(), text)
				said++
			}
		})
		synctest.Wait()
		assert.Equal(t, 2, said)
		release()
		wg.Wait()
		d.Drain()
		assert.Len(t, d.shows(d.out), 4*len(text))

		release = d.hold()
		fmt.Fprint(d.out.Raw(), text+text+text)
		release()
		assert.Len(t, d.shows(d.out), 7*len(text), "one long text needs not wait")
	})
}

// Only one holds the screen. Who waits for it can give up.
func TestScreenHoldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisplay(t)
		release := d.hold()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := d.Hold(ctx)
			assert.ErrorIs(t, err, context.Canceled)
		})
		held := false
		wg.Go(func() {
			next := d.hold()
			held = true
			next()
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		assert.False(t, held)
		say(t, d.out, "between\n")
		release()
		wg.Wait()
		assert.True(t, held)
		assert.Equal(t, "between\n", d.shows(d.out))
	})
}

// A question comes before text that is kept, so that a stream of text does not keep it away. If it is not needed any
// more, the text comes all the same.
func TestScreenHoldBeforeText(t *testing.T) {
	for _, needed := range []bool{true, false} {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		s := NewScreen()
		out := s.Output(w)
		out.terminal = true
		long := strings.Repeat("x", 1<<20) // more than a pipe holds: its write waits for the reader
		read := func(text string) {
			t.Helper()
			got := make([]byte, len(text))
			_, err := io.ReadFull(r, got)
			require.NoError(t, err)
			require.Equal(t, text, string(got))
		}
		is := func(what func() bool) {
			t.Helper()
			require.Eventually(t, func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				return what()
			}, 10*time.Second, time.Millisecond)
		}
		var wg sync.WaitGroup
		wg.Go(func() { say(t, out, long) })
		is(func() bool { return s.busy })
		say(t, out, "kept"+long)
		ctx, cancel := context.WithCancel(t.Context())
		held := make(chan func(), 1)
		wg.Go(func() {
			if release, err := s.Hold(ctx); err == nil {
				held <- release
			}
		})
		is(func() bool { return s.next == 1 })
		if needed {
			read(long)
			select {
			case release := <-held:
				wg.Go(release)
			case <-time.After(10 * time.Second):
				assert.Fail(t, "the question waits for the text")
			}
			read("kept" + long)
		} else {
			cancel()
			read(long + "kept" + long)
		}
		wg.Wait()
		s.Drain()
		cancel()
		require.NoError(t, errors.Join(w.Close(), r.Close()))
	}
}

// row returns what draws a status line.
func row(text string) string { return block.Wipe + "\x1b[?7l" + text + "\x1b[?7h\r" }

// The status line is below all text, and away while the screen is held.
func TestScreenStatus(t *testing.T) {
	d := newDisplay(t)
	d.err.Status("1/2")
	say(t, d.out, "one\n")
	assert.Equal(t, row("1/2")+block.Wipe+"one\n"+row("1/2"), d.shows(d.out))
	before := d.shows(d.out)
	release := d.hold()
	d.err.Status("2/2 \x1b[2J")
	say(t, d.out, "two\n")
	assert.Equal(t, before+block.Wipe, d.shows(d.out))
	release()
	assert.Equal(t, before+block.Wipe+"two\n"+row("2/2 [2J"), d.shows(d.out))
	d.err.Status("")
	say(t, d.out, "end\n")
	assert.True(t, strings.HasSuffix(d.shows(d.out), row("2/2 [2J")+block.Wipe+"end\n"))
}

// Where the status line goes to a file, results may go to the same one.
func TestScreenStatusInFile(t *testing.T) {
	d := newDisplay(t)
	d.script.Status("1/2")
	say(t, d.Output(d.script.file), "one\x1b\n")
	assert.Equal(t, row("1/2")+block.Wipe+"one\x1b\n"+row("1/2"), d.shows(d.script))
}

// A terminal gets nothing that it would obey but what qq itself says; a file gets every byte.
func TestScreenPrintable(t *testing.T) {
	d := newDisplay(t)
	const text = "a\x1b[31mb\r\x9b\u009b31m\u202ec\td\xff\n"
	say(t, d.out, text)
	say(t, d.script, text)
	assert.Equal(t, "a[31mb\ufffd31mc\td\ufffd\n", d.shows(d.out))
	assert.Equal(t, text, d.shows(d.script))
	_, err := fmt.Fprint(d.out.Raw(), "\x1b[2mdim\x1b[0m")
	require.NoError(t, err)
	assert.True(t, strings.HasSuffix(d.shows(d.out), "\x1b[2mdim\x1b[0m"))
}

// An error of a write that was put off comes with the next one.
func TestScreenError(t *testing.T) {
	d := newDisplay(t)
	release := d.hold()
	say(t, d.out, "lost")
	require.NoError(t, d.out.file.Close())
	release()
	_, err := d.out.WriteString("x")
	assert.ErrorIs(t, err, os.ErrClosed)
}

// Writers do not mix their texts, whoever holds the screen meanwhile.
func TestScreenManyWriters(t *testing.T) {
	d := newDisplay(t)
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := range 50 {
				say(t, d.out, fmt.Sprintf("%d says %d\n", n, i))
				d.err.Status(fmt.Sprint(n))
			}
		})
		wg.Go(func() { d.hold()() })
	}
	wg.Wait()
	d.err.Status("")
	d.Drain()
	next := map[int]int{}
	for line := range strings.Lines(d.shows(d.out)) {
		if i := strings.LastIndex(line, block.Wipe); i >= 0 {
			line = line[i+len(block.Wipe):]
		}
		var n, i int
		if _, err := fmt.Sscanf(line, "%d says %d\n", &n, &i); err == nil {
			require.Equal(t, next[n], i)
			next[n]++
		}
	}
	for n := range 8 {
		assert.Equal(t, 50, next[n])
	}
}

// erase removes a block of several lines.
const erase = "\x1b7\x1b[C\x1b[J\x1b8\x1b[K"

// A block of several lines is drawn at most ten times a second, and only what has changed. Text that would move it
// waits as long. While the screen is held it is away.
func TestScreenBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisplay(t)
		shown := ""
		shows := func(more string) {
			t.Helper()
			synctest.Wait()
			shown += more
			require.Equal(t, shown, d.shows(d.out))
		}
		d.err.Block([]string{"one", "two\x1b[2J"})
		shows("\x1bD\x1bD\x1b[2A\x1b7\x1b[?7l\x1b[1B\rone\x1b[K\x1b[1B\rtwo[2J\x1b[K\x1b8\x1b[?7h")
		for i := range 100 {
			d.err.Block([]string{"one", fmt.Sprint(i)})
		}
		say(t, d.out, "text\n")
		shows("")
		time.Sleep(frame)
		shows(erase + "text\n\x1bD\x1bD\x1b[2A\x1b7\x1b[?7l\x1b[1B\rone\x1b[K\x1b[1B\r99\x1b[K\x1b8\x1b[?7h")
		time.Sleep(frame)
		d.err.Block([]string{"one", "98"})
		shows("\x1b7\x1b[?7l\x1b[2B\x1b[2G8\x1b[K\x1b8\x1b[?7h")
		release := d.hold()
		shows(erase)
		d.err.Block([]string{"1", "2"})
		say(t, d.out, "after")
		time.Sleep(time.Second)
		shows("")
		release()
		shows("after\x1bD\x1bD\x1b[2A\x1b7\x1b[?7l\x1b[1B\r1\x1b[K\x1b[1B\r2\x1b[K\x1b8\x1b[?7h")
		d.err.Block(nil)
		shows(erase)
		d.Drain()
	})
}

// What waits for the next frame is written at the end, and text of any length does not wait.
func TestScreenBlockEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisplay(t)
		d.err.Block([]string{"one", "two"})
		long := strings.Repeat("x", maxPending) + "\n"
		say(t, d.out, long)
		assert.Contains(t, d.shows(d.out), erase+long)
		say(t, d.out, "end\n")
		d.Drain()
		assert.Contains(t, d.shows(d.out), "end\n")
		d.err.Block(nil)
	})
}
