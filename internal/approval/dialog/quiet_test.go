package dialog

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"qq/internal/approval"
)

// TestQuiet: a question cannot be answered before the keyboard was quiet for a while: not by whole lines, not by the
// end of a line whose beginning came earlier, and not by a paste after the process was stopped.
func TestQuiet(t *testing.T) {
	for name, keys := range map[string][]string{
		"lines": {"o\n", "n\n", "s\n", "o\n"}, "end of a line": {"\x1b[Btr", "y", "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			screen := make(continuing, 1)
			d := newScreen(t, false, screen)
			d.quiet = 2 * deafTime
			c := d.asks(t.Context(), question())
			for _, typed := range [][]string{keys, {strings.Repeat("o\n", 1000)}} {
				d.expect("│ go test ./...")
				for _, k := range typed {
					time.Sleep(d.quiet / 3)
					d.typed(k)
				}
				last := time.Now()
				assert.Contains(t, d.expect(choice), "\n  "+dropped+"\n")
				assert.GreaterOrEqual(t, time.Since(last), d.quiet)
				assert.Empty(t, c)
				screen <- nil // it was stopped, and goes on
			}
			d.expect(choice)
			d.typed("s\n")
			assert.Equal(t, reply{approval.Session, nil}, <-c)
		})
	}
}

// TestNeverQuiet: somebody whose keyboard is never quiet can answer at last.
func TestNeverQuiet(t *testing.T) {
	d := newScreen(t, false, nil)
	d.quiet = deafTime / 10
	c := d.asks(t.Context(), question())
	d.expect("│ go test ./...")
	for shown := false; !shown; time.Sleep(d.quiet / 20) {
		d.typed("x")
		d.mu.Lock()
		shown = strings.Contains(d.seen, choice)
		d.mu.Unlock()
	}
	d.expect(choice)
	d.typed("\n")
	d.expect(choice)
	d.typed("n\n")
	assert.Equal(t, reply{approval.No, nil}, <-c)
}

// TestQuietAfterList: the last question of a list is a new one for the person, whoever answered the others.
func TestQuietAfterList(t *testing.T) {
	h := newHall(t, 40, 80)
	h.Terminal.quiet = deafTime
	h.asks(t.Context(), 1, "")
	h.asks(t.Context(), 2, "")
	h.sees(row(1, true), row(2, false))
	assert.NoError(t, h.queue.Answer(h.id(1), approval.No, approval.BySocket))
	h.expect("coder 00000002 asks: run_pty_cmd (executes")
	time.Sleep(deafTime / 10)
	h.typed("o\n")
	h.shows("\n  " + dropped + "\n")
	h.alone(2)
	h.typed("n\n")
	assert.Equal(t, map[string]string{"1": "no socket", "2": "no terminal"}, h.answered())
}
