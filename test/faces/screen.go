// Package faces replays what qq writes to a terminal on an emulator of one, and compares what a person would see with what
// they should see.
package faces

import (
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/vt"

	"qq/internal/app/columns"
)

// Screen is the screen of an emulated terminal.
type Screen struct {
	*vt.Emulator

	unread string // the beginning of a control sequence or of a character
	full   bool   // the last character of the row is a wide one
}

// NewScreen returns an empty screen of that size.
func NewScreen(columns, rows int) *Screen {
	s := &Screen{Emulator: vt.NewEmulator(columns, rows)}
	s.SetScrollbackSize(100_000)
	return s
}

// Print writes text as a program does whose terminal driver makes each newline a return and a line feed.
func (s *Screen) Print(text string) { s.Replay(strings.ReplaceAll(text, "\n", "\r\n")) }

// Replay writes what came out of a terminal driver.
func (s *Screen) Replay(text string) {
	text = s.unread + text
	s.unread = ""
	at := 0 // what is before it was written
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == '\x1b' {
			n = sequence(text[i:])
		}
		if n == 0 || !utf8.FullRuneInString(text[i:]) {
			text, s.unread = text[:i], text[i:]
			break
		}
		if wide := columns.Rune(r); r < ' ' {
			s.full = false
		} else if wide == 2 || wide == 1 && s.full {
			s.put(text[at:i])
			at = i
			s.wrap(wide)
		}
		i += n
	}
	s.put(text[at:])
}

// put gives text to the emulator, which has no errors.
func (s *Screen) put(text string) { _, _ = s.WriteString(text) }

// wrap does what the emulator leaves out: a wide character that does not fit into its row goes to the next one, and so
// does what follows a wide one at the end of a row.
func (s *Screen) wrap(wide int) {
	x := s.CursorPosition().X
	if s.full || x == s.Width()-1 {
		s.put("\r\n")
		x = 0
	}
	s.full = wide == 2 && x == s.Width()-2
}

// sequence returns the length of the control sequence that text begins with; 0 if its end is missing.
func sequence(text string) int {
	if len(text) > 1 && text[1] != '[' {
		return 2
	}
	for i := 2; i < len(text); i++ {
		if text[i] >= '@' && text[i] <= '~' {
			return i + 1
		}
	}
	return 0
}

// Row returns the text of a row of the screen, without the blanks at its end.
func (s *Screen) Row(y int) string {
	var b strings.Builder
	for x := 0; x < s.Width(); x++ {
		c := s.CellAt(x, y)
		if c == nil || c.Width == 0 { // the second half of a wide character
			continue
		}
		b.WriteString(c.Content)
	}
	return strings.TrimRight(b.String(), " ")
}

// Rows returns all rows of the screen.
func (s *Screen) Rows() []string {
	rows := make([]string, s.Height())
	for y := range rows {
		rows[y] = s.Row(y)
	}
	return rows
}

// Above returns the last n rows above the one of the cursor, and that one, also those that have left the screen.
func (s *Screen) Above(n int) []string {
	var rows []string
	gone := s.ScrollbackLen()
	y := s.CursorPosition().Y
	for i := max(gone+y-n, 0); i <= gone+y; i++ {
		if i >= gone {
			rows = append(rows, s.Row(i-gone))
			continue
		}
		var b strings.Builder
		for x := 0; x < 1000; x++ {
			c := s.ScrollbackCellAt(x, i)
			if c == nil {
				break
			}
			if c.Width > 0 {
				b.WriteString(c.Content)
			}
		}
		rows = append(rows, strings.TrimRight(b.String(), " "))
	}
	return rows
}

// Below returns the rows below the one of the cursor, without the empty ones at the end; nil if there are none.
func (s *Screen) Below() []string {
	rows := s.Rows()[s.CursorPosition().Y+1:]
	for len(rows) > 0 && rows[len(rows)-1] == "" {
		rows = rows[:len(rows)-1]
	}
	if len(rows) == 0 {
		return nil
	}
	return rows
}
