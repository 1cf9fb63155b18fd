package faces

import (
	"strings"
	"testing"
	"time"
)

// TestStop: Control-Z takes the block and the transcript off the screen; fg shows them again.
func TestStop(t *testing.T) {
	w := newWorld(t, delegation(3, time.Minute)...)
	p := w.tmux(80, 24)
	press := func(keys ...string) {
		t.Helper()
		p.run(append([]string{"send-keys"}, keys...)...)
	}
	clean := func(rows []string) bool {
		all := strings.Join(rows, "\n")
		return strings.Contains(all, "Stopped") && rows[len(rows)-1] == ">" && !strings.Contains(all, "●") &&
			!strings.Contains(all, "at work") && !strings.Contains(all, "transcript of") &&
			p.run("display-message", "-p", "#{alternate_on} #{cursor_flag}") == "0 1\n"
	}
	press("clear; "+w.bin+" '[[hand on]]'", "Enter")
	p.until("a block", func(rows []string) bool { return whole(rows, 3) })
	press("C-z")
	p.until("stopped", clean)
	press("clear; fg", "Enter")
	p.shows("3 at work")
	press("Down")
	p.shows("› ●")
	press("Enter")
	p.shows("transcript of")
	press("C-z")
	p.until("stopped in a transcript", clean)
	press("clear; fg", "Enter")
	p.shows("transcript of")
	press("q")
	p.shows("3 at work")
}
